"""A text of any length, which is not in memory if it is long: parts of it are read where they are needed."""

import weakref
from tempfile import SpooledTemporaryFile

_IN_MEMORY = 4 * 1024 * 1024
_CODEC, _WIDTH = "utf-32-le", 4
"""Each character has as many bytes, so that it is known where it stands."""


class SpooledText:
    """A text in a file, which has no name and is gone when nobody holds this any more."""

    def __init__(self) -> None:
        """Nothing yet."""
        self._file = SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115 - see above
        self._length = 0
        weakref.finalize(self, self._file.close)

    def put(self, start: int, text: str) -> None:
        """Write a part of it, which begins at the character `start`."""
        self._file.seek(start * _WIDTH)
        self._file.write(text.encode(_CODEC))
        self._length = max(self._length, start + len(text))

    def __len__(self) -> int:
        """How many characters there are by now."""
        return self._length

    def __getitem__(self, part: slice) -> str:
        """The characters from one offset to another, as of a `str`."""
        start, end, _ = part.indices(self._length)
        self._file.seek(start * _WIDTH)
        return self._file.read(max(end - start, 0) * _WIDTH).decode(_CODEC)
