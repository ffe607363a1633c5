"""Files as they are in the world: of the words that a second reader finds in them, ours has 99 %."""

import io
import logging
import re
import unicodedata
import warnings
from collections import Counter
from functools import cache

import pytest
from corpus import packages, second_readers

from lance_context_core.blobs.spool import Spooled
from lance_context_core.documents import HtmlReader
from lance_context_core.documents.loading import Loaded, Parts
from lance_context_core.documents.readers.choosing import reader_of, type_of
from lance_context_core.errors import UnreadableDocumentError

LOG = logging.getLogger(__name__)
"""Shown by `--log-cli-level INFO`."""

LEAST = 0.99
FEWEST = {"pdf": 60, "docx": 40, "html": 100, "pptx": 40, "xlsx": 20, "epub": 4}
"""Files of each format, so that a package that has others one day is noticed."""

# A word of Chinese, Japanese or Korean ends where nobody can see it: each of their signs is one.
_WIDE = "\u2e80-\u9fff\uac00-\ud7ff\uff66-\uff9f"
_WORD = re.compile(rf"[{_WIDE}]|[^\W{_WIDE}]+")
_PARTED = re.compile(r"(?<=\w)[-\u2010\u2011\xad]+\s*(?=\w)")
"""A hyphen, at the end of a line or not: two readers join what one parts."""


def words(text):
    plain = unicodedata.normalize("NFKC", text).lower()
    return Counter(_WORD.findall(_PARTED.sub("", plain)))


def ours(file):
    """The words that are found: those of the text, and those of the sections that are kept beside it."""
    content = file.content()
    type = type_of(io.BytesIO(content), file.name)
    spooled = Spooled.of(content)
    reader = HtmlReader(boilerplate=True) if type == "html" else reader_of(type)
    parts = Parts(reader, Loaded(name=file.name, spooled=spooled, uri=None))
    read = [(part.text, {one.section for one in part.blocks}) for part in parts]
    sections = set().union(*(named for _, named in read))
    sheets = " ".join(one.partition(" > ")[0] for one in sections if one and type == "xlsx")
    return words(f"{''.join(text for text, _ in read)} {sheets}")


@cache
def corpus():
    return packages.fetched()


def theirs(file):
    """The words that the second reader finds; None if it cannot read the file."""
    with warnings.catch_warnings(action="ignore"):
        try:
            return words("\n".join(second_readers.READERS[file.format](file.content())))
        except Exception:  # noqa: BLE001 - of libraries that are not ours
            return None


@pytest.mark.process
@pytest.mark.parametrize("format", FEWEST)
def test_99_percent_of_the_words_of_a_second_reader_are_read(format):
    n_words, n_missing, n_files, worst = 0, 0, 0, []
    for file in corpus():
        if file.format != format or (wanted := theirs(file)) is None:
            continue
        try:
            missing, why = wanted - ours(file), ""
        except UnreadableDocumentError as error:
            missing, why = wanted, str(error)
        n_files += 1
        n_words += wanted.total()
        n_missing += missing.total()
        worst.append((missing.total(), f"{file.name} {dict(missing.most_common(5))} {why}"))
    share = 1 - n_missing / max(n_words, 1)
    LOG.info("%s: %.2f %% of %d words in %d files", format, 100 * share, n_words, n_files)
    shown = "\n".join(f"{n} of {what}" for n, what in sorted(worst, reverse=True)[:10])
    assert n_files >= FEWEST[format]
    assert share >= LEAST, f"{format}: {share:.2%} of {n_words} words; missing most:\n{shown}"


def test_a_package_that_cannot_be_fetched_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(packages, "CORPUS", tmp_path)
    monkeypatch.setattr(packages, "INDEX", ("lance-context-core==999",))
    monkeypatch.setattr(packages, "DEBIAN", ())
    with pytest.raises(packages.PackageError, match=r"lance-context-core==999 cannot be fetched"):
        packages.fetched()
    assert not [one for one in tmp_path.iterdir() if not one.name.endswith(".unfinished")]
