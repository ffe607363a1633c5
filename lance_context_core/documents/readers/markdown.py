"""Markdown: the text as it is, with its headings, fences and tables."""

import json
import math
import re
import tomllib
from collections.abc import Iterator
from typing import Any

from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.documents.readers.encodings import check_encoding, decoded
from lance_context_core.documents.reading import Block, Headings, ReadDocument

_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$")
_UNDERLINE = re.compile(r" {0,3}(=+|-+)[ \t]*$")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)$")
_TABLE_RULE = re.compile(r"[ \t]*\|?[ \t]*:?-+:?[ \t]*(\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$")
_NO_PARAGRAPH = re.compile(r" {0,3}(?:[>|]|[-*+] |\d+[.)] )|\s*$| {4}|\t")
_FIELD = re.compile(r"([A-Za-z_][\w -]*):(?:[ \t]+(.*))?$")
_SCALAR = re.compile(r"[>|][+-]?\d?[+-]?$")
"""That the text of a field stands in the lines below it."""
_MARKS = (
    (re.compile(r"!?\[([^\[\]]*+)\](?:\([^()]*+\)|\[[^\[\]]*+\])"), r"\1"),
    (re.compile(r"(`+)([^`]+)\1"), r"\2"),
    (re.compile(r"(?<![\w\\])(\*{1,3}|_{1,3})(?=\S)([^*_]+)(?<=\S)\1(?!\w)"), r"\2"),
    (re.compile(r"</?[a-zA-Z][^<>]*+>|\{#[^{}]*+\}$"), ""),
    (re.compile(r"\\([!-/:-@\[-`{-~])"), r"\1"),
)
"""What says in a heading how it looks, and what is left of it."""


@frozen_by_name
class MarkdownReader:
    """Reads Markdown; the front matter's simple fields become properties, and its `title` the title.

    Front matter is YAML between dashes, or TOML between plus signs. Offsets count in the file itself.
    A `#` in a fence or a comment is no heading, nor is `#tag`.
    """

    encoding: str | None = None

    def __post_init__(self) -> None:
        check_encoding(self.encoding)

    def read(self, content: bytes, *, name: str) -> ReadDocument:
        """The text as it is."""
        text, encoding = decoded(content, name=name, encoding=self.encoding)
        front, start = _front_matter(text)
        walk = _Walk(text, start)
        walk.run()
        stated = front.get("title")
        return ReadDocument(
            text=text,
            blocks=tuple(walk.blocks),
            title=stated if isinstance(stated, str) and stated else walk.title,
            properties={"encoding": encoding, **({"front_matter": front} if front else {})},
        )


class _Walk:
    """One way through the lines."""

    def __init__(self, text: str, start: int) -> None:
        self._text, self._start = text, start
        self._headings = Headings()
        self._titles: dict[int, str] = {}
        self.blocks: list[Block] = []
        self._open = start
        """Where the running text begins that is not a block yet."""
        self._has_ends = True
        """Whether a comment may end: not behind one that does not."""

    @property
    def title(self) -> str | None:
        """The first heading of the outermost level."""
        return self._titles[min(self._titles)] if self._titles else None

    def run(self) -> None:
        lines = list(_lines(self._text, self._start))
        index = 0
        while index < len(lines):
            start, end, line = lines[index]
            following = lines[index + 1][2] if index + 1 < len(lines) else ""
            if line.lstrip(" ").startswith("<!--") and self._has_ends:
                index = self._commented(lines, index)
            elif fence := _FENCE.match(line):
                index = self._fenced(lines, index, fence)
            elif (heading := _HEADING.match(line)) and not line.startswith("    "):
                self._heading(start, end, len(heading[1]), heading[2] or "")
                index += 1
            elif (
                (rule := _UNDERLINE.match(following))
                and not _NO_PARAGRAPH.match(line)
                and self._is_first_of_paragraph(lines, index)
            ):
                self._heading(start, lines[index + 1][1], 1 if rule[1][0] == "=" else 2, line)
                index += 2
            elif "|" in line and "|" in following and _TABLE_RULE.match(following):
                index = self._table(lines, index)
            else:
                index += 1
        self._close(len(self._text))

    def _commented(self, lines: list[tuple[int, int, str]], index: int) -> int:
        """The line behind the comment; the next one if it never ends."""
        begin = lines[index][0] + lines[index][2].index("<!--") + 4
        if (end := self._text.find("-->", begin)) < 0:
            self._has_ends = False
            return index + 1
        while index < len(lines) and lines[index][1] <= end:
            index += 1
        return index + 1

    def _heading(self, start: int, end: int, level: int, title: str) -> None:
        self._close(start)
        for mark, left in _MARKS:
            title = mark.sub(left, title)
        self._headings.enter(level, title)
        if plain := " ".join(title.split()):
            self._titles.setdefault(level, plain)
        self._block(start, end, "heading")

    def _fenced(self, lines: list[tuple[int, int, str]], index: int, fence: Any) -> int:
        """The line after the fence, or after the last one if it is never closed."""
        if fence[1][0] == "`" and "`" in fence[2]:
            return index + 1  # code within a line
        closing = re.compile(rf" {{0,3}}{re.escape(fence[1][0])}{{{len(fence[1])},}}[ \t]*$")
        last = index + 1
        while last < len(lines) and not closing.match(lines[last][2]):
            last += 1
        last = min(last, len(lines) - 1)
        self._whole(lines[index][0], lines[last][1])
        return last + 1

    def _table(self, lines: list[tuple[int, int, str]], index: int) -> int:
        last = index + 1
        while last + 1 < len(lines) and "|" in lines[last + 1][2]:
            last += 1
        self._whole(lines[index][0], lines[last][1], lines[index + 1][1])
        return last + 1

    def _is_first_of_paragraph(self, lines: list[tuple[int, int, str]], index: int) -> bool:
        is_top = lines[index][0] == self._open or index == 0
        return is_top or not lines[index - 1][2].strip()

    def _whole(self, start: int, end: int, behind_header: int = 0) -> None:
        self._close(start)
        self._block(start, end, "whole", max(behind_header - start, 0))

    def _close(self, end: int) -> None:
        """End the running text."""
        if self._text[self._open : end].strip():
            self._block(self._open, end, "text")

    def _block(self, start: int, end: int, kind: Any, header: int = 0) -> None:
        self.blocks.append(
            Block(start=start, end=end, kind=kind, section=self._headings.path, header=header)
        )
        self._open = end


def _lines(text: str, start: int) -> Iterator[tuple[int, int, str]]:
    """Where each line begins and ends, with its end, and what stands in it."""
    while start < len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end + 1
        yield start, end, text[start:end].rstrip("\r\n")
        start = end


def _front_matter(text: str) -> tuple[dict[str, Any], int]:
    """The fields that a file begins with, and where its text begins."""
    lines = _lines(text, 0)
    _, begin, first = next(lines, (0, 0, ""))
    ends = {"---": {"---", "..."}, "+++": {"+++"}}.get(first.rstrip())
    if ends is None:
        return {}, 0
    within = list[str]()
    for start, end, line in lines:
        if line.rstrip() in ends:
            try:
                return _yaml(within) if "---" in ends else _toml(text[begin:start]), end
            except ValueError:
                return {}, 0
        within.append(line)
    return {}, 0  # never closed: a rule, and text below it


def _toml(text: str) -> dict[str, Any]:
    """The fields, dates as texts. Raises ValueError for what is no TOML."""

    def number(said: str) -> float | str:
        return float(said) if math.isfinite(float(said)) else said

    fields = tomllib.loads(text.replace("\r\n", "\n"), parse_float=number)
    made: dict[str, Any] = json.loads(json.dumps(fields, default=str))
    return made


def _yaml(lines: list[str]) -> dict[str, Any]:
    """The simple fields: texts, of one line or several, and lists of them."""
    fields: dict[str, Any] = {}
    name, index = None, 0
    while index < len(lines):
        line, index = lines[index], index + 1
        if match := _FIELD.match(line):
            name = match[1].strip()
            said = (match[2] or "").strip()
            below = list[str]()
            if said and not said.startswith(("[", "{")):  # else what stands below is a list
                while index < len(lines) and (not lines[index].strip() or lines[index][0] in " \t"):
                    below.append(lines[index].strip())
                    index += 1
            if _SCALAR.match(said):
                fields[name] = ("\n" if said[0] == "|" else " ").join(below).strip()
            else:
                fields[name] = _value(" ".join(filter(None, [said, *below])))
        elif name and (item := line.strip()).startswith("- "):
            listed = fields[name] if isinstance(fields[name], list) else []
            fields[name] = [*listed, _value(item[2:])]
    return fields


def _value(text: str) -> Any:
    text = text.strip()
    if text.startswith("[") and text.endswith("]"):
        return [_value(one) for one in text[1:-1].split(",") if one.strip()]
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        return text[1:-1]
    return text
