"""Files in a file: ZIP archives, and what the readers of mails share with them."""

import io
import stat
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import IO, NamedTuple

from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.documents.reading import (
    ReadDocument,
    Reader,
    StreamingReader,
    blocks_of,
    joined,
    moved,
)
from lance_context_core.errors import (
    InvalidRequestError,
    MissingExtraError,
    UnreadableDocumentError,
)

_MOST_NAMED = 100
"""Of the files that were not read."""


class InnerFile(NamedTuple):
    """A file in a file."""

    name: str
    content: bytes | str
    """Its bytes, or why they are not there."""


@dataclass(slots=True)
class Allowance:
    """How much may still be unpacked, by all files that hold each other together."""

    n_bytes: int
    depth: int
    """How many more files may be opened within each other."""

    def take(self, n_bytes: int, name: str) -> None:
        """Counts what was unpacked. Raises UnreadableDocumentError if it is too much."""
        self.n_bytes -= n_bytes
        if self.n_bytes < 0:
            raise TooMuchError(
                f"{name!r} unpacks to more than max_unpacked_bytes: pass a reader= with a larger one"
            )


class TooMuchError(UnreadableDocumentError):
    """What is unpacked is too much: the whole file is refused, not the one within it."""


@frozen_by_name
class ContainerReader(ABC):
    """A reader of files that hold files, each of which is read by the reader of its type."""

    max_unpacked_bytes: int = 500_000_000
    """Of all files in it together, and in those; whatever it says of their sizes."""
    max_depth: int = 3
    """How many files may hold each other: with 1 an archive within this file is not read."""

    def read(self, content: bytes, *, name: str) -> ReadDocument:
        """Reads what the file says, and then the files in it."""
        return joined(self.read_parts(io.BytesIO(content), name=name))

    def read_parts(self, file: IO[bytes], *, name: str) -> Iterator[ReadDocument]:
        """Yields what the file says, and then the files in it; of a PDF, each page."""
        yield from self._parts(file, name, Allowance(self.max_unpacked_bytes, self.max_depth))

    @abstractmethod
    def _parts(self, file: IO[bytes], name: str, left: Allowance) -> Iterator[ReadDocument]:
        """As `read_parts`, within an allowance."""


@frozen_by_name
class ZipReader(ContainerReader):
    """Reads each file in a ZIP archive by the reader of its type; its path begins the section.

    Files without a reader, broken ones and encrypted ones are left out, and told in the property
    `unread`, each with the reason; an archive of which nothing can be read is refused. What begins
    with a dot is not looked at.
    """

    max_files: int = 10_000

    def _parts(self, file: IO[bytes], name: str, left: Allowance) -> Iterator[ReadDocument]:
        """Yields the files of the archive, in its order."""
        try:
            with zipfile.ZipFile(file) as archive:
                yield from inner_parts(self._files(archive, name, left), left, within=None)
        except InvalidRequestError as error:
            raise type(error)(f"{name!r}: {error}") from error
        except Exception as error:  # of a broken archive, anything
            raise UnreadableDocumentError(
                f"{name!r} cannot be read as ZIP, it is broken or not all there: {error}"
            ) from error

    def _files(self, archive: zipfile.ZipFile, name: str, left: Allowance) -> Iterator[InnerFile]:
        listed = [one for one in archive.infolist() if not (one.is_dir() or _is_link(one))]
        if len(listed) > self.max_files:
            raise TooMuchError(
                f"it holds {len(listed)} files, over max_files={self.max_files}: pass "
                "reader=ZipReader(max_files=…)"
            )
        for one in listed:
            path = one.filename.replace("\\", "/").split("/")
            if not any(part.startswith(".") or part == "__MACOSX" for part in path):
                content = _unpacked(archive, one, left.n_bytes)
                left.take(len(content) if isinstance(content, bytes) else 0, name)
                yield InnerFile("/".join(path), content)


def _is_link(one: zipfile.ZipInfo) -> bool:
    """Whether it is a symbolic link, whose bytes are the path of another file."""
    return stat.S_ISLNK(one.external_attr >> 16)


def _unpacked(archive: zipfile.ZipFile, one: zipfile.ZipInfo, most: int) -> bytes | str:
    """The bytes of a file in an archive, one more than `most` at the most; or why it has none."""
    try:
        with archive.open(one) as packed:
            return packed.read(most + 1)
    except NotImplementedError as error:  # a RuntimeError, too
        return f"it is packed in a way that Python does not know: {error}"
    except RuntimeError:  # how `zipfile` says that a password is missing
        return "it is encrypted: unpack it, and add that"
    except (zipfile.BadZipFile, OSError, ValueError, EOFError, zlib.error) as error:
        return f"it is broken: {error}"


def inner_parts(
    files: Iterable[InnerFile], left: Allowance, *, within: ReadDocument | None
) -> Iterator[ReadDocument]:
    """Yields what a file itself says, if anything, and the text of the files in it.

    Each has its name as the section. Raises UnreadableDocumentError if there is nothing at all.
    """
    unread, is_first = list[str](), within is None
    if within is not None:
        yield within
    for one in files:
        try:
            for number, part in enumerate(_parts_of(one, left)):
                unread += (f"{one.name}/{said}" for said in part.properties.get("unread", ()))
                yield _placed(part, one.name, "" if number or is_first else "\n\n")
                is_first = False
        except TooMuchError:
            raise
        except (InvalidRequestError, MissingExtraError) as error:
            unread.append(f"{one.name}: {error}")
    if is_first:
        why = f": {unread[0]}" if unread else ""
        raise UnreadableDocumentError(f"there is no file in it that can be read{why}")
    if unread:
        yield ReadDocument(text="", properties={"unread": unread[:_MOST_NAMED]})


def _parts_of(one: InnerFile, left: Allowance) -> Iterator[ReadDocument]:
    from lance_context_core.documents.readers.choosing import reader_of, type_of  # which names us

    if isinstance(one.content, str):
        raise UnreadableDocumentError(one.content)
    if not one.content:
        raise UnreadableDocumentError("it is empty: it has no byte")
    file = io.BytesIO(one.content)
    reader: Reader = reader_of(type_of(file, one.name))
    file.seek(0)
    if isinstance(reader, ContainerReader):
        if left.depth <= 1:
            raise UnreadableDocumentError("it is within too many other files: see max_depth")
        left.depth -= 1
        try:
            yield from reader._parts(file, one.name, left)  # noqa: SLF001 - of a class of this module
        finally:
            left.depth += 1
    elif isinstance(reader, StreamingReader):
        yield from reader.read_parts(file, name=one.name)
    else:
        yield reader.read(one.content, name=one.name)


def _placed(part: ReadDocument, path: str, between: str) -> ReadDocument:
    """The text of a file as a part of the one that holds it."""
    blocks = tuple(
        replace(
            moved(one, len(between)),
            section=path if one.section is None else f"{path} > {one.section}",
            file=path if one.file is None else f"{path}/{one.file}",
        )
        for one in blocks_of(part)
    )
    return ReadDocument(text=between + part.text, blocks=blocks)
