"""What was synced, judged from outside: by inodes, and by what folders listed when they were synced."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lance_context_core.storage.wal.sqlite import NAME as JOURNAL
from lance_context_core.storage.wal.sqlite_log import LOCK

Entry = tuple[int, int, int]
"""The inode of a file or folder; of a file also its size, and when it was written."""


class Witness:
    """Sees every sync of this process, and compares it with what a call left in a directory."""

    def __init__(self, directory: Path, monkeypatch) -> None:
        self._directory = directory
        self._files: set[Entry] = set()
        self._folders: dict[int, set[str]] = {}
        self._real = os.fsync
        self.n_syncs = 0
        monkeypatch.setattr(os, "fsync", self._fsync)

    def _fsync(self, descriptor: int) -> None:
        self._real(descriptor)
        self.n_syncs += 1
        entry = _entry(descriptor)
        self._files.add(entry)
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            self._folders[entry[0]] = set(os.listdir(descriptor))

    def files(self) -> set[int]:
        """The inodes of all that was synced since the last block."""
        return {inode for inode, _, _ in self._files}

    def listed(self, folder: Path) -> set[str]:
        """What a folder listed when it was synced last, since the last block."""
        return self._folders.get(_entry(folder)[0], set())

    @contextmanager
    def expects_all_synced(self, what: str = "") -> Iterator[None]:
        """What the block adds or removes in the directory must be on the disk at its end."""
        before = self._contents()
        self._files.clear()
        self._folders.clear()
        yield
        missing = list(self.missing(before))
        assert not missing, f"{what}: {missing}"

    def missing(self, before: dict[Path, Entry]) -> Iterator[str]:
        """What has changed since `before` and was not synced."""
        after = self._contents()
        for path, entry in after.items():
            # SQLite syncs what it writes by itself.
            is_file = path.is_file() and not path.name.startswith(JOURNAL)
            if is_file and before.get(path) != entry and entry not in self._files:
                yield f"file {path}"
            if path not in before or before[path][0] != entry[0]:
                seen = self._folders.get(after[path.parent][0] if path.parent in after else -1)
                if path != self._directory and (seen is None or path.name not in seen):
                    yield f"entry {path}"
        for path in before.keys() - after.keys():
            if path.parent in after and path.name in self._folders.get(
                after[path.parent][0], {path.name}
            ):
                yield f"removal {path}"

    def _contents(self) -> dict[Path, Entry]:
        paths = [self._directory, *self._directory.rglob("*")]
        # Nothing is in the lock, and whoever misses it makes it.
        return {one: _entry(one) for one in paths if one.exists() and one.name != LOCK}


def _entry(file: Path | int) -> Entry:
    status = os.stat(file)  # noqa: PTH116 - also of a descriptor
    is_folder = stat.S_ISDIR(status.st_mode)
    return (
        (status.st_ino, 0, 0) if is_folder else (status.st_ino, status.st_size, status.st_mtime_ns)
    )
