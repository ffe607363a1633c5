"""Draws a graph as SVG, without a library; the same graph gives the same drawing."""

from collections.abc import Iterable, Mapping
from html import escape

import numpy as np

from lance_context_core._util.checks import check_count
from lance_context_core.errors import InvalidRequestError
from lance_context_core.types.graph import SubGraph

MOST = 300
"""The most entities in one drawing: still distinguishable, and laid out in interactive time."""

_ROUNDS = 200
_MARGIN = np.array([100, 50])
"""Margins for half a name of most lengths, and for the names above."""
_COLOURS = ("#4c78a8", "#f58518", "#54a24b", "#e45756", "#72b7b2", "#b279a2", "#9d755d", "#bab0ac")
_LONGEST = 28
"""The font size of names."""
_LETTER = 7.5
"""The width of most letters of a name, in pixels."""


def draw(graph: SubGraph, *, width: int = 900, height: int = 600) -> str:
    """Returns the graph as an SVG document: entities coloured by type, relations as arrows.

    Relations between the same two entities are one line, with a head at each target end and all
    their types.
    Names are escaped text. Raises InvalidRequestError for more than 300 entities: draw the
    neighbours of one.
    """
    check_count(width, "width", least=280)
    check_count(height, "height", least=280)
    if len(graph.entities) > MOST:
        raise InvalidRequestError(
            f"the graph has {len(graph.entities)} entities, more than the {MOST} of a readable "
            "drawing: draw the neighbours of one of them"
        )
    numbers = {one.id: number for number, one in enumerate(graph.entities)}
    pairs = [(numbers[one.source_id], numbers[one.target_id]) for one in graph.relations]
    places = _laid_out(len(numbers), pairs) * ((width, height) - 2 * _MARGIN) + _MARGIN
    types = sorted({one.type for one in graph.entities})
    colours = {one: _COLOURS[number % len(_COLOURS)] for number, one in enumerate(types)}
    lines = dict[tuple[int, int], dict[str, None]]()
    for (a, b), relation in zip(pairs, graph.relations, strict=True):
        lines.setdefault((a, b), {})[relation.type] = None
    parts = [_loop(places[a], lines[a, b]) for a, b in lines if a == b]
    for a, b in lines:
        is_both = (b, a) in lines
        if a < b or (a > b and not is_both):
            named = lines[a, b] | (lines[b, a] if is_both else {})
            parts.append(_line(places[a], places[b], named, is_both=is_both))
    is_below = _leans(places, pairs)[:, 1] < 0  # most lines go up
    for number, one in enumerate(graph.entities):
        x, y = places[number]
        parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="9" fill="{colours[one.type]}">'
            f"<title>{_text(f'{one.name} ({one.type})')}</title></circle>"
            f'<text x="{_beside(x, one.name, width):.1f}" '
            f'y="{y + (24 if is_below[number] else -14):.1f}" class="name">'
            f"{_text(_short(one.name))}</text>"
        )
    return "\n".join(
        [_HEAD.format(width=width, height=height), *parts, *_legend(colours), "</svg>\n"]
    )


def _laid_out(n: int, pairs: list[tuple[int, int]]) -> np.ndarray:
    """Returns positions in the unit square: related entities attract (Fruchterman, 1991)."""
    turn = np.arange(n) * 2.399963  # by the golden angle, so that no two start at one position
    radius = np.sqrt((np.arange(n) + 0.5) / max(n, 1))
    places = np.stack([radius * np.cos(turn), radius * np.sin(turn)], axis=1)
    if n < 2:
        return np.full((n, 2), 0.5)
    length = 2 / np.sqrt(n)
    sources, targets = (np.array([pair[end] for pair in pairs], np.int64) for end in (0, 1))
    for round_ in range(_ROUNDS):
        apart = places[:, None] - places[None]
        distance = np.maximum(np.linalg.norm(apart, axis=2, keepdims=True), 1e-3)
        push = (apart / distance**2).sum(axis=1) * length**2
        pull = np.zeros_like(places)
        if len(pairs):
            along = places[targets] - places[sources]
            strength = along * np.linalg.norm(along, axis=1, keepdims=True) / length
            np.add.at(pull, sources, strength)
            np.add.at(pull, targets, -strength)
        step = push + pull - 0.05 * places
        size = np.maximum(np.linalg.norm(step, axis=1, keepdims=True), 1e-9)
        places = places + step / size * np.minimum(size, 0.2 * (1 - round_ / _ROUNDS))
    low, high = places.min(axis=0), places.max(axis=0)
    unit: np.ndarray = (places - low) / np.maximum(high - low, 1e-9)
    return unit


def _leans(places: np.ndarray, pairs: list[tuple[int, int]]) -> np.ndarray:
    """Returns the direction of each entity's lines, summed up."""
    leans = np.zeros_like(places)
    for a, b in pairs:
        along = (places[b] - places[a]) / max(float(np.linalg.norm(places[b] - places[a])), 1e-9)
        leans[a] += along
        leans[b] -= along
    return leans


def _line(start: np.ndarray, end: np.ndarray, types: Iterable[str], *, is_both: bool) -> str:
    length = max(float(np.linalg.norm(end - start)), 1e-9)
    gap = (end - start) / length * min(12.0, length / 2)
    (x1, y1), (x2, y2) = start + gap * is_both, end - gap
    x, y = (start + end) / 2
    back = ' marker-start="url(#to)"' if is_both else ""
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
        f'class="relation" marker-end="url(#to)"{back}/>'
        f'<text x="{x:.1f}" y="{y + 3:.1f}" class="type">{_text(_short(", ".join(types)))}</text>'
    )


def _loop(place: np.ndarray, types: Iterable[str]) -> str:
    x, y = place
    return (
        f'<path d="M {x + 6:.1f} {y + 7:.1f} c 34 30 34 -34 6 -10" class="relation" '
        'marker-end="url(#to)"/>'
        f'<text x="{x + 34:.1f}" y="{y + 22:.1f}" class="type">{_text(_short(", ".join(types)))}</text>'
    )


def _beside(x: float, name: str, width: int) -> float:
    """Returns the middle of a name: above its entity, or moved so that it fits the picture."""
    half = min(_LETTER * len(_short(name)) / 2 + 4, width / 2)
    return float(min(max(x, half), width - half))


def _legend(colours: Mapping[str, str]) -> list[str]:
    return [
        f'<circle cx="16" cy="{18 + 18 * number}" r="5" fill="{colour}"/>'
        f'<text x="28" y="{22 + 18 * number}" class="key">{_text(_short(type_))}</text>'
        for number, (type_, colour) in enumerate(colours.items())
    ]


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _text(text: str) -> str:
    """Escapes the text for XML; characters that XML cannot hold become replacements."""
    kept = "".join(one if one >= " " and one not in "\ufffe\uffff" else "\ufffd" for one in text)
    return escape(kept)


_HEAD = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">
<defs><marker id="to" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto-start-reverse">
<path d="M0 0 L8 4 L0 8 z" fill="#999"/></marker></defs>
<style>text {{ font-family: sans-serif; fill: #333; stroke: #fff; stroke-width: 4; paint-order: stroke }}
.name {{ font-size: 13px; text-anchor: middle }} .key {{ font-size: 11px }}
.type {{ font-size: 10px; text-anchor: middle; fill: #777 }}
.relation {{ stroke: #bbb; stroke-width: 1.3; fill: none }}</style>
<rect width="100%" height="100%" fill="#fff"/>"""
