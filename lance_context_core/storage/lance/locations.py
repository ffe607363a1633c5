"""The location of a store, in a directory or object store, and its files."""

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

from pyarrow import fs

from lance_context_core._util.checks import check_name, shown
from lance_context_core.errors import InvalidRequestError

# The URI of a store: a directory, or that of an object store. Others are refused.

_REMOTE = frozenset(
    (
        *("memory", "shared-memory", "file+uring", "file-object-store"),
        *("s3", "s3+ddb", "gs", "az", "abfss", "oss", "cos", "hf", "goosefs"),
    )
)
"""The schemes that the engine opens, besides `file`."""

_URI = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]+):/(/?)")
"""A scheme of two letters or more, and whether it has both slashes: `Path` drops one of them."""

_OF_WINDOWS = re.compile(r"[a-zA-Z]:[\\/]|\\\\")
"""A drive, or another machine."""

_WAY_OUT = (
    "give a directory, 'memory://', or a URI such as 's3://bucket/prefix', 'gs://…', 'az://…'"
)


def normalised(uri: object, what: str = "uri") -> str:
    """`uri` in the engine's form: local paths absolute, so that none is a scheme.

    Raises InvalidRequestError for a scheme that the engine does not open, and for paths that would
    become a directory with a strange name: a URI that was a `Path`, and on other systems a path of
    Windows.
    """
    if not isinstance(uri, str | os.PathLike) or not isinstance(path := os.fspath(uri), str):
        raise InvalidRequestError(f"{what}={uri!r}: give a directory or the URI of an object store")
    text = check_name(path, what)
    if (found := _URI.match(text)) is not None:
        scheme, rest = found[1].lower(), text[found.end() :]
        if scheme not in {*_REMOTE, "file"}:
            raise InvalidRequestError(
                f"{what}={shown(text)}: no store is opened by '{scheme}://': {_WAY_OUT}"
            )
        if not found[2]:
            whole = f"{scheme}://{'/' * (scheme == 'file')}{rest}"
            raise InvalidRequestError(
                f"{what}={shown(text)} lacks a slash: write {whole!r}, as a str, since a Path leaves "
                f"one out; a directory of that name is './{text}'"
            )
        if scheme != "file":
            return f"{scheme}://{rest}"
        text = rest
    if os.name != "nt" and _OF_WINDOWS.match(text):
        raise InvalidRequestError(
            f"{what}={shown(text)} is a path of Windows, and this is another system: {_WAY_OUT}"
        )
    try:
        return str(Path(text).expanduser().absolute())
    except RuntimeError as error:  # the user does not exist
        raise InvalidRequestError(f"{what}={shown(text)}: {error}: give the whole path") from error


def require_local(path: object, what: str) -> None:
    """Raise InvalidRequestError unless it is a path of this machine, as for `normalised`."""
    if not Path(normalised(path, what)).is_absolute():
        raise InvalidRequestError(
            f"{what}={shown(path)}: give a file or a folder of this machine, and copy it from there"
        )


_UNFINISHED = "copy.unfinished"
"""The object that exists under a prefix until a copy to it is whole."""

_OPTIONS = {
    "access_key_id": "access_key",
    "secret_access_key": "secret_key",
    "session_token": "session_token",
    "token": "session_token",
    "region": "region",
    "default_region": "region",
    "endpoint": "endpoint_override",
    "endpoint_url": "endpoint_override",
}
"""LanceDB's names of options, without `aws_`, mapped to the names here."""


class Files(Protocol):
    """The files below one location; each named by its relative path, with slashes."""

    uri: str
    system: Any
    root: str

    def listed(self) -> dict[str, int]:
        """All files of its tables, with their sizes."""

    def is_there(self) -> bool:
        """Whether files exist that a copy would be mixed with."""

    def begin(self) -> None:
        """Prepare the location for writing."""

    def write(self, name: str, data: bytes) -> None:
        """Write a new file."""

    def finish(self) -> None:
        """Give the files their name: the copy is whole."""

    def discard(self) -> None:
        """Remove the written files."""


def files_at(uri: str | os.PathLike[str], storage_options: Mapping[str, str] | None) -> Files:
    """The files at a location. Raises InvalidRequestError unless a directory or S3."""
    text = normalised(uri, "destination")
    if text.startswith("s3://"):
        return Bucket(text.rstrip("/"), storage_options or {})
    if not (path := Path(text)).is_absolute():
        raise InvalidRequestError(
            f"cannot copy to or from {shown(text)}: give a directory or s3://…; export() writes what "
            "a store holds, and import_() reads it in anywhere"
        )
    return Directory(Path(os.path.realpath(path)))


def read(files: Files, name: str) -> bytes:
    """The content of a file."""
    with files.system.open_input_stream(f"{files.root}/{name}") as stream:
        return bytes(stream.read())


def copied(source: Files, goal: Files, name: str) -> None:
    """Copy one file unchanged."""
    if isinstance(source, Directory) and isinstance(goal, Directory):
        to = Path(goal.root, name)
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(Path(source.root, name), to)
        return
    if isinstance(goal, Directory):
        Path(goal.root, name).parent.mkdir(parents=True, exist_ok=True)
    fs.copy_files(
        f"{source.root}/{name}",
        f"{goal.root}/{name}",
        source_filesystem=source.system,
        destination_filesystem=goal.system,
        use_threads=False,
    )


class Directory:
    """A directory; written under another name, and renamed once it is whole."""

    def __init__(self, path: Path) -> None:
        """An absolute path, existing or not."""
        self.uri = str(path)
        self.system = fs.LocalFileSystem()
        self.root = self.uri
        self._path = path

    def listed(self) -> dict[str, int]:
        """All files of its tables, with their sizes."""
        return {
            one.relative_to(self._path).as_posix(): one.stat().st_size
            for one in self._path.glob("*.lance/**/*")
            if one.is_file()
        }

    def is_there(self) -> bool:
        """Whether the name is taken."""
        return self._path.exists()

    def begin(self) -> None:
        """From now on, write under another name."""
        part = self._path.with_name(f"{self._path.name}.part-{os.getpid()}")
        part.mkdir(parents=True)
        self.root = str(part)

    def write(self, name: str, data: bytes) -> None:
        """Write a new file."""
        to = Path(self.root, name)
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_bytes(data)

    def finish(self) -> None:
        """Rename it."""
        Path(self.root).rename(self._path)

    def discard(self) -> None:
        """Remove the written files."""
        if self.root != self.uri:
            shutil.rmtree(self.root, ignore_errors=True)


class Bucket:
    """A prefix of S3, which has no renaming: an object marks it as incomplete."""

    def __init__(self, uri: str, storage_options: Mapping[str, str]) -> None:
        """A prefix, without a slash at its end; options as for LanceDB."""
        self.uri = uri
        self.system = _s3(storage_options)
        self.root = str(PurePosixPath(uri.removeprefix("s3://")))

    def listed(self) -> dict[str, int]:
        """All objects of its tables, with their sizes."""
        found = self.system.get_file_info(
            fs.FileSelector(self.root, recursive=True, allow_not_found=True)
        )
        names = {
            one.path.removeprefix(f"{self.root}/"): int(one.size)
            for one in found
            if one.type == fs.FileType.File
        }
        return {name: size for name, size in names.items() if ".lance/" in name}

    def is_there(self) -> bool:
        """Whether a store exists that is not the remainder of a killed copy."""
        return bool(self.listed()) and not self._is_unfinished()

    def begin(self) -> None:
        """Remove the remains of a killed copy, and mark that another one has begun."""
        if self._is_unfinished():
            self._clear()
        self.write(_UNFINISHED, b"A copy to here is not finished.\n")

    def write(self, name: str, data: bytes) -> None:
        """Write an object."""
        with self.system.open_output_stream(f"{self.root}/{name}") as stream:
            stream.write(data)

    def finish(self) -> None:
        """Remove the mark that it is incomplete."""
        self.system.delete_file(f"{self.root}/{_UNFINISHED}")

    def discard(self) -> None:
        """Remove the written objects, unless it is whole."""
        if self._is_unfinished():
            self._clear()

    def _is_unfinished(self) -> bool:
        found = self.system.get_file_info(f"{self.root}/{_UNFINISHED}")
        return bool(found.type == fs.FileType.File)

    def _clear(self) -> None:
        """Remove all, the mark last."""
        for name in self.listed():
            self.system.delete_file(f"{self.root}/{name}")
        self.system.delete_dir_contents(self.root)


def _s3(storage_options: Mapping[str, str]) -> Any:
    given = {key.lower().removeprefix("aws_"): str(one) for key, one in storage_options.items()}
    given = {"endpoint": os.environ.get("AWS_ENDPOINT", "")} | given
    options: dict[str, Any] = {
        _OPTIONS[key]: one for key, one in given.items() if key in _OPTIONS and one
    }
    endpoint = options.get("endpoint_override", "")
    if endpoint.startswith("http://") or given.get("allow_http", "").lower() == "true":
        options["scheme"] = "http" if not endpoint.startswith("https://") else "https"
    if "endpoint_override" in options:
        options["endpoint_override"] = endpoint.removeprefix("http://").removeprefix("https://")
    if given.get("virtual_hosted_style_request", "").lower() == "true":
        options["force_virtual_addressing"] = True
    return fs.S3FileSystem(**options, allow_delayed_open=True, background_writes=False)
