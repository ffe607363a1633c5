"""Counts the tokens of texts and messages in a model's context.

Uses no network. `HeuristicTokenCounter` estimates from the text; the model's tokenizer can be
passed as a function.
"""

import hashlib
import math
import os
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from lance_context_core._util.checks import dumps, shown
from lance_context_core._util.extras import Loaded, require
from lance_context_core._util.frozen import frozen_by_name
from lance_context_core._util.lru import remembered
from lance_context_core.errors import InvalidRequestError, NotFoundError
from lance_context_core.messages import Message, Part, iter_parts
from lance_context_core.messages import parts as kinds
from lance_context_core.window.providers.common import speaker_name

IMAGE_TOKENS = 1_000
"""Tokens of a picture: more than most models charge for one of usual size."""
MEDIA_TOKENS = 1_500
"""Tokens of a sound, a film or a file."""
MESSAGE_TOKENS = 4
"""Tokens of a message's framing: its role and delimiters."""
CALL_TOKENS = 8
"""Tokens of the framing of a tool call or result: its id and delimiters."""


@runtime_checkable
class TokenCounter(Protocol):
    """Counts the tokens of texts to measure a window."""

    def count(self, text: str) -> int:
        """Return the tokens of a text: an integer, 0 or more, always the same."""


class HeuristicTokenCounter:
    """Estimates tokens from words, digits, signs and scripts, modelled on byte-pair encodings.

    Modelled on cl100k: within 15 % of it on English, German, code and JSON, and above it rather
    than below on Chinese, Japanese and Thai. `observe` calibrates it with a model's reports.
    """

    def __init__(self) -> None:
        """Start without reports."""
        self._lock = threading.Lock()
        self._estimated = 0.0
        self._reported = 0.0

    @property
    def ratio(self) -> float:
        """The factor of the estimates: 1 until a model's usage is reported."""
        with self._lock:
            return self._reported / self._estimated if self._estimated else 1.0

    def observe(self, estimated: int, actual: int) -> None:
        """Record that a model counted `actual` tokens for an estimate of `estimated`.

        The ratio is that of the sums of all reports, so keep one counter per model.
        """
        for name, value in (("estimated", estimated), ("actual", actual)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InvalidRequestError(
                    f"{name}={shown(value)}: give a number of tokens, above 0"
                )
        ratio = self.ratio
        with self._lock:
            self._estimated += estimated / ratio
            self._reported += actual

    def count(self, text: str) -> int:
        """Return the estimate, at least 1 for a text that is not empty."""
        if not text:
            return 0
        return max(1, round(_estimate(text) * self.ratio))


class CallableTokenCounter:
    """Counts with a function, such as a tokenizer's `encode`, or one that returns a number."""

    def __init__(self, function: Callable[[str], object]) -> None:
        """Create it from a function that returns the tokens of a text, or their number."""
        if not callable(function):
            raise InvalidRequestError(f"function={shown(function)}: give a function of a text")
        self._function = function

    def count(self, text: str) -> int:
        """Return the tokens of a text."""
        found: Any = self._function(text)
        return found if isinstance(found, int) else len(found)


def as_token_counter(given: object) -> TokenCounter:
    """Return `given` as a counter; a function is wrapped, and None means the estimate."""
    if given is None:
        return HeuristicTokenCounter()
    if isinstance(given, TokenCounter) and not isinstance(given, type):
        # Texts and tuples have another kind of `count`.
        if not isinstance(given, str | bytes | list | tuple):
            return given
    elif callable(given):
        return CallableTokenCounter(given)
    raise InvalidRequestError(
        f"counter={shown(given)}: give a function of a text, or an object with the method count"
    )


class Measure:
    """Counts messages with a counter, each text once; rejects invalid counts."""

    def __init__(self, counter: TokenCounter) -> None:
        """Create it for a counter."""
        self._counter = counter
        self._known: dict[str, int] = {}

    def text(self, text: str) -> int:
        """Return the tokens of a text. Raises InvalidRequestError unless an integer, 0 or more."""
        if (known := self._known.get(text)) is not None:
            return known
        try:
            found = self._counter.count(text)
        except Exception as error:
            raise InvalidRequestError(
                f"the token counter {shown(self._counter)} failed: {error}"
            ) from error
        if isinstance(found, bool) or not isinstance(found, int) or found < 0:
            raise InvalidRequestError(
                f"the token counter {shown(self._counter)} says {shown(found)} tokens: "
                "it has to give a whole number, 0 or more"
            )
        self._known[text] = found
        return found

    def message(self, message: Message) -> int:
        """Return the tokens of a message as sent to a model, with its framing."""
        name = speaker_name(message)
        named = 0 if name is None else self.text(f"{name}:")
        return MESSAGE_TOKENS + named + self.parts(message.parts)

    def messages(self, messages: Iterable[Message]) -> int:
        """Return the tokens of several messages."""
        return sum(map(self.message, messages))

    def parts(self, parts: Iterable[Part]) -> int:
        """Return the tokens of parts, including the contents of tool results."""
        return sum(map(self._part, iter_parts(parts)))

    def _part(self, part: Part) -> int:
        match part:
            case kinds.TextPart():
                return self.text(part.text)
            case kinds.ReasoningPart():
                # A signature is the reasoning in another form: it is charged as it was generated.
                return max(self.text(part.text), len(part.signature or "") // 8) + 2
            case kinds.ToolCallPart():
                given = part.arguments
                arguments = given if isinstance(given, str) else dumps(given)
                return CALL_TOKENS + self.text(part.name) + self.text(arguments)
            case kinds.ToolResultPart():
                return CALL_TOKENS  # Its contents follow it.
            case kinds.DataPart():
                return self.text(dumps(part.data))
            case kinds.UnknownPart():
                return self.text(dumps({"type": part.type, **part.payload}))
            case kinds.ImagePart():
                return IMAGE_TOKENS
            case kinds.MediaPart():
                return MEDIA_TOKENS
        return 0


_WORDS = re.compile(r"[A-Za-z]+")

_RUNS = re.compile(
    r"(?P<digits>[0-9]+)"
    r"|(?P<lines>\s*[\r\n]+)"
    r"|(?P<spaces>[^\S\r\n]{2,})"
    r"|(?P<space>\s)"
    r"|(?P<signs>[!-/:-@\[-`{-~]+)"
    r"|(?P<latin>[\u00aa-\u024f]+)"
    r"|(?P<european>[\u0370-\u058f]+)"
    r"|(?P<kana>[\u3040-\u30ff]+)"
    r"|(?P<han>[\u2e80-\u303f\u3100-\u9fff\uf900-\ufaff\uff00-\uffef]+)"
    r"|(?P<hangul>[\uac00-\ud7af]+)"
    r"|(?P<typographic>[\u2000-\u206f\u20a0-\u20cf]+)"
    r"|(?P<bmp>[\u0590-\uffff]+)"
    r"|(?P<rest>.)",
    re.DOTALL,
)
"""The text between words of ASCII."""

_PER_CHARACTER = {
    "latin": 1.0,
    "european": 0.6,
    "kana": 1.0,
    "han": 1.2,
    "hangul": 1.25,
    "typographic": 1.0,
    "bmp": 1.05,
    "rest": 2.4,
}
"""Tokens per character of a run in that script."""


def _estimate(text: str) -> float:
    """Return the sum of the tokens of a text's runs."""
    total = 0.0
    n_foreign = 0
    *gaps, end = _WORDS.split(text)
    for gap, is_last in ((end, True), *((one, False) for one in gaps if one != " ")):
        tokens, n_latin = (_of_gap if len(gap) <= _SHORT else _of_runs)(gap, is_last)
        total += tokens
        n_foreign += n_latin
    letters = [len(word) for word in _WORDS.findall(text)]
    # Byte pairs were trained mostly on English: words between accented letters split into more.
    is_foreign = n_foreign * 60 > sum(letters)
    if is_foreign:
        return total + sum(1.0 if length <= 3 else length / 3.3 for length in letters)
    return total + len(letters) + sum((one - _WHOLE) / 6 for one in letters if one > _WHOLE)


def _of_runs(gap: str, is_last: bool) -> tuple[float, int]:  # noqa: FBT001 - of an inner loop
    """Return the tokens between two ASCII words, or behind the last, and the accented runs."""
    total, n_latin = 0.0, 0
    for match in _RUNS.finditer(gap):
        kind, length = match.lastgroup or "rest", match.end() - match.start()
        if kind == "digits":
            total += (length + 2) // 3
        elif kind in ("lines", "spaces"):
            total += 1 if length < 80 else length / 40
        elif kind == "signs":
            # A sign before a word is often part of the word's token.
            following = gap[match.end() : match.end() + 1]
            is_lead = length == 1 and (following.isalpha() if following else not is_last)
            total += 0.75 if is_lead else max(1, length / 2)
        elif kind != "space":
            total += _PER_CHARACTER[kind] * length
            n_latin += kind == "latin"
    return total, n_latin


_of_gap = remembered(256 * 1024)(_of_runs)
"""Short ones repeat often."""

_SHORT = 4

_WHOLE = 7
"""In letters: most English words of this length are one token."""


# Token counts by OpenAI's `tiktoken`, from local files: nothing is downloaded.

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
"""The source URL of each encoding, whose digest names the cached file."""
_FOLDER = "TIKTOKEN_CACHE_DIR"


class TiktokenCounter:
    """Counts exactly, with an encoding of `tiktoken` from a local folder.

    Requires the extra `tiktoken`. The folder is a cache of `tiktoken`, such as the one in
    llama-index-core.
    """

    def __init__(
        self, encoding: str = "o200k_base", *, cache: str | os.PathLike[str] | None = None
    ) -> None:
        """Create it for an encoding; `cache` is the folder, by default `TIKTOKEN_CACHE_DIR`.

        Raises InvalidRequestError for an unknown encoding, or without a folder, MissingExtraError
        without `tiktoken`, and NotFoundError if the folder lacks the file.
        """
        if encoding not in _FILES:
            raise InvalidRequestError(f"encoding={shown(encoding)}: use one of {', '.join(_FILES)}")
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
        """Return the tokens of a text; special tokens count as plain text."""
        # tiktoken rejects lone surrogates.
        clean = text.encode("utf-8", "replace").decode("utf-8")
        return len(self._encoding.get().encode_ordinary(clean))


class _Loading:
    """Loads an encoding from its folder, which the library reads from the environment only."""

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


# The token limits of a window and its sections.


@frozen_by_name
class Budget:
    """The context size of a model, and the tokens reserved outside the window.

    Raises InvalidRequestError for numbers that leave nothing for the window.
    """

    total: int
    """The context size of the model, its answer included."""
    reserve_output: int = 0
    """Tokens reserved for the answer, and for other input, such as tools."""
    margin: float = 0.05
    """In [0, 1): share of the rest reserved for errors of an estimate."""

    def __post_init__(self) -> None:
        for name in ("total", "reserve_output"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise InvalidRequestError(f"{name}={shown(value)}: give a number of tokens")
        margin = self.margin
        if isinstance(margin, bool) or not isinstance(margin, int | float) or not 0 <= margin < 1:
            raise InvalidRequestError(f"margin={shown(margin)}: give a number from 0 to below 1")
        if self.room < 1:
            raise InvalidRequestError(
                f"total={self.total} leaves no room: reserve_output={self.reserve_output} and "
                f"margin={self.margin} take it all"
            )

    @property
    def room(self) -> int:
        """The maximum tokens of a window."""
        return math.floor((self.total - self.reserve_output) * (1 - self.margin))


def as_budget(given: "Budget | int") -> Budget:
    """Return `given` as a budget; a number is the total, without any reserve."""
    if isinstance(given, Budget):
        return given
    if isinstance(given, bool) or not isinstance(given, int):
        raise InvalidRequestError(f"budget={shown(given)}: give a Budget, or a number of tokens")
    return Budget(total=given)
