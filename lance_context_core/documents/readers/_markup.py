"""HTML, tag by tag, in time that grows with the page alone, whatever is in it.

`html.parser` looks for the end of what never ends at each of its beginnings.
"""

import html
import re

_NAME = re.compile(r"[a-zA-Z][^\s/>\0]*+")
_TO_END = re.compile(r"""(?>[^>=]++|=\s*+"[^"]*+"|=\s*+'[^']*+'|=)*+>""")
"""The rest of a tag: a `>` in a quoted value is no end. It never goes back."""

_RAW = {name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE) for name in ("script", "style")}
"""In these is no tag but their end."""


class Markup:
    """Calls a method for each tag and each text. Names are in small letters, attributes are left out."""

    def __init__(self) -> None:
        self._text = ""
        self._last = -1
        """Where the last `>` is: behind it nothing ends."""
        self._has_quotes = True
        """Whether a `>` in a quoted value is no end: not behind a tag that so has none."""
        self._missing: set[str] = set()
        self.n_scanned = 0
        """How many characters were looked at, some of them more than once."""

    def start(self, tag: str) -> None:
        """Is called at the beginning of an element."""

    def empty(self, tag: str) -> None:
        """Is called at an element that ends where it begins, such as `<br/>`."""

    def end(self, tag: str) -> None:
        """Is called at the end of an element."""

    def data(self, text: str) -> None:
        """Is called for a text between tags, or a piece of one."""

    def feed(self, text: str) -> None:
        """Read a whole page."""
        self._text, self._last = text, text.rfind(">")
        at = 0
        while at < len(text):
            begin = self._find("<", at)
            begin = len(text) if begin < 0 else begin
            if begin > at:
                self.data(_unescaped(text[at:begin]))
            if begin == len(text):
                return
            at = self._markup(begin)
            if at == begin:
                self.data("<")
                at += 1

    def _markup(self, at: int) -> int:
        """Where what begins there ends; the same place if it is no markup."""
        if at > self._last:
            return at
        text = self._text
        if text.startswith("<!--", at):
            return self._behind("-->", at + 2, at)
        if text.startswith("<![CDATA[", at):
            return self._behind("]]>", at, at)
        is_end = text.startswith("/", at + 1)
        if (name := _NAME.match(text, at + 1 + is_end)) is None:
            is_other = is_end or text.startswith(("!", "?"), at + 1)
            return self._behind(">", at, at) if is_other else at
        behind = self._behind_tag(name.end(), at)
        if behind == at:
            return at
        tag = name[0].lower()
        if is_end:
            self.end(tag)
        elif text.startswith("/", behind - 2):
            self.empty(tag)
        else:
            self.start(tag)
            if tag in _RAW:
                return self._raw_end(tag, behind)
        return behind

    def _behind_tag(self, start: int, otherwise: int) -> int:
        if self._has_quotes:
            if (found := _TO_END.match(self._text, start)) is not None:
                self.n_scanned += found.end() - start
                return found.end()
            self.n_scanned += len(self._text) - start
            self._has_quotes = False
        return self._behind(">", start, otherwise)

    def _raw_end(self, tag: str, start: int) -> int:
        found = _RAW[tag].search(self._text, start)
        end = len(self._text) if found is None else found.start()
        self.n_scanned += end - start
        if end > start:
            self.data(self._text[start:end])
        return end

    def _behind(self, what: str, start: int, otherwise: int) -> int:
        """Where the next one of these ends; else that other place."""
        if what in self._missing or (found := self._find(what, start)) < 0:
            self._missing.add(what)  # Nor will it be found further back.
            return otherwise
        return found + len(what)

    def _find(self, what: str, start: int) -> int:
        found = self._text.find(what, start)
        self.n_scanned += (len(self._text) if found < 0 else found) - start + 1
        return found


def _unescaped(text: str) -> str:
    try:
        return html.unescape(text)
    except ValueError:  # A number of thousands of digits, which is no character.
        return text
