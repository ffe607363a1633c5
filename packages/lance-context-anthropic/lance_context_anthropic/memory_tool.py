"""The commands of the memory tool, over key-value items."""

from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from anthropic.lib.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool, ToolError
from anthropic.types.beta import (
    BetaMemoryTool20250818CreateCommand,
    BetaMemoryTool20250818DeleteCommand,
    BetaMemoryTool20250818InsertCommand,
    BetaMemoryTool20250818RenameCommand,
    BetaMemoryTool20250818StrReplaceCommand,
    BetaMemoryTool20250818ViewCommand,
)

from lance_context_core import AsyncKeyValues, Item
from lance_context_core.adapting import Handle, StoreLike, block_on, retried
from lance_context_core.errors import (
    AlreadyExistsError,
    ConflictError,
    ContextStoreError,
    InvalidRequestError,
    NotFoundError,
)
from lance_context_core.protocols import ItemKey

ROOT = "/memories"
TABLE = "memories"
"""The default name of the items; a key is a path, and `text` in its value the content."""
_MAX_LINES = 999_999
_NUMBER_WIDTH = 6
_SIZES = "BKMG"


class AsyncMemoryTool(BetaAsyncAbstractMemoryTool):
    """The memory tool for an asynchronous client: `client.beta.messages.tool_runner(tools=[tool])`.

    Results and errors equal those of the SDK's own tool over a directory. Each command is one
    commit. An edit that lost to another process is repeated on the new content, except `insert`,
    whose line may have moved: a file that changed since this tool last showed it must be viewed
    again.
    """

    def __init__(
        self, store: StoreLike, *, name: str = TABLE, cache_control: Any | None = None
    ) -> None:
        """Over a store or a scope: the items of `store.kv(name)` there, and nothing else."""
        super().__init__(cache_control=cache_control)
        self._files = _Files(Handle(store).aio.kv(name))

    async def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        """A directory two levels deep, or a file with the numbers of its lines."""
        return await _told(self._files.view(command.path, command.view_range))

    async def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        """Creates a file; of two concurrent creations the first wins."""
        return await _told(self._files.create(command.path, command.file_text))

    async def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        """Replaces the only occurrence of a text."""
        return await _told(self._files.str_replace(command.path, command.old_str, command.new_str))

    async def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        """Inserts a text after a line; 0 is before the first one."""
        return await _told(
            self._files.insert(command.path, command.insert_line, command.insert_text)
        )

    async def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        """Deletes a file, or a directory with its contents."""
        return await _told(self._files.delete(command.path))

    async def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        """Renames or moves a file or a directory, in one commit."""
        return await _told(self._files.rename(command.old_path, command.new_path))

    async def clear_all_memory(self) -> str:
        """Deletes all files; earlier versions of the store keep them."""
        return await _told(self._files.clear())


class MemoryTool(BetaAbstractMemoryTool):
    """The memory tool for a blocking client. See `AsyncMemoryTool`."""

    def __init__(
        self, store: StoreLike, *, name: str = TABLE, cache_control: Any | None = None
    ) -> None:
        """Over a store or a scope: the items of `store.kv(name)` there, and nothing else."""
        super().__init__(cache_control=cache_control)
        self._files = _Files(Handle(store).aio.kv(name))

    def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        """A directory two levels deep, or a file with the numbers of its lines."""
        return block_on(_told(self._files.view(command.path, command.view_range)))

    def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        """Creates a file; of two concurrent creations the first wins."""
        return block_on(_told(self._files.create(command.path, command.file_text)))

    def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        """Replaces the only occurrence of a text."""
        return block_on(
            _told(self._files.str_replace(command.path, command.old_str, command.new_str))
        )

    def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        """Inserts a text after a line; 0 is before the first one."""
        return block_on(
            _told(self._files.insert(command.path, command.insert_line, command.insert_text))
        )

    def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        """Deletes a file, or a directory with its contents."""
        return block_on(_told(self._files.delete(command.path)))

    def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        """Renames or moves a file or a directory, in one commit."""
        return block_on(_told(self._files.rename(command.old_path, command.new_path)))

    def clear_all_memory(self) -> str:
        """Deletes all files; earlier versions of the store keep them."""
        return block_on(_told(self._files.clear()))


async def _told(work: Coroutine[Any, Any, str]) -> str:
    """The result of a command; errors of the store become answers to the model."""
    try:
        return await work
    except ContextStoreError as error:
        raise ToolError(str(error)) from error


@dataclass(slots=True)
class _Files:
    """Files below `ROOT`; a directory exists while it contains files."""

    _items: AsyncKeyValues
    _seen: dict[str, int | None] = field(default_factory=dict)
    """The revisions of files when this tool last showed or wrote them."""

    async def view(self, path: str, lines: Sequence[int] | None) -> str:
        place = _checked(path)
        if place != ROOT and (file := await self._get(place)) is not None:
            self._seen[place] = file.revision
            return f"Here's the content of {path} with line numbers:\n" + _numbered(
                path, _text(file), lines
            )
        below = await self._below(place)
        if not below and place != ROOT:
            raise NotFoundError(f"The path {path} does not exist. Please provide a valid path.")
        return _directory(path, place, {file.key: len(_text(file).encode()) for file in below})

    async def create(self, path: str, text: str) -> str:
        place = _checked(path)
        if place == ROOT or await self._below(place):
            raise AlreadyExistsError(f"File {path} already exists")
        try:
            await self._write(path, adds=[_file(place, text)], free=[place])
        except AlreadyExistsError as error:
            raise AlreadyExistsError(f"File {path} already exists") from error
        await self._note(place)
        return f"File created successfully at: {path}"

    async def str_replace(self, path: str, old: str, new: str) -> str:
        place = _checked(path)

        async def replace() -> str:
            file = await self._required(path, place)
            text = _text(file)
            if (count := text.count(old)) == 0 or not old:
                raise InvalidRequestError(
                    f"No replacement was performed, old_str `{old}` did not appear verbatim in {path}."
                )
            if count > 1:
                lines = ", ".join(str(text[:at].count("\n") + 1) for at in _places(text, old))
                raise InvalidRequestError(
                    f"No replacement was performed. Multiple occurrences of old_str `{old}` in "
                    f"lines: {lines}. Please ensure it is unique"
                )
            changed = text.replace(old, new)
            await self._put(place, changed, file)
            line = text[: text.find(old)].count("\n")
            rows = changed.split("\n")
            first = max(0, line - 2)
            return (
                "The memory file has been edited. Here is the snippet showing the change (with line "
                "numbers):\n" + _rows(rows[first : line + 3], first + 1)
            )

        told = await retried(replace, on=ConflictError)
        await self._note(place)
        return told

    async def insert(self, path: str, line: int, text: str) -> str:
        place = _checked(path)
        file = await self._required(path, place)
        rows = _text(file).split("\n")
        if rows[-1] == "":
            rows.pop()
        if not 0 <= line <= len(rows):
            raise InvalidRequestError(
                f"Invalid `insert_line` parameter: {line}. It should be within the range "
                f"[0, {len(rows)}]."
            )
        changed_since = ConflictError(
            f"The file {path} was changed by another writer since it was viewed: view it again."
        )
        if self._seen.get(place, file.revision) != file.revision:
            raise changed_since
        rows.insert(line, text.rstrip("\n"))
        try:
            await self._put(place, "\n".join(rows) + "\n", file)
        except ConflictError as error:
            raise changed_since from error
        await self._note(place)
        return f"The file {path} has been edited."

    async def delete(self, path: str) -> str:
        place = _checked(path)
        if place == ROOT:
            raise InvalidRequestError("Cannot delete the /memories directory itself")
        gone = [file.key for file in await self._below(place)]
        if not any(await self._items.delete([((), one) for one in (place, *gone)])):
            raise NotFoundError(f"The path {path} does not exist")
        return f"Successfully deleted {path}"

    async def rename(self, old_path: str, new_path: str) -> str:
        old, new = _checked(old_path), _checked(new_path)
        if old == ROOT:
            raise InvalidRequestError("Cannot rename the /memories directory itself")
        if new.startswith(f"{old}/"):
            raise InvalidRequestError(f"Cannot rename {old_path} into itself, {new_path}")

        async def rename() -> str:
            taken = AlreadyExistsError(f"The destination {new_path} already exists")
            if new == ROOT or await self._get(new) is not None or await self._below(new):
                raise taken
            file = await self._get(old)
            moved = [file] if file is not None else await self._below(old)
            if not moved:
                raise NotFoundError(f"The path {old_path} does not exist")
            await self._write(
                new_path,
                adds=[_file(new + one.key.removeprefix(old), _text(one)) for one in moved],
                deletes=[one.key for one in moved],
                expected={one.key: one.revision for one in moved},
                free=[new],
            )
            return f"Successfully renamed {old_path} to {new_path}"

        return await retried(rename, on=ConflictError)

    async def clear(self) -> str:
        await self._items.delete_under(())
        self._seen.clear()
        return "All memory cleared"

    # Helpers

    async def _get(self, place: str) -> Item | None:
        return (await self._items.get([((), place)]))[0]

    async def _below(self, place: str) -> list[Item]:
        return await self._items.list(namespace=(), key_prefix=f"{place}/")

    async def _required(self, path: str, place: str) -> Item:
        file = await self._get(place)
        if file is not None:
            return file
        if place == ROOT or await self._below(place):
            raise InvalidRequestError(f"The path {path} is not a file.")
        raise NotFoundError(f"The path {path} does not exist. Please provide a valid path.")

    async def _put(self, place: str, text: str, file: Item) -> None:
        expected: dict[ItemKey, int | None] = {((), place): file.revision}
        await self._items.write(puts=[_file(place, text)], expected=expected)

    async def _note(self, place: str) -> None:
        file = await self._get(place)
        self._seen[place] = None if file is None else file.revision

    async def _write(
        self,
        path: str,
        *,
        adds: Sequence[Item],
        deletes: Sequence[str] = (),
        expected: Mapping[str, int | None] | None = None,
        free: Sequence[str],
    ) -> None:
        """Writes new files, unless a file is in place of a directory above the paths `free`."""
        above = [one for place in free for one in _above(place)]
        found = await self._items.get([((), one) for one in above])
        for place, file in zip(above, found, strict=True):
            if file is not None and place not in deletes:
                raise InvalidRequestError(f"{place} is a file: {path} cannot be in it")
        await self._items.write(
            adds=adds,
            deletes=[((), one) for one in deletes],
            expected={((), one): revision for one, revision in (expected or {}).items()} or None,
        )


def _file(place: str, text: str) -> Item:
    return Item(key=place, value={"text": text})


def _text(file: Item) -> str:
    return str((file.value or {}).get("text", ""))


def _checked(path: str) -> str:
    """The normalized path. Raises InvalidRequestError for one outside of `ROOT`."""
    parts = path.split("/")
    if parts[:2] != ["", ROOT[1:]]:
        raise InvalidRequestError(f"Path must start with {ROOT}, got: {path}")
    if ".." in parts or "." in parts or "\\" in path:
        raise InvalidRequestError(f"Path {path} would escape {ROOT} directory")
    if any(ord(letter) < 0x20 or ord(letter) == 0x7F for letter in path):
        raise InvalidRequestError(f"Path {path!r} has a control character")
    return "/".join(["", *filter(None, parts)])


def _above(place: str) -> list[str]:
    parts = place.split("/")
    return ["/".join(parts[:length]) for length in range(3, len(parts))]


def _places(text: str, wanted: str) -> list[int]:
    found = [text.find(wanted)]
    while (at := text.find(wanted, found[-1] + 1)) != -1:
        found.append(at)
    return found


def _rows(rows: Sequence[str], first: int) -> str:
    return "\n".join(
        f"{str(number).rjust(_NUMBER_WIDTH)}\t{row}" for number, row in enumerate(rows, first)
    )


def _numbered(path: str, text: str, lines: Sequence[int] | None) -> str:
    rows = text.split("\n")
    if len(rows) > _MAX_LINES:
        raise InvalidRequestError(
            f"File {path} exceeds maximum line limit of {_MAX_LINES:,} lines."
        )
    if lines is None or len(lines) != 2:
        return _rows(rows, 1)
    first = max(1, lines[0])
    last = len(rows) if lines[1] == -1 else lines[1]
    return _rows(rows[first - 1 : last], first)


def _directory(path: str, place: str, sizes: Mapping[str, int]) -> str:
    """The contents of a directory, two levels deep, with sizes; hidden files are left out."""
    found: dict[str, int] = {}
    for key, size in sizes.items():
        parts = key.removeprefix(f"{place}/").split("/")
        for depth in (1, 2):
            if len(parts) < depth or any(part.startswith(".") for part in parts[:depth]):
                break
            name = "/".join(parts[:depth]) + ("/" if len(parts) > depth else "")
            found[name] = found.get(name, 0) + size
    lines = [f"{_size(sum(sizes.values()))}\t{path}"]
    lines += [f"{_size(found[name])}\t{path}/{name}" for name in sorted(found, key=_order)]
    header = (
        f"Here're the files and directories up to 2 levels deep in {path}, excluding hidden items:"
    )
    return "\n".join([header, *lines])


def _order(name: str) -> list[str]:
    return name.rstrip("/").split("/")


def _size(n_bytes: int) -> str:
    power = min(max(n_bytes.bit_length() - 1, 0) // 10, len(_SIZES) - 1)
    size = n_bytes / 1024**power
    return f"{int(size) if size == int(size) else format(size, '.1f')}{_SIZES[power]}"
