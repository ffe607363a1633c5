"""Which files a version of a table consists of, read from the engine's manifest of that version.

The layout is that of Lance's table format: a file that ends with a message of protocol buffers,
whose place stands in its last 16 bytes. Only the fields that lead to files are looked at.
"""

from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

_NEWEST = 2**64 - 1
"""Manifests are named by what is left to this number: the newest comes first in a listing."""

_DELETIONS = {0: "arrow", 1: "bin"}

_Field = int | bytes


class UnknownManifestError(ValueError):
    """The file is no manifest of the layout that is known here."""


@dataclass(frozen=True, slots=True)
class Contents:
    """What one version consists of."""

    parts: frozenset[bytes] = frozenset()
    """Its fragments and indexes, in the engine's encoding: alike if their files are."""
    files: list[Path] = field(default_factory=list)
    """The files of the parts that were not known, and the version's transaction."""
    folders: list[Path] = field(default_factory=list)
    """Where the indexes among these parts are; all files there belong to them."""


def path(directory: Path, version: int) -> Path:
    """Where the manifest of a version is, of the table or branch in `directory`."""
    return directory / "_versions" / f"{_NEWEST - version:020}.manifest"


def version(manifest: Path) -> int:
    """The version that a manifest of that name describes."""
    return _NEWEST - int(manifest.stem)


def versions(directory: Path) -> list[int]:
    """The versions whose manifests are in `directory`, ascending."""
    stems = [one.stem for one in (directory / "_versions").glob("*.manifest")]
    # Tables of old releases of the engine name them by their numbers.
    found = [_NEWEST - int(one) if len(one) == 20 else int(one) for one in stems if one.isdigit()]
    return sorted(found)


def created_at(directory: Path, version: int) -> datetime | None:
    """When a version was made; None if it is not there, or its layout is unknown."""
    for manifest in (path(directory, version), directory / "_versions" / f"{version}.manifest"):
        try:
            data = manifest.read_bytes()
        except FileNotFoundError:
            continue
        try:
            message = _message(data, int.from_bytes(data[-16:-8], "little"))
            about = dict(_fields(_bytes(dict(_fields(message))[7])))
            seconds, nanos = _int(about.get(1, 0)), _int(about.get(2, 0))
        except (IndexError, KeyError, TypeError, ValueError):
            return None
        # As the engine's list of versions rounds it.
        ns = seconds * 10**9 + nanos
        return datetime.fromtimestamp(ns // 1e9, UTC) + timedelta(microseconds=(ns % 1e9) // 1e3)
    return None


def contents(manifest: Path, directory: Path, *, known: Container[bytes] = ()) -> Contents:
    """What the version consists of, with the files of the parts that are not `known`.

    `directory` is that of the table or branch. Raises UnknownManifestError, and OSError if the
    manifest cannot be read.
    """
    data = manifest.read_bytes()
    try:
        return _contents(data, directory, known)
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise UnknownManifestError(f"{str(manifest)!r} is no manifest of a known layout") from error


def _contents(data: bytes, directory: Path, known: Container[bytes]) -> Contents:
    if data[-4:] != b"LANC":
        raise ValueError("no magic at the end")
    message = list(_fields(_message(data, int.from_bytes(data[-16:-8], "little"))))
    bases = dict(_base(_bytes(one)) for number, one in message if number == 18)
    parts: set[bytes] = set()
    files: list[Path] = []
    folders: list[Path] = []
    for number, value in message:
        if number == 2:
            parts.add(fragment := _bytes(value))
            if fragment not in known:
                files.extend(_files(fragment, directory, bases))
        elif number == 6:
            section = _message(data, _int(value))
            for index in (_bytes(one) for number, one in _fields(section) if number == 1):
                parts.add(index)
                if index not in known:
                    folders.append(_folder(index, directory, bases))
        elif number == 12:
            files.append(directory / "_transactions" / _text(value))
    return Contents(frozenset(parts), files, folders)


def _files(fragment: bytes, directory: Path, bases: dict[int, Path]) -> Iterator[Path]:
    """The data files and the deletion file of a fragment."""
    fields = list(_fields(fragment))
    fragment_id = next((_int(value) for number, value in fields if number == 1), 0)
    for number, value in fields:
        if number == 2:
            file = dict(_fields(_bytes(value)))
            yield _base_of(file, directory, bases) / "data" / _text(file[1])
        elif number == 3:
            file = dict(_fields(_bytes(value)))
            name = f"{fragment_id}-{_int(file.get(2, 0))}-{_int(file.get(3, 0))}"
            suffix = _DELETIONS[_int(file.get(1, 0))]
            yield _base_of(file, directory, bases) / "_deletions" / f"{name}.{suffix}"
        elif number in (6, 8, 10):
            yield directory / _text(dict(_fields(_bytes(value)))[1])


def _folder(index: bytes, directory: Path, bases: dict[int, Path]) -> Path:
    about = dict(_fields(index))
    uuid = UUID(bytes=_bytes(dict(_fields(_bytes(about[1])))[1]))
    base = bases[_int(about[9])] if 9 in about else directory
    return base / "_indices" / f"{uuid}"


def _base_of(file: dict[int, _Field], directory: Path, bases: dict[int, Path]) -> Path:
    """The table that a file belongs to: a branch refers to those of its parent."""
    return bases[_int(file[7])] if 7 in file else directory


def _base(message: bytes) -> tuple[int, Path]:
    about = dict(_fields(message))
    if not about.get(3):
        raise ValueError("a base that is no table")
    return _int(about.get(1, 0)), Path(_text(about[4]))


def _message(data: bytes, place: int) -> bytes:
    """The message that stands at `place`, after its length."""
    begin = place + 4
    end = begin + int.from_bytes(data[place:begin], "little")
    if not begin < end <= len(data):
        raise ValueError("a message that is cut off")
    return data[begin:end]


def _fields(message: bytes) -> Iterator[tuple[int, _Field]]:
    """The fields of a message of protocol buffers, with their numbers, in order."""
    place = 0
    while place < len(message):
        tag, place = _varint(message, place)
        kind = tag & 7
        if kind == 0:
            value, place = _varint(message, place)
            yield tag >> 3, value
        elif kind in (1, 2, 5):
            length = {1: 8, 5: 4}.get(kind)
            if length is None:
                length, place = _varint(message, place)
            if place + length > len(message):
                raise ValueError("a field that is cut off")
            yield tag >> 3, message[place : place + length]
            place += length
        else:
            raise ValueError(f"a field of kind {kind}")


def _varint(message: bytes, place: int) -> tuple[int, int]:
    """The number that stands at `place`, and the place after it."""
    number = shift = 0
    while message[place] > 127:
        number |= (message[place] & 127) << shift
        shift += 7
        place += 1
    return number | message[place] << shift, place + 1


def _bytes(value: _Field) -> bytes:
    if not isinstance(value, bytes):
        raise TypeError("a number where a message should be")
    return value


def _int(value: _Field) -> int:
    if not isinstance(value, int):
        raise TypeError("a message where a number should be")
    return value


def _text(value: _Field) -> str:
    return _bytes(value).decode()
