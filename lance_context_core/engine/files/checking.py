"""Whether the files are there that the versions of a table consist of, and whole as far as one can see."""

from collections.abc import Iterator
from pathlib import Path

from lance_context_core.engine.files import manifests
from lance_context_core.engine.files.manifests import UnknownManifestError
from lance_context_core.engine.files.torn import has_ending


def damaged(table: Path, counted: set[Path]) -> Iterator[tuple[Path, str]]:
    """The files of a table that are wrong, of all its versions, branches and tags, and what is.

    Those that were looked at are added to `counted`; none of them is looked at twice. What belongs
    to a branch or tag that is deleted meanwhile is not wrong.
    """
    yield from _damaged(table, counted)
    for ref in manifests.refs(table):
        found = list(_damaged(manifests.directory_of(table, ref), counted))
        if found and manifests.file_of_ref(table, ref).exists():
            yield from found


def _damaged(directory: Path, counted: set[Path]) -> Iterator[tuple[Path, str]]:
    for number, manifest in sorted(manifests.listed(directory).items()):
        counted.add(manifest)
        try:
            manifests.require_whole(manifest, number)
            found = manifests.contents(manifest, directory)
        except UnknownManifestError as error:
            yield manifest, f"is no whole manifest: {error}"
            continue
        except FileNotFoundError:
            continue  # Others have removed the version.
        except OSError as error:
            yield manifest, f"cannot be read: {error}"
            continue
        for file, size in found.files.items():
            if file not in counted:
                counted.add(file)
                if (wrong := _wrong(file, size)) is not None and manifest.exists():
                    yield file, wrong
        for folder in found.folders:
            if folder not in counted:
                counted.add(folder)
                if not folder.is_dir() and manifest.exists():
                    yield folder, "is missing: an index was there"


def _wrong(file: Path, size: int | None) -> str | None:
    try:
        there = file.stat().st_size
        if size is not None and there != size:
            return f"has {there} bytes, and should have {size}"
        if not has_ending(file):
            return "does not end as files of its sort do"
    except FileNotFoundError:
        # Transactions are of use only until they are done.
        return None if file.suffix == ".txn" else "is missing"
    except OSError as error:
        return f"cannot be read: {error}"
    return None
