"""Files of lines, with a last line that proves that the file is complete."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from lance_context_core._util.checks import dumps, shown
from lance_context_core.errors import InvalidRequestError

VERSION = 2
"""The versions of the two full formats; those of version 1 cannot prove that they are complete."""

HEADER = "lance_context_export"

_END = "lance_context_export_end"

_BOM = "\ufeff"

_WAY_OUT = "copy it again from where it is whole, or export again"


class Lines:
    """A file of lines that is being written."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._digest = hashlib.sha256()

    def write(self, lines: Iterable[str]) -> None:
        """Writes lines, each with its end."""
        data = "".join(lines).encode()
        self._digest.update(data)
        self._file.write(data)

    def end(self, rows: Mapping[str, int]) -> None:
        """Writes the last line: the number of rows of each table in the file, and its hash."""
        self.write(
            [dumps({_END: VERSION, "rows": rows, "sha256": self._digest.hexdigest()}) + "\n"]
        )


def read_lines(path: Path) -> Iterator[tuple[str, bytes, str]]:
    """Yields each nonblank line: its position, its bytes and its text.

    Only a line feed ends a line: JSON may contain the other separators. Raises
    InvalidRequestError if the file cannot be read, or is not UTF-8.
    """
    offset = 0
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                where = f"{path}:{number}"
                try:
                    text = line.decode("utf-8")
                except UnicodeDecodeError as error:
                    raise InvalidRequestError(
                        f"{where} is not UTF-8, from byte {offset + error.start} of the file on: import "
                        "a file that export has written, or save it as UTF-8"
                    ) from error
                offset += len(line)
                if number == 1:
                    text = text.removeprefix(_BOM)
                if text.strip():
                    yield where, line, text
    except OSError as error:
        raise InvalidRequestError(f"{str(path)!r} cannot be read: {error}") from error


class Whole:
    """Checks line by line that a file of lines is complete and unchanged."""

    def __init__(self, path: Path, version: int) -> None:
        self._path = path
        self._has_end = version > 1
        self._is_at_end = False
        self._digest = hashlib.sha256()

    def take(self, line: bytes) -> None:
        """Adds a line, the first one too, but not the last."""
        self._digest.update(line)

    def is_end(self, given: Any, rows: Mapping[str, int], where: str) -> bool:
        """Whether it is the last line, after so many rows of each table.

        Raises InvalidRequestError if the rows differ, or any follow it.
        """
        if self._is_at_end:
            raise InvalidRequestError(f"{where} follows the end of the export: {_WAY_OUT}")
        if not isinstance(given, dict) or _END not in given:
            return False
        told = given.get("rows")
        for name, n in told.items() if isinstance(told, dict) else ():
            if n != rows.get(name, 0):
                raise InvalidRequestError(
                    f"{where} counts {shown(n)} rows of {name!r}, and before it are "
                    f"{rows.get(name, 0)}: {_WAY_OUT}{_CHANGED}"
                )
        if given.get("sha256") != self._digest.hexdigest():
            raise InvalidRequestError(
                f"{where}: the lines before it are not those that were exported: {_WAY_OUT}{_CHANGED}"
            )
        self._is_at_end = True
        return True

    def finish(self) -> None:
        """Raises InvalidRequestError if the last line is missing."""
        if self._has_end and not self._is_at_end:
            raise InvalidRequestError(
                f"{str(self._path)!r} ends before its last line, so rows may be missing: {_WAY_OUT}"
            )


_CHANGED = (
    f"; to import a file that you changed, set {HEADER} to 1 in its first line and delete its last"
)


def digest_of(path: Path) -> str:
    """Returns the hash of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_files(head: Mapping[str, Any], folder: Path) -> None:
    """Raises InvalidRequestError if a folder of Parquet files is incomplete or changed."""
    files = head["files"]
    rows, hashes = head.get("rows"), head.get("sha256")
    if not isinstance(rows, dict) or not isinstance(hashes, dict):
        raise InvalidRequestError(f"{folder / 'export.json'} does not count its rows: {_WAY_OUT}")
    if missing := [name for name, n in rows.items() if n and name not in files]:
        raise InvalidRequestError(
            f"{folder / 'export.json'} counts rows of {missing[0]!r}, and names no file: {_WAY_OUT}"
        )
    for name, file in files.items():
        place = folder / Path(file).name
        try:
            is_same = digest_of(place) == hashes.get(name)
        except OSError as error:
            raise InvalidRequestError(f"{place} cannot be read: {error}") from error
        if not is_same:
            raise InvalidRequestError(
                f"{place} is not the file that was exported: {_WAY_OUT}; to import a folder that you "
                f"changed, set {HEADER} to 1 in export.json"
            )
