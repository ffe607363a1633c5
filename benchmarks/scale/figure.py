"""The figure: how the times of calls grow with the store, as an SVG for light and dark pages."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import atan2, ceil, degrees, floor, log10

_WIDTH, _HEIGHT = 760, 440
_LEFT, _RIGHT, _TOP, _BOTTOM = 68, 232, 58, 60
_LABEL_GAP = 18
"""Labels stand at least so far below each other."""

_LIGHT_COLOURS = ("#0b6bcb", "#b35900", "#1a7f37", "#a02a6e", "#6639ba", "#8a6d00", "#00767a")
_DARK_COLOURS = ("#6cb6ff", "#f0a35e", "#5ecb7c", "#f08cc4", "#c0a4ff", "#dcc04a", "#4fd0d4")


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """Where a value stands; both axes are logarithmic."""

    rows: tuple[int, int]
    """The fewest records, and the most."""
    powers: tuple[int, int]
    """The powers of ten at the bottom and at the top, in milliseconds."""

    def x(self, rows: float) -> float:
        """The place of so many records."""
        low, high = map(log10, self.rows)
        return _LEFT + (log10(rows) - low) / (high - low) * (_WIDTH - _LEFT - _RIGHT)

    def y(self, ms: float) -> float:
        """The place of so many milliseconds."""
        low, high = self.powers
        return _HEIGHT - _BOTTOM - (log10(ms) - low) / (high - low) * (_HEIGHT - _TOP - _BOTTOM)


def svg(sizes: Sequence[int], times_ms: Mapping[str, Sequence[float]], *, title: str) -> str:
    """A line for each name, with a value for each of `sizes`: two or more, ascending."""
    values = [one for line in times_ms.values() for one in line]
    powers = floor(log10(min(values))), ceil(log10(max(values)))
    frame = Frame(rows=(sizes[0], sizes[-1]), powers=powers)
    labels = _apart({name: frame.y(line[-1]) for name, line in times_ms.items()})
    lines = [
        _line(frame, sizes, line, name=name, label_y=labels[name])
        for name, line in times_ms.items()
    ]
    edge = f'x="0.5" y="0.5" width="{_WIDTH - 1}" height="{_HEIGHT - 1}" rx="8"'
    size = f'viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-labelledby="title">',
        f'<title id="title">{escape(title)}</title>',
        f"<style>{_style()}</style>",
        f'<rect class="page" {edge}/>',
        _text("head", _LEFT, 32, title),
        *_grid(frame, sizes),
        *_guide(frame),
        *(f'<g class="c{number}">{line}</g>' for number, line in enumerate(lines)),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _grid(frame: Frame, sizes: Sequence[int]) -> Iterable[str]:
    left, right = map(frame.x, frame.rows)
    bottom, top = (frame.y(10.0**power) for power in frame.powers)
    for power in range(frame.powers[0], frame.powers[1] + 1):
        y = frame.y(10.0**power)
        yield _path("grid", f"M{left:.1f} {y:.1f}H{right:.1f}")
        yield _text("tick", left - 10, y + 4, _duration(10.0**power), anchor="end")
    for rows in sizes:
        x = frame.x(rows)
        yield _path("grid", f"M{x:.1f} {top:.1f}V{bottom:.1f}")
        yield _text("tick", x, bottom + 20, f"{rows:,}", anchor="middle")
    yield _text("tick", (left + right) / 2, bottom + 42, "records in the store", anchor="middle")


def _guide(frame: Frame) -> Iterable[str]:
    """What would take as many times longer as there are times as many records."""
    (start, most), (low, high) = frame.rows, (10.0**power for power in frame.powers)
    end = min(most, start * high / low)
    left, bottom, right, top = (
        frame.x(start),
        frame.y(low),
        frame.x(end),
        frame.y(low * end / start),
    )
    yield _path("guide", f"M{left:.1f} {bottom:.1f}L{right:.1f} {top:.1f}")
    angle = degrees(atan2(top - bottom, right - left))
    turn = f"translate({left:.1f} {bottom:.1f}) rotate({angle:.1f})"
    yield f'<g transform="{turn}">{_text("note", 24, 16, "grows as the store does")}</g>'


def _line(
    frame: Frame, sizes: Sequence[int], values: Sequence[float], *, name: str, label_y: float
) -> str:
    points = [(frame.x(rows), frame.y(value)) for rows, value in zip(sizes, values, strict=True)]
    x, y = points[-1]
    value = f'<tspan class="value" dx="6">{_duration(values[-1])}</tspan>'
    parts = [
        _path("line", "M" + "L".join(f"{one[0]:.1f} {one[1]:.1f}" for one in points)),
        *(f'<circle cx="{one[0]:.1f}" cy="{one[1]:.1f}" r="3"/>' for one in points),
        _path("lead", f"M{x + 5:.1f} {y:.1f}L{x + 16:.1f} {label_y:.1f}"),
        f'<text class="label" x="{x + 20:.1f}" y="{label_y + 4:.1f}">{escape(name)}{value}</text>',
    ]
    return "".join(parts)


def _apart(heights: Mapping[str, float]) -> dict[str, float]:
    """The heights moved, as little as need be, so that no two are closer than a label is high."""
    names = sorted(heights, key=heights.__getitem__)
    placed = [heights[name] for name in names]
    for _ in range(100):
        for upper in range(len(placed) - 1):
            short = max(0.0, _LABEL_GAP - (placed[upper + 1] - placed[upper]))
            placed[upper] -= short / 2
            placed[upper + 1] += short / 2
    return dict(zip(names, placed, strict=True))


def _text(kind: str, x: float, y: float, words: str, *, anchor: str = "start") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text class="{kind}" {place}>{escape(words)}</text>'


def _path(kind: str, d: str) -> str:
    return f'<path class="{kind}" d="{d}"/>'


def _duration(ms: float) -> str:
    """With the unit that suits it."""
    return f"{ms / 1_000:.2g} s" if ms >= 1_000 else f"{ms:.0f} ms" if ms >= 10 else f"{ms:.2g} ms"


def _style() -> str:
    base = (
        "text{font:13px system-ui,-apple-system,'Segoe UI',Roboto,sans-serif}"
        ".head{font-size:15px;font-weight:600}.note{font-size:12px;font-style:italic}"
        "path{fill:none}.line{stroke-width:2;stroke-linejoin:round}"
        ".guide{stroke-width:1.5;stroke-dasharray:5 4}"
    )
    light = _rules("#ffffff", "#d8dee4", "#e4e8ec", "#59636e", "#1f2328", _LIGHT_COLOURS)
    dark = _rules("#0d1117", "#30363d", "#21262d", "#9198a1", "#f0f6fc", _DARK_COLOURS)
    return f"{base}{light}@media(prefers-color-scheme:dark){{{dark}}}"


def _rules(page: str, edge: str, grid: str, quiet: str, head: str, colours: Sequence[str]) -> str:
    rules = [
        f".page{{fill:{page};stroke:{edge}}}.grid{{stroke:{grid}}}.guide{{stroke:{quiet}}}",
        f".tick,.note,.value{{fill:{quiet}}}.head{{fill:{head}}}",
    ]
    for number, colour in enumerate(colours):
        rules.append(f".c{number} path{{stroke:{colour}}}")
        rules.append(f".c{number} circle,.c{number} .label{{fill:{colour}}}")
    # More special than the colour of the line that it belongs to.
    return "".join([*rules, f"g .label .value{{fill:{quiet}}}"])
