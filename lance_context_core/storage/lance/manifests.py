"""The files of a table's version, read from the engine's manifest.

The layout is that of Lance's table format: a file that ends with a message of protocol buffers,
whose position is in its last 16 bytes. Reads only the fields that lead to files.
"""

import json
import os
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, unquote
from uuid import UUID

from lance_context_core._util.frozen import frozen

_NEWEST = 2**64 - 1
"""Manifests are named by the difference to this number: the newest is first in a listing."""

_DELETIONS = {0: "arrow", 1: "bin"}

_MAGIC = b"LANC"

_HINT = "latest_version_hint.json"
"""The file of the engine's note of the newest version, written after each commit."""

_SIZED = 2
"""The wire type of a field that is preceded by its length."""

_INDEXES, _TRANSACTION = 6, 21
_SECTIONS = (_INDEXES, _TRANSACTION)
"""The fields of a manifest with the position of another message in the file."""

_BASES, _CLONE, _PATH = 18, 113, 4
"""The fields of a manifest, of a transaction, and of either, that lead to other files."""

_NEXT_ROW_ID, _BRANCH = 14, 20
"""The fields of a manifest with the next row id, and with its branch."""

_Field = int | bytes


class _Tagged(NamedTuple):
    """An encoded field."""

    number: int
    kind: int
    value: _Field


class Stamp(NamedTuple):
    """The identity of the file at a path."""

    inode: int
    modified_ns: int
    size: int


class UnknownManifestError(ValueError):
    """The file is no manifest of the known layout."""


class TornError(UnknownManifestError):
    """The file has no layout at all: it is cut off, or overwritten."""


@frozen
class Contents:
    """The content of one version."""

    parts: frozenset[bytes] = frozenset()
    """Its fragments and indexes, in the engine's encoding: equal if their files are."""
    files: dict[Path, int | None] = field(default_factory=dict)
    """The files of the unknown parts, and of the version's transaction, with their sizes if
    recorded."""
    folders: list[Path] = field(default_factory=list)
    """The directories of the indexes among these parts; all files there belong to them."""


def path(directory: Path, version: int) -> Path:
    """The path of a version's manifest, of the table or branch in `directory`."""
    return directory / "_versions" / f"{_NEWEST - version:020}.manifest"


def is_newest(directory: str, version: int) -> bool:
    """Whether a version is the newest; False for manifests with the old names."""
    return stamp(directory, version) is not None


def stamp(directory: str, version: int) -> Stamp | None:
    """The identity of a version's manifest, unlike that of a later one at its path.

    None unless it is the newest, as `is_newest`.
    """
    folder = f"{directory}/_versions/"
    later, this = (f"{folder}{_NEWEST - number:020}.manifest" for number in (version + 1, version))
    exists, stat = os.path.exists, os.stat  # creating paths takes longer than the system calls
    if exists(later):
        return None
    try:
        found = stat(this)
    except OSError:
        return None
    return Stamp(found.st_ino, found.st_mtime_ns, found.st_size)


def version(manifest: Path) -> int:
    """The version of the manifest with that name."""
    return _NEWEST - int(manifest.stem)


def versions(directory: Path) -> list[int]:
    """The versions with manifests in `directory`, ascending."""
    return sorted(listed(directory))


def listed(directory: Path) -> dict[int, Path]:
    """The manifests in `directory`, by version."""
    found = [one for one in (directory / "_versions").glob("*.manifest") if one.stem.isdigit()]
    # Tables of old releases of the engine name them by their numbers.
    return {version(one) if len(one.stem) == 20 else int(one.stem): one for one in found}


def hinted(directory: Path) -> int:
    """The newest version in the engine's note; 0 if missing.

    A later one may exist: the note follows the commit, and the process may end before it.
    """
    try:
        number = json.loads((directory / "_versions" / _HINT).read_bytes())["version"]
    except (OSError, KeyError, TypeError, ValueError):
        return 0
    return number if type(number) is int else 0


def hint(directory: Path, version: int) -> None:
    """Note `version` as the newest, if a later one is noted that no longer exists."""
    if hinted(directory) > version:
        new = directory / "_versions" / f"{_HINT}.new"
        new.write_text(json.dumps({"version": version}, separators=(",", ":")))
        new.replace(directory / "_versions" / _HINT)


def forget_hint(directory: Path) -> None:
    """Delete the note of the newest version: all versions are about to be removed."""
    (directory / "_versions" / _HINT).unlink(missing_ok=True)


def directory_of(table: Path, ref: str) -> Path:
    """The directory of a ref's versions; an empty `ref` is main."""
    return table / "tree" / ref if ref else table


def file_of_ref(table: Path, ref: str) -> Path:
    """The file that shows that the table has a ref."""
    return table / "_refs" / "branches" / f"{quote(ref, safe='')}.json"


def refs(table: Path) -> list[str]:
    """The refs of a table besides main, by their files."""
    return sorted(unquote(one.stem) for one in (table / "_refs" / "branches").glob("*.json"))


def forked_at(table: Path, ref: str) -> int:
    """The version that a ref was forked from; 0 if missing, or its file is damaged."""
    try:
        number = json.loads(file_of_ref(table, ref).read_bytes())["parentVersion"]
    except (OSError, KeyError, TypeError, ValueError):
        return 0
    return number if type(number) is int else 0


def created_at(directory: Path, version: int) -> datetime | None:
    """When a version was made; None if it is missing, or its layout unknown."""
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
    """The content of a version, with the files of the parts that are not `known`.

    `directory` is that of the table or branch. Raises UnknownManifestError, TornError if it is not
    whole, and OSError if it cannot be read.
    """
    data = manifest.read_bytes()
    try:
        return _contents(data, directory, known)
    except TornError as error:
        raise TornError(f"{str(manifest)!r} is not whole: {error}") from error
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise UnknownManifestError(
            f"{str(manifest)!r} is not a manifest of a known layout"
        ) from error


def data_files(manifest: Path, directory: Path) -> dict[int, list[Path]]:
    """The data files of a version, by the number of their fragment.

    `directory` is that of the table or branch. Raises as `contents`.
    """
    data = manifest.read_bytes()
    message = list(_fields(_message(data, int.from_bytes(data[-16:-8], "little"))))
    bases = dict(_base(_bytes(one)) for number, one in message if number == _BASES)
    found = {}
    for fragment in (_bytes(value) for number, value in message if number == 2):
        about = [value for number, value in _fields(fragment) if number == 1]
        files = (file for file, _ in _files(fragment, directory, bases))
        found[_int(about[0]) if about else 0] = [one for one in files if one.parent.name == "data"]
    return found


def require_whole(manifest: Path, number: int) -> None:
    """Raise TornError if the file is cut off, overwritten, or another version's manifest."""
    data = manifest.read_bytes()
    if data[-4:] != _MAGIC:
        raise TornError("no magic at the end")
    place = int.from_bytes(data[-16:-8], "little")
    message = _message(data, place)
    if place + 4 + len(message) + 16 != len(data):
        raise TornError("a message that does not end where the file does")
    if dict(_fields(message)).get(3) != number:
        raise TornError("another version")


def elsewhere(data: bytes, moved: Callable[[str], str]) -> bytes:
    """The manifest `data` for a copy of its table, at another path.

    A branch's manifest names the paths of the table and of the branches that it was forked from, as
    of its creation; `moved` maps each to its path in the copy. Raises TornError if it is not whole.
    """
    if data[-4:] != _MAGIC:
        raise TornError("no magic at the end")
    place = int.from_bytes(data[-16:-8], "little")
    fields = list(_tagged(_message(data, place)))
    sections = sorted((_int(one.value), one.number) for one in fields if one.number in _SECTIONS)
    ends = [*(begin for begin, _ in sections[1:]), place]
    new = bytearray(data[: sections[0][0] if sections else place])
    begins = {}
    for (begin, number), end in zip(sections, ends, strict=True):
        begins[number] = len(new)
        section = _message(data, begin)
        kept = data[begin + 4 + len(section) : end]
        if number == _TRANSACTION:
            section = transaction_elsewhere(section, moved)
        new += len(section).to_bytes(4, "little") + section + kept

    def edited(one: _Tagged) -> _Field:
        if one.number == _BASES:
            return _with_path(_bytes(one.value), moved)
        return begins.get(one.number, one.value)

    place, message = len(new), _encoded(fields, edited)
    return bytes(
        new + len(message).to_bytes(4, "little") + message + place.to_bytes(8, "little") + data[-8:]
    )


def transaction_elsewhere(message: bytes, moved: Callable[[str], str]) -> bytes:
    """A transaction for a copy of its table; that of a fork names its source."""

    def edited(one: _Tagged) -> _Field:
        return _with_path(_bytes(one.value), moved) if one.number == _CLONE else one.value

    return _encoded(_tagged(message), edited)


def detached(data: bytes, next_row_id: int) -> bytes:
    """The manifest `data` for a separate table, with new row ids from there on.

    Raises TornError if it is not whole.
    """
    if data[-4:] != _MAGIC:
        raise TornError("no magic at the end")
    place = int.from_bytes(data[-16:-8], "little")
    message = _tagged(_message(data, place))
    fields = [one for one in message if one.number not in (_NEXT_ROW_ID, _BRANCH)]
    fields.append(_Tagged(_NEXT_ROW_ID, 0, next_row_id))
    new = _encoded(fields, lambda one: one.value)
    return data[:place] + len(new).to_bytes(4, "little") + new + data[-16:]


def require_message(file: Path) -> None:
    """Raise TornError if the file is no message of protocol buffers, or empty."""
    if not list(_fields(file.read_bytes())):
        raise TornError("an empty message")


def _contents(data: bytes, directory: Path, known: Container[bytes]) -> Contents:
    if data[-4:] != _MAGIC:
        raise TornError("no magic at the end")
    message = list(_fields(_message(data, int.from_bytes(data[-16:-8], "little"))))
    bases = dict(_base(_bytes(one)) for number, one in message if number == _BASES)
    parts: set[bytes] = set()
    files: dict[Path, int | None] = {}
    folders: list[Path] = []
    for number, value in message:
        if number == 2:
            parts.add(fragment := _bytes(value))
            if fragment not in known:
                files.update(_files(fragment, directory, bases))
        elif number == _INDEXES:
            section = _message(data, _int(value))
            for index in (_bytes(one) for number, one in _fields(section) if number == 1):
                parts.add(index)
                if index not in known:
                    folders.append(folder := _folder(index, directory, bases))
                    files.update(_files_of_index(index, folder))
        elif number == 12:
            files[directory / "_transactions" / _text(value)] = None
    return Contents(frozenset(parts), files, folders)


def _files(
    fragment: bytes, directory: Path, bases: dict[int, Path]
) -> Iterator[tuple[Path, int | None]]:
    """The data files and the deletion file of a fragment."""
    fields = list(_fields(fragment))
    fragment_id = next((_int(value) for number, value in fields if number == 1), 0)
    for number, value in fields:
        if number == 2:
            file = dict(_fields(_bytes(value)))
            place = _base_of(file, directory, bases) / "data" / _text(file[1])
            yield place, _int(file.get(6, 0)) or None
        elif number == 3:
            file = dict(_fields(_bytes(value)))
            name = f"{fragment_id}-{_int(file.get(2, 0))}-{_int(file.get(3, 0))}"
            suffix = _DELETIONS[_int(file.get(1, 0))]
            yield _base_of(file, directory, bases) / "_deletions" / f"{name}.{suffix}", None
        elif number in (6, 8, 10):
            yield directory / _text(dict(_fields(_bytes(value)))[1]), None


def _files_of_index(index: bytes, folder: Path) -> Iterator[tuple[Path, int | None]]:
    """The files of an index; indexes of older engines do not list them."""
    for number, value in _fields(index):
        if number == 10:
            file = dict(_fields(_bytes(value)))
            yield folder / _text(file[1]), _int(file.get(2, 0)) or None


def _folder(index: bytes, directory: Path, bases: dict[int, Path]) -> Path:
    about = dict(_fields(index))
    uuid = UUID(bytes=_bytes(dict(_fields(_bytes(about[1])))[1]))
    base = bases[_int(about[9])] if 9 in about else directory
    return base / "_indices" / f"{uuid}"


def _base_of(file: dict[int, _Field], directory: Path, bases: dict[int, Path]) -> Path:
    """The table that owns a file: a branch refers to files of its parent."""
    return bases[_int(file[7])] if 7 in file else directory


def _base(message: bytes) -> tuple[int, Path]:
    about = dict(_fields(message))
    if not about.get(3):
        raise ValueError("a base that is not a table")
    return _int(about.get(1, 0)), Path(_text(about[4]))


def _message(data: bytes, place: int) -> bytes:
    """The message at `place`, preceded by its length."""
    begin = place + 4
    end = begin + int.from_bytes(data[place:begin], "little")
    if not 0 <= place < begin < end <= len(data):
        raise TornError("a message that is cut off")
    return data[begin:end]


def _with_path(message: bytes, moved: Callable[[str], str]) -> bytes:
    def edited(one: _Tagged) -> _Field:
        return moved(_text(one.value)).encode() if one.number == _PATH else one.value

    return _encoded(_tagged(message), edited)


def _encoded(fields: Iterable[_Tagged], edited: Callable[[_Tagged], _Field]) -> bytes:
    """A message of protocol buffers with these fields, each with its value from `edited`."""
    message = bytearray()
    for one in fields:
        value = edited(one)
        message += _as_varint(one.number << 3 | one.kind)
        if isinstance(value, int):
            message += _as_varint(value)
        else:
            message += (_as_varint(len(value)) if one.kind == _SIZED else b"") + value
    return bytes(message)


def _as_varint(number: int) -> bytes:
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


def _fields(message: bytes) -> Iterator[tuple[int, _Field]]:
    """The fields of a message of protocol buffers, with their numbers, in order."""
    return ((one.number, one.value) for one in _tagged(message))


def _tagged(message: bytes) -> Iterator[_Tagged]:
    place = 0
    while place < len(message):
        tag, place = _varint(message, place)
        kind = tag & 7
        if not tag >> 3:
            raise TornError("a field without a number")
        if kind == 0:
            value, place = _varint(message, place)
            yield _Tagged(tag >> 3, kind, value)
        elif kind in (1, _SIZED, 5):
            length = {1: 8, 5: 4}.get(kind)
            if length is None:
                length, place = _varint(message, place)
            if place + length > len(message):
                raise TornError("a field that is cut off")
            yield _Tagged(tag >> 3, kind, message[place : place + length])
            place += length
        else:
            raise TornError(f"a field of kind {kind}")


def _varint(message: bytes, place: int) -> tuple[int, int]:
    """The number at `place`, and the position after it."""
    number = shift = 0
    try:
        while message[place] > 127:
            number |= (message[place] & 127) << shift
            shift += 7
            place += 1
        return number | message[place] << shift, place + 1
    except IndexError:
        raise TornError("a number that is cut off") from None


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
