"""Files torn by a power cut: missing, too short, or overwritten.

A file counts as torn only because of its content, or because it is missing. If the system refuses
access, an error is raised, which proves nothing.
"""

from collections.abc import Container, Iterator
from contextlib import suppress
from pathlib import Path

from lance_context_core.storage.lance import manifests
from lance_context_core.storage.lance.manifests import TornError, UnknownManifestError

_MAGIC = {".lance": b"LANC", ".idx": b"LANC", ".arrow": b"ARROW1"}
"""The last bytes of each kind of file."""


def torn(
    manifest: Path, version: int, directory: Path, *, known: Container[bytes] = ()
) -> Path | None:
    """The first torn file of that version, its manifest first; None if none is.

    `directory` is that of the table or branch. Skips `known` parts. Raises OSError if access fails.
    """
    try:
        manifests.require_whole(manifest, version)
        contents = manifests.contents(manifest, directory, known=known)
    except FileNotFoundError:
        return None  # others have removed the version
    except TornError:
        return manifest
    except manifests.UnknownManifestError:
        return None  # a newer engine may have other layouts
    for file, size in contents.files.items():
        if not _is_whole(file, size):
            return file
    return None


def parts_of(manifest: Path, directory: Path) -> frozenset[bytes]:
    """The parts of a version; empty if unknown. Raises OSError as `torn`."""
    with suppress(manifests.UnknownManifestError):
        return manifests.contents(manifest, directory).parts
    return frozenset()


def names_rows(manifest: Path, directory: Path) -> bool:
    """Whether a version has data files; False if unknown. Raises OSError as `torn`."""
    with suppress(manifests.UnknownManifestError):
        files = manifests.contents(manifest, directory).files
        return any(file.parent.name == "data" for file in files)
    return False


def has_ending(file: Path) -> bool:
    """Whether a file has its kind's last bytes, or no known kind. Raises OSError."""
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
    """Whether it is a whole Roaring bitmap: https://github.com/RoaringBitmap/RoaringFormatSpec."""
    cookie, n = int.from_bytes(data[:4], "little"), int.from_bytes(data[4:8], "little")
    if cookie != 12346:
        return cookie & 0xFFFF == 12347  # with runs, whose length is harder to compute
    counts = [int.from_bytes(data[at + 2 : at + 4], "little") + 1 for at in range(8, 8 + 4 * n, 4)]
    return len(data) == 8 + 8 * n + sum(2 * one if one <= 4096 else 8192 for one in counts)


# Checks that the files of a table's versions exist, and are whole as far as visible.


def damaged(table: Path, counted: set[Path]) -> Iterator[tuple[Path, str]]:
    """The damaged files of a table in all versions, branches and tags, with the damage.

    Adds the checked files to `counted`; checks none twice. Files of branches or tags deleted
    meanwhile do not count.
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
            yield manifest, f"is not a whole manifest: {error}"
            continue
        except FileNotFoundError:
            continue  # others have removed the version
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
        # Transactions matter only until they are done.
        return None if file.suffix == ".txn" else "is missing"
    except OSError as error:
        return f"cannot be read: {error}"
    return None
