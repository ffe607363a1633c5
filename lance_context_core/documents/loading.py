"""Loads the file that a caller passes."""

import asyncio
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import IO, Any, Literal, TypedDict, cast
from urllib.parse import unquote, urlsplit

from lance_context_core._util.calls import check_keywords
from lance_context_core._util.checks import check_json_object, check_name, check_text, listed, shown
from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.blobs.spool import Spooled, spool
from lance_context_core.codecs.sources import Source, Text
from lance_context_core.documents.chunking import DEFAULT_CHUNKS, Chunker, StreamingChunker
from lance_context_core.documents.readers.choosing import check_reader, reader_of, type_of
from lance_context_core.documents.reading import (
    NOTHING_SAID,
    ReadDocument,
    Reader,
    StreamingReader,
    joined,
    last_said,
)
from lance_context_core.documents.reading import checked as checked_reading
from lance_context_core.documents.scoped import SpooledText
from lance_context_core.errors import InvalidRequestError, UnreadableDocumentError
from lance_context_core.types import DocumentScope, Passage
from lance_context_core.types.media import uri_of

DocumentSource = str | Path | bytes | IO[bytes] | IO[str]
"""A path, the bytes of a file, an open file, or a URL, if `fetch` is given."""

Fetch = Callable[[str], bytes | IO[bytes]]
"""Returns the content of a URL: its bytes, or an open file."""

Kept = Literal["bytes", "uri", "hash"]
"""The parts of a file that are stored besides its text; the hash always is."""


class ReadingArguments(TypedDict, total=False):
    """How a file is read and stored: see `AsyncDocuments.add`."""

    type: str | None
    reader: Reader | None
    chunker: Chunker | None
    keep: Kept
    max_bytes: int
    fetch: Fetch | None


DEFAULTS: ReadingArguments = {
    "type": None,
    "reader": None,
    "chunker": None,
    "keep": "bytes",
    "max_bytes": 256 * 1024 * 1024,
    "fetch": None,
}


@frozen_by_name
class Loaded:
    """A file."""

    name: str
    spooled: Spooled
    uri: str | None
    properties: Mapping[str, Any] = field(default_factory=dict)
    """Properties known without a reader."""


def check_arguments(
    given: ReadingArguments, call: Callable[..., object] | None = None
) -> ReadingArguments:
    """Returns all arguments, with defaults filled in. Raises TypeError for one that `call` lacks."""
    if call is not None:
        check_keywords(given, DEFAULTS, call)
    arguments: ReadingArguments = {**DEFAULTS, **given}
    if (type := arguments["type"]) is not None:
        check_name(type, "type")
        if arguments["reader"] is None:
            reader_of(type)
    if (reader := arguments["reader"]) is not None:
        check_reader(reader, "reader")
    chunker = arguments["chunker"]
    # A text has a method of that name, too.
    is_chunker = callable(getattr(chunker, "split", None)) and not isinstance(chunker, str | bytes)
    if chunker is not None and not is_chunker:
        raise InvalidRequestError(
            f"chunker={shown(chunker)}: give a TextChunker, or an object with the method split"
        )
    if arguments["keep"] not in ("bytes", "uri", "hash"):
        raise InvalidRequestError(f"keep={shown(arguments['keep'])}: use 'bytes', 'uri' or 'hash'")
    if (fetch := arguments["fetch"]) is not None and not callable(fetch):
        raise InvalidRequestError(
            f"fetch={shown(fetch)}: give a function from a URL to the bytes that are there"
        )
    most = arguments["max_bytes"]
    if isinstance(most, bool) or not isinstance(most, int) or most < 1:
        raise InvalidRequestError(f"max_bytes={shown(most)}: give a whole number, 1 or more")
    return arguments


def load(
    source: DocumentSource,
    *,
    name: str | None,
    uri: str | None,
    max_bytes: int,
    fetch: Fetch | None = None,
) -> Loaded:
    """Reads the file once. Raises UnreadableDocumentError if it does not exist, or is too large."""
    if isinstance(source, str) and _URL.match(source) and fetch is not None:
        last = unquote(urlsplit(source).path).rstrip("/").rpartition("/")[2]
        found = _fetched(source, fetch)
        called = name or last or urlsplit(source).hostname
        return load(found, name=called, uri=uri or source, max_bytes=max_bytes)
    name = None if name is None else check_name(name, "name")
    uri = None if uri is None else check_name(uri, "uri")
    if isinstance(source, bytes | bytearray | memoryview):
        _check_size(memoryview(source).nbytes, max_bytes, name)
        spooled, own_name = Spooled.of(bytes(source)), None
    elif isinstance(source, str | os.PathLike):
        spooled, path = _at(Path(source), max_bytes)
        own_name, uri = path.name, uri or path.resolve().as_uri()
    elif callable(getattr(source, "read", None)):
        spooled = _streamed(source, max_bytes, name)
        streamed = getattr(source, "name", None)
        own_name = streamed if isinstance(streamed, str) else None
    else:
        raise InvalidRequestError(f"source={shown(source)}: give a path, bytes, or an open file")
    # The caller's file name is not a path: only its last part is used.
    plain = re.split(r"[/\\]", name or own_name or "")[-1].replace("\0", "") or "untitled"
    plain = plain.encode("utf-8", "replace").decode()
    return Loaded(name=plain, spooled=spooled, uri=uri)


_URL = re.compile("https?://", re.IGNORECASE)


def _fetched(url: str, fetch: Fetch) -> bytes | IO[bytes]:
    try:
        found: object = fetch(url)
    except Exception as error:  # any error of the caller's client
        raise UnreadableDocumentError(f"{url!r} cannot be fetched: {error}") from error
    if isinstance(found, bytes) or callable(getattr(found, "read", None)):
        return cast("bytes | IO[bytes]", found)
    raise InvalidRequestError(
        f"fetch returned {shown(found)} for {url!r}: return bytes or an open file, not a coroutine"
    )


async def loaded(
    source: DocumentSource, reading: ReadingArguments, *, name: str | None, uri: str | None
) -> Loaded:
    """As `load`, in a worker thread."""
    max_bytes, fetch = reading["max_bytes"], reading["fetch"]
    if isinstance(source, str) and _URL.match(source) and fetch is None:
        raise InvalidRequestError(
            f"source={shown(source)} is a URL, and nothing is fetched here: pass fetch=, a function "
            "from a URL to the bytes that are there"
        )
    return await asyncio.to_thread(
        load, source, name=name, uri=uri, max_bytes=max_bytes, fetch=fetch
    )


def read(
    loaded: Loaded,
    arguments: ReadingArguments,
    *,
    scope: DocumentScope,
    metadata: Mapping[str, Any],
) -> Source:
    """Reads the text of a file, and cuts it into passages."""
    spooled = loaded.spooled
    if not spooled.size:
        raise UnreadableDocumentError(f"{loaded.name!r} is empty: it has no byte")
    type, reader = arguments["type"], arguments["reader"]
    if type is None:
        if reader is None:
            type = type_of(spooled.file, loaded.name)
        else:
            type = loaded.name.rpartition(".")[2].lower() or "other"
    parts = Parts(reader or reader_of(type), loaded)
    passages = _passages(arguments["chunker"] or DEFAULT_CHUNKS, parts, loaded.name)
    title = parts.about["title"]
    return Source(
        name=loaded.name,
        type=type,
        hash=spooled.hash,
        size=spooled.size,
        text=parts.text,
        passages=passages,
        scope=scope,
        title=None if title is None else check_text(title, "title"),
        n_pages=parts.about["n_pages"],
        uri=None if arguments["keep"] == "hash" else loaded.uri,
        payload_uri=uri_of(spooled.hash) if arguments["keep"] == "bytes" else None,
        metadata=metadata,
        properties={
            **check_json_object(parts.about["properties"], "properties"),
            **loaded.properties,
        },
    )


class Parts:
    """The parts that a reader yields, and the properties known so far."""

    def __init__(self, reader: Reader, loaded: Loaded) -> None:
        """Reads nothing yet."""
        self._reader = reader
        self._loaded = loaded
        self.text: Text = ""
        """The text of the parts read so far: in memory, unless there are several."""
        self.about: dict[str, Any] = dict(NOTHING_SAID)

    def __iter__(self) -> Iterator[ReadDocument]:
        """Reads them, once. Raises UnreadableDocumentError at the end if they have no text."""
        name, is_blank = self._loaded.name, True
        spooled = SpooledText()
        for part in self._read():
            checked_reading(part, name)
            is_blank = is_blank and (not part.text or part.text.isspace())
            self.about = last_said(self.about, part)
            spooled.put(len(spooled), part.text)
            yield part
        if is_blank:
            raise UnreadableDocumentError(f"{name!r} has no text: nothing could be found in it")
        self.text = spooled

    def _read(self) -> Iterable[ReadDocument]:
        reader, name = self._reader, self._loaded.name
        if isinstance(reader, StreamingReader):
            self._loaded.spooled.file.seek(0)
            return reader.read_parts(self._loaded.spooled.file, name=name)
        return [reader.read(self._loaded.spooled.content(), name=name)]


def _passages(chunker: Chunker, parts: Parts, name: str) -> tuple[Passage, ...]:
    if isinstance(chunker, StreamingChunker):
        given: Any = chunker.split_parts(parts)
    else:
        given = chunker.split(joined(parts))
    passages = tuple(listed(given, "what the chunker returned"))
    n_characters = len(parts.text)
    for passage in passages:
        if not isinstance(passage, Passage):
            raise InvalidRequestError(f"the chunker returned {shown(passage)}: give Passages")
        if not 0 <= passage.start < passage.end <= n_characters:
            raise InvalidRequestError(
                f"the chunker returned {shown(passage)}, outside of the {n_characters} characters: "
                "return offsets within the text"
            )
    for said in {one.section for one in passages} - {None}:
        check_text(said, f"a section of {name!r}")
    if not passages:
        raise UnreadableDocumentError(f"{name!r} has no text: the chunker found no passage in it")
    return passages


def _at(path: Path, max_bytes: int) -> tuple[Spooled, Path]:
    try:
        if path.is_dir():
            raise UnreadableDocumentError(
                f"{str(path)!r} is a directory: give the files in it to add_many"
            )
        state = path.stat()
        if not stat.S_ISREG(state.st_mode):  # which may never end, or never begin
            raise UnreadableDocumentError(
                f"{str(path)!r} is a pipe or a device, no file: open it yourself, and pass that"
            )
        _check_size(state.st_size, max_bytes, path.name)
        with path.open("rb") as file:  # it may have grown
            return _streamed(file, max_bytes, path.name), path
    except (OSError, ValueError) as error:
        if isinstance(error, UnreadableDocumentError):
            raise
        raise UnreadableDocumentError(f"{str(path)!r} cannot be opened: {error}") from error


def _streamed(file: Any, max_bytes: int, name: str | None) -> Spooled:
    def parts() -> Iterator[bytes]:
        size = 0
        while part := file.read(1 << 20):
            part = part.encode() if isinstance(part, str) else part
            size += len(part)
            _check_size(size, max_bytes, name)
            yield part

    return spool(parts())


def _check_size(n_bytes: int, max_bytes: int, name: str | None) -> None:
    if n_bytes > max_bytes:
        raise UnreadableDocumentError(
            f"{name or 'the file'!r} has {n_bytes} bytes or more, over max_bytes={max_bytes}: pass a "
            "larger one if there is the memory for it"
        )
