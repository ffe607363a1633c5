"""Syncs the documents of a folder with its files: new, changed, renamed and removed ones."""

import os
import stat
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path, PurePath
from typing import Any, Literal

from lance_context_core._progress import tell
from lance_context_core._util.checks import check_names, shown
from lance_context_core._util.frozen import frozen, frozen_by_name
from lance_context_core.documents import loading
from lance_context_core.documents.adding import Adding
from lance_context_core.documents.loading import Kept, Loaded, ReadingArguments
from lance_context_core.errors import InvalidRequestError, NotFoundError, UnreadableDocumentError
from lance_context_core.types import (
    DocumentProgress,
    DocumentScope,
    DocumentsSynced,
    FailedDocument,
    SourceDocument,
)

HIDDEN = (".*",)
"""The default of `ignore`: files and folders that begin with a dot."""

Check = Literal["time", "hash"]
"""How an unchanged file is recognized: by its size and time, or by its bytes."""

MODIFIED = "file_modified_ns"
"""The document property with the file's modification time, in nanoseconds since 1970."""

_SETTLED_NS = 2_000_000_000
"""A file changed less than this before the read may change again within one tick of its time."""


@frozen_by_name
class FileOnDisk:
    """A file in the folder."""

    path: Path
    name: str
    """Its path below the folder, with `/` between the parts."""
    size: int
    modified_ns: int

    @property
    def uri(self) -> str:
        """The URI of its document."""
        return self.path.as_uri()


@frozen_by_name
class Listing:
    """The files of a folder."""

    files: list[FileOnDisk] = field(default_factory=list)
    failed: list[FailedDocument] = field(default_factory=list)
    covers: Callable[[str], bool]
    """Whether a document of that URI is removed if no file has the URI."""


@frozen_by_name
class Wanted:
    """The selection of files in a folder."""

    include: tuple[str, ...] | None
    ignore: tuple[str, ...]

    def takes(self, name: str) -> bool:
        """Whether a file is selected, by its path below the folder."""
        parts = PurePath(name).parts
        if any(matches(parts, pattern) for pattern in self.ignore):
            return False
        return self.include is None or any(matches(parts, pattern) for pattern in self.include)

    def enters(self, name: str) -> bool:
        """Whether files below a folder may be selected."""
        return not any(matches(PurePath(name).parts, pattern) for pattern in self.ignore)


def check_patterns(patterns: str | Sequence[str] | None, where: str) -> tuple[str, ...] | None:
    """Returns patterns of paths; None stays. Raises InvalidRequestError for an invalid path."""
    if patterns is None:
        return None
    given = [patterns] if isinstance(patterns, str) else patterns
    return tuple(pattern.rstrip("/") for pattern in check_names(given, where))


def matches(parts: Sequence[str], pattern: str) -> bool:
    """Whether a path matches a pattern, as a line of `.gitignore`.

    Without a `/` the pattern applies to the last part alone; with one, to the whole path, in which
    `**` matches any number of folders. `*` and `?` match characters of one part.
    """
    if "/" not in pattern:
        return fnmatchcase(parts[-1], pattern)
    return _match(parts, pattern.lstrip("/").split("/"))


def _match(parts: Sequence[str], patterns: Sequence[str]) -> bool:
    if not patterns:
        return not parts
    first, rest = patterns[0], patterns[1:]
    if first == "**":
        return any(_match(parts[start:], rest) for start in range(len(parts) + 1))
    return bool(parts) and fnmatchcase(parts[0], first) and _match(parts[1:], rest)


def check_how(check: Check, keep: Kept) -> None:
    """Raises InvalidRequestError for arguments that a sync cannot use."""
    if check not in ("time", "hash"):
        raise InvalidRequestError(f"check={shown(check)}: use 'time' or 'hash'")
    if keep == "hash":
        raise InvalidRequestError(
            "keep='hash': a document is known by its file's URI here, so pass 'uri' or 'bytes'"
        )


def list_files(files: str | Path | Iterable[str | Path], wanted: Wanted) -> Listing:
    """Returns the files of a folder, ordered by path, or the given ones.

    Links are not followed, and only regular files are listed. Raises NotFoundError if the folder
    does not exist: that does not count as removed files.
    """
    if isinstance(files, str | os.PathLike):
        root = Path(files)
        if not root.is_dir():
            raise NotFoundError(
                f"files={str(files)!r} is not a folder: pass a folder, or a list of files"
            )
        return _list_folder(root.resolve(), wanted)
    if isinstance(files, bytes) or not isinstance(files, Iterable):
        raise InvalidRequestError(f"files={shown(files)}: pass a folder, or a list of files")
    return _list_given([_path(one) for one in files], wanted)


def _path(one: object) -> Path:
    if not isinstance(one, str | os.PathLike):
        raise InvalidRequestError(f"files has {shown(one)}: pass the paths of files")
    return Path(one).resolve()


def _list_folder(root: Path, wanted: Wanted) -> Listing:
    unseen: list[str] = []
    prefix = _below(root)

    def covers(uri: str) -> bool:
        return uri.startswith(prefix) and not uri.startswith(tuple(unseen))

    listing = Listing(covers=covers)

    def fail(error: OSError) -> None:
        unseen.append(_below(Path(error.filename)))
        listing.failed.append(_failed(Path(error.filename).relative_to(root).as_posix(), error))

    for folder, folders, names in os.walk(root, onerror=fail):
        below = Path(folder).relative_to(root)
        folders[:] = sorted(one for one in folders if wanted.enters((below / one).as_posix()))
        for name in sorted(names):
            called = (below / name).as_posix()
            if wanted.takes(called):
                _look(Path(folder, name), called, listing)
    return listing


def _list_given(paths: Sequence[Path], wanted: Wanted) -> Listing:
    root = Path(os.path.commonpath([path.parent for path in paths])) if paths else Path()
    uris = {path.as_uri() for path in paths}
    listing = Listing(covers=uris.__contains__)
    for path in dict.fromkeys(paths):
        called = path.relative_to(root).as_posix()
        if path.is_dir():
            error = IsADirectoryError("is a folder: pass it alone, or the files in it")
            listing.failed.append(_failed(called, error))
        elif wanted.takes(called):
            _look(path, called, listing)
    return listing


def _look(path: Path, name: str, listing: Listing) -> None:
    try:
        state = path.lstat()
    except FileNotFoundError:
        return
    except OSError as error:
        listing.failed.append(_failed(name, error))
        return
    if stat.S_ISREG(state.st_mode):
        # A name may have bytes that are no UTF-8, which the URI has, too.
        shown_name = name.encode("utf-8", "replace").decode()
        size, modified_ns = state.st_size, state.st_mtime_ns
        file = FileOnDisk(path=path, name=shown_name, size=size, modified_ns=modified_ns)
        listing.files.append(file)


def _below(folder: Path) -> str:
    return folder.as_uri().rstrip("/") + "/"


def _failed(name: str, error: OSError) -> FailedDocument:
    name = name.encode("utf-8", "replace").decode()
    raised = UnreadableDocumentError(f"{name!r} cannot be read: {error}")
    return FailedDocument(name=name, error=raised)


_WEIGHT, _MOST_NOTED_AT_ONCE = 16_000, 32_000_000
"""A document's size besides its bytes, and the limit of times stored in one commit: its row, which
may hold its text, is in memory then."""


@frozen
class Syncing:
    """Syncs the documents of a folder."""

    adding: Adding
    reading: ReadingArguments
    place: DocumentScope
    metadata: Mapping[str, Any]
    check: Check
    is_dry: bool
    progress: Callable[[DocumentProgress], object] | None

    async def run(self, listing: Listing) -> DocumentsSynced:
        """Syncs file by file; after a crash the next run completes the rest."""
        known: dict[str, SourceDocument] = {}
        there = {file.uri for file in listing.files}
        done = _Done(failed=list(listing.failed))
        for one in await self.adding.documents.located(self.place):
            uri = one.uri or ""
            if uri in there and uri not in known:
                known[uri] = one
            elif uri in there or listing.covers(uri):
                done.gone.append(one)
        for n, file in enumerate(listing.files, 1):
            document, error = None, None
            try:
                document = await self._bring(file, known.get(file.uri), done)
            except InvalidRequestError as raised:
                error = raised
                done.failed.append(FailedDocument(name=file.name, error=raised))
            now = DocumentProgress(
                n_done=n,
                n_total=len(listing.files),
                name=file.name,
                document=document,
                error=error,
            )
            await tell(self.progress, now)
        await self._note(done)
        for one in done.gone:
            if not self.is_dry:
                await self.adding.delete(one.id)
        return done.report(is_dry=self.is_dry)

    async def _bring(
        self, file: FileOnDisk, document: SourceDocument | None, done: "_Done"
    ) -> SourceDocument | None:
        """Writes a file's document; returns it, or the existing one in a dry run."""
        if document is not None and self._is_unchanged(file, document):
            done.n_unchanged += 1
            return await self._renamed(file, document, {}, done)
        loaded = await self._loaded(file)
        hash = loaded.spooled.hash
        former = done.former(hash) if document is None else document
        if former is None:
            if not self.is_dry:
                former = await self.adding.add(
                    loaded, self.reading, self.place, self.metadata, None, is_by_uri=True
                )
            done.added.append(file.name)
            return former
        if former.hash != hash:
            if not self.is_dry:
                about = {**former.metadata, **self.metadata}
                former = await self.adding.update(
                    former.id, loaded, self.reading, about, None, keeps_name=False
                )
            done.updated.append(file.name)
            return former
        if document is None:
            done.renamed.append((former.name, file.name))
        else:
            done.n_unchanged += 1
        return await self._renamed(file, former, loaded.properties, done)

    async def _renamed(
        self,
        file: FileOnDisk,
        document: SourceDocument,
        properties: Mapping[str, Any],
        done: "_Done",
    ) -> SourceDocument:
        """Returns the document with the file's other properties; the content is the same."""
        about = {**document.metadata, **self.metadata}
        known = {**document.properties, **properties}
        given = (file.name, file.uri, about)
        is_described = given == (document.name, document.uri, document.metadata)
        if self.is_dry or (is_described and known == document.properties):
            return document
        if is_described:
            noted = replace(document, properties=known)
            done.touched.append(noted)
            if sum(_WEIGHT + one.size for one in done.touched) > _MOST_NOTED_AT_ONCE:
                await self._note(done)
            return noted
        return await self.adding.update(
            document.id,
            None,
            self.reading,
            about,
            None,
            file.name,
            file.uri,
            keeps_name=False,
            properties=known,
        )

    async def _note(self, done: "_Done") -> None:
        """Stores the times of touched files with unchanged bytes."""
        if done.touched:
            await self.adding.note(done.touched)
            done.touched.clear()

    def _is_unchanged(self, file: FileOnDisk, document: SourceDocument) -> bool:
        if self.check == "hash" or document.size != file.size:
            return False
        return document.properties.get(MODIFIED) == file.modified_ns

    async def _loaded(self, file: FileOnDisk) -> Loaded:
        is_settled = file.modified_ns < time.time_ns() - _SETTLED_NS
        loaded = await loading.loaded(file.path, self.reading, name=None, uri=None)
        # A file changed just now may change again without a new time.
        properties = {MODIFIED: file.modified_ns} if is_settled else {}
        return replace(loaded, name=file.name, uri=file.uri, properties=properties)


@dataclass(slots=True)
class _Done:
    """The changes so far, and the documents still to be deleted."""

    added: list[str] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)
    renamed: list[tuple[str, str]] = field(default_factory=list)
    gone: list[SourceDocument] = field(default_factory=list)
    touched: list[SourceDocument] = field(default_factory=list)
    """Documents with only a new file time; not stored yet."""
    failed: list[FailedDocument] = field(default_factory=list)
    n_unchanged: int = 0

    def former(self, hash: str) -> SourceDocument | None:
        """Returns the document of a removed file with this content, which is then not deleted."""
        found = next((one for one in self.gone if one.hash == hash), None)
        if found is not None:
            self.gone.remove(found)
        return found

    def report(self, *, is_dry: bool) -> DocumentsSynced:
        """Returns the changes, done or planned."""
        return DocumentsSynced(
            added=tuple(self.added),
            updated=tuple(self.updated),
            renamed=tuple(self.renamed),
            deleted=tuple(one.name for one in self.gone),
            n_unchanged=self.n_unchanged,
            failed=tuple(self.failed),
            dry_run=is_dry,
        )
