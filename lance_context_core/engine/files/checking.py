"""Whether the files are there that the versions of a table consist of, and as long as they should be."""

from collections.abc import Iterator
from pathlib import Path

from lance_context_core.engine.files import manifests
from lance_context_core.engine.files.manifests import UnknownManifestError


def damaged(table: Path, counted: set[Path]) -> Iterator[tuple[Path, str]]:
    """The files of a table that are wrong, of all its versions, branches and tags, and what is.

    Those that were looked at are added to `counted`; none of them is looked at twice.
    """
    for directory in _directories(table):
        newest = 0
        for number, manifest in sorted(manifests.listed(directory).items()):
            newest = max(newest, number)
            counted.add(manifest)
            try:
                manifests.require_whole(manifest, number)
                found = manifests.contents(manifest, directory)
            except UnknownManifestError as error:
                yield manifest, f"is no whole manifest: {error}"
                continue
            except OSError as error:
                yield manifest, f"cannot be read: {error}"
                continue
            for file, size in found.files.items():
                if file not in counted:
                    counted.add(file)
                    if (wrong := _wrong(file, size)) is not None:
                        yield file, wrong
            for folder in found.folders:
                if folder not in counted:
                    counted.add(folder)
                    if not folder.is_dir():
                        yield folder, "is missing: an index was there"
        if not newest:
            yield directory / "_versions", "has no version"


def _directories(table: Path) -> list[Path]:
    """Where the versions of a table are, of main and of every branch and tag."""
    return [one.parent for one in sorted(table.rglob("_versions")) if one.is_dir()] or [table]


def _wrong(file: Path, size: int | None) -> str | None:
    try:
        there = file.stat().st_size
    except FileNotFoundError:
        # Transactions are of use only until they are done.
        return None if file.suffix == ".txn" else "is missing"
    except OSError as error:
        return f"cannot be read: {error}"
    if size is not None and there != size:
        return f"has {there} bytes, and should have {size}"
    return None
