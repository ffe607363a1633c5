"""Markdown: the text as it is, with its headings, fences and tables."""

import re
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


@frozen_by_name
class MarkdownReader:
    """Reads Markdown; the front matter's simple fields become properties, and its `title` the title.

    Offsets count in the file itself. A `#` in a fence is no heading, nor is `#tag`.
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
            if fence := _FENCE.match(line):
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

    def _heading(self, start: int, end: int, level: int, title: str) -> None:
        self._close(start)
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
        self._whole(lines[index][0], lines[last][1])
        return last + 1

    def _is_first_of_paragraph(self, lines: list[tuple[int, int, str]], index: int) -> bool:
        is_top = lines[index][0] == self._open or index == 0
        return is_top or not lines[index - 1][2].strip()

    def _whole(self, start: int, end: int) -> None:
        self._close(start)
        self._block(start, end, "whole")

    def _close(self, end: int) -> None:
        """End the running text."""
        if self._text[self._open : end].strip():
            self._block(self._open, end, "text")

    def _block(self, start: int, end: int, kind: Any) -> None:
        self.blocks.append(Block(start=start, end=end, kind=kind, section=self._headings.path))
        self._open = end


def _lines(text: str, start: int) -> Iterator[tuple[int, int, str]]:
    """Where each line begins and ends, with its end, and what stands in it."""
    while start < len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end + 1
        yield start, end, text[start:end].rstrip("\r\n")
        start = end


def _front_matter(text: str) -> tuple[dict[str, Any], int]:
    """The fields between the dashes that a file begins with, and where its text begins."""
    lines = _lines(text, 0)
    if next(lines, (0, 0, ""))[2].rstrip() != "---":
        return {}, 0
    fields: dict[str, Any] = {}
    name = None
    for _, end, line in lines:
        if line.rstrip() in {"---", "..."}:
            return fields, end
        if match := _FIELD.match(line):
            name = match[1].strip()
            fields[name] = _value(match[2] or "")
        elif name and (item := line.strip()).startswith("- "):
            listed = fields[name] if isinstance(fields[name], list) else []
            fields[name] = [*listed, _value(item[2:])]
    return {}, 0  # never closed: a rule, and text below it


def _value(text: str) -> Any:
    text = text.strip()
    if text.startswith("[") and text.endswith("]"):
        return [_value(one) for one in text[1:-1].split(",") if one.strip()]
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        return text[1:-1]
    return text
