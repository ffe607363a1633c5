"""Tokens counted by OpenAI's `tiktoken`, from files that are at hand: nothing is downloaded."""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lance_context_core._util.checks import shown
from lance_context_core._util.extras import Loaded, require
from lance_context_core.errors import InvalidRequestError, NotFoundError

_FILES: Mapping[str, str] = {
    name: f"https://openaipublic.blob.core.windows.net/encodings/{file}.tiktoken"
    for name, file in {
        "o200k_base": "o200k_base",
        "o200k_harmony": "o200k_base",
        "cl100k_base": "cl100k_base",
        "p50k_base": "p50k_base",
        "r50k_base": "r50k_base",
    }.items()
}
"""What each encoding is read from: the cache has a file by the digest of that address."""
_FOLDER = "TIKTOKEN_CACHE_DIR"


class TiktokenCounter:
    """Counts with an encoding of `tiktoken`, exactly, from a folder that has its file.

    It needs the extra `tiktoken`. The folder is one that `tiktoken` filled as its cache, such as the one
    that llama-index-core carries.
    """

    def __init__(
        self, encoding: str = "o200k_base", *, cache: str | os.PathLike[str] | None = None
    ) -> None:
        """Count with that encoding; `cache` is the folder, absent what `TIKTOKEN_CACHE_DIR` names.

        Raises InvalidRequestError for an unknown encoding, or without a folder, MissingExtraError
        without `tiktoken`, and NotFoundError if the folder has not the file.
        """
        if encoding not in _FILES:
            raise InvalidRequestError(f"encoding={shown(encoding)}: there are {', '.join(_FILES)}")
        folder = os.environ.get(_FOLDER) if cache is None else os.fspath(cache)
        if not folder:
            raise InvalidRequestError(
                f"cache={shown(cache)}: give the folder with tiktoken's files, or set {_FOLDER}"
            )
        require("tiktoken", extra="tiktoken", by="TiktokenCounter")
        digest = hashlib.sha1(_FILES[encoding].encode(), usedforsecurity=False).hexdigest()
        path = Path(folder) / digest
        if not path.is_file():
            raise NotFoundError(
                f"{folder} has no file {digest}, which tiktoken keeps {encoding} in: run "
                f'{_FOLDER}={folder} python -c "import tiktoken; tiktoken.get_encoding({encoding!r})" '
                "where there is a network"
            )
        self.encoding = encoding
        self._encoding: Loaded[Any] = Loaded(_Loading(encoding, str(folder)))

    def count(self, text: str) -> int:
        """The tokens of a text; what looks like a special token counts as the text that it is."""
        # Of lone surrogates it knows nothing.
        clean = text.encode("utf-8", "replace").decode("utf-8")
        return len(self._encoding.get().encode_ordinary(clean))


class _Loading:
    """Reads an encoding from its folder; the library takes that from the environment alone."""

    def __init__(self, encoding: str, folder: str) -> None:
        self._encoding, self._folder = encoding, folder

    def __call__(self) -> Any:
        import tiktoken

        before = os.environ.get(_FOLDER)
        os.environ[_FOLDER] = self._folder
        try:
            return tiktoken.get_encoding(self._encoding)
        finally:
            if before is None:
                del os.environ[_FOLDER]
            else:
                os.environ[_FOLDER] = before
