"""Which files a power cut has left torn: they are gone, or not as long, or not what they were.

A file is taken for torn only for what is in it, or for not being there. What the system does not let
one look at is an error, and tells nothing.
"""

from collections.abc import Container, Iterator
from contextlib import suppress
from pathlib import Path

from lance_context_core.storage.lance import manifests
from lance_context_core.storage.lance.manifests import TornError, UnknownManifestError

_MAGIC = {".lance": b"LANC", ".idx": b"LANC", ".arrow": b"ARROW1"}
"""What files of a sort end with."""


def torn(
    manifest: Path, version: int, directory: Path, *, known: Container[bytes] = ()
) -> Path | None:
    """The first file of that version that is torn, the manifest above all; None if none is.

    `directory` is that of the table or branch. The parts that are `known` are not looked at. Raises
    OSError where one cannot look.
    """
    try:
        manifests.require_whole(manifest, version)
        contents = manifests.contents(manifest, directory, known=known)
    except FileNotFoundError:
        return None  # Others have removed the version.
    except TornError:
        return manifest
    except manifests.UnknownManifestError:
        return None  # A newer engine may have other layouts.
    for file, size in contents.files.items():
        if not _is_whole(file, size):
            return file
    return None


def parts_of(manifest: Path, directory: Path) -> frozenset[bytes]:
    """What a version consists of; nothing, if that cannot be told. Raises OSError as `torn`."""
    with suppress(manifests.UnknownManifestError):
        return manifests.contents(manifest, directory).parts
    return frozenset()


def names_rows(manifest: Path, directory: Path) -> bool:
    """Whether a version has files with rows; not, if that cannot be told. Raises OSError as `torn`."""
    with suppress(manifests.UnknownManifestError):
        files = manifests.contents(manifest, directory).files
        return any(file.parent.name == "data" for file in files)
    return False


def has_ending(file: Path) -> bool:
    """Whether a file ends as those of its sort do, or is of none that is known. Raises OSError."""
    try:
        if file.suffix == ".txn":
            manifests.require_message(file)
        elif file.suffix == ".bin":
            return _is_bitmap(file.read_bytes())
        elif file.suffix in _MAGIC:
            magic = _MAGIC[file.suffix]
            return _end(file, len(magic)) == magic
    except TornError:
        return False
    return True


def _is_whole(file: Path, size: int | None) -> bool:
    try:
        there = file.stat().st_size
        if there != (there if size is None else size) or not there:
            return False
        return has_ending(file)
    except FileNotFoundError:
        return False


def _end(file: Path, n_bytes: int) -> bytes:
    with file.open("rb") as opened:
        opened.seek(-min(n_bytes, file.stat().st_size), 2)
        return opened.read()


def _is_bitmap(data: bytes) -> bool:
    """Whether it is all of a Roaring bitmap: https://github.com/RoaringBitmap/RoaringFormatSpec."""
    cookie, n = int.from_bytes(data[:4], "little"), int.from_bytes(data[4:8], "little")
    if cookie != 12346:
        return cookie & 0xFFFF == 12347  # One with runs, whose length is not that easily told.
    counts = [int.from_bytes(data[at + 2 : at + 4], "little") + 1 for at in range(8, 8 + 4 * n, 4)]
    return len(data) == 8 + 8 * n + sum(2 * one if one <= 4096 else 8192 for one in counts)


# Whether the files are there that the versions of a table consist of, and whole as far as one can see.


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
