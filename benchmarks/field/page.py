"""The table, and what has to be known to read it, as a part of a page of the documentation."""

import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby

from benchmarks.field.data import TURN, Data
from benchmarks.field.killing import TASK as KILL
from benchmarks.field.killing import TITLE as KILL_TITLE
from benchmarks.field.peers import Peer
from benchmarks.field.running import SIZES, Cell, Outcome, titles

_MAX_SAYS = 300
_CUT_SHORT = "cut short, because it took so long"


def made_part(
    peers: Sequence[Peer],
    outcomes: Mapping[str, Outcome],
    data: Data,
    *,
    command: str,
    load: str,
) -> str:
    """The table of a run, its machine, and whatever its cells have no room for."""
    names = {**titles(data), KILL: KILL_TITLE}
    return "\n\n".join(
        [
            f"```bash\n{command}\n```",
            _table(peers, outcomes, names),
            _bullets(_facts(data, load)),
            "### What failed, what is wrong, and what was cut short",
            _bullets(_troubles(peers, outcomes, names)) or "Nothing.",
            "### How each was used",
            _used(peers, outcomes),
        ]
    )


def _table(peers: Sequence[Peer], outcomes: Mapping[str, Outcome], names: Mapping[str, str]) -> str:
    units = {**dict.fromkeys(names, "ms"), **dict.fromkeys(SIZES, "MiB")}
    del units[KILL]
    heads = [f"{name}, {units[task]}" if task in units else name for task, name in names.items()]
    lines = [["peer", *heads], ["---", *["---:"] * len(heads)]]
    for group, of_group in groupby(peers, key=lambda peer: peer.group):
        members = list(of_group)
        ours = next((outcomes[peer.name] for peer in members if peer.is_ours), None)
        lines.append([f"*{group}*", *[""] * len(heads)])
        for peer in members:
            name = f"**{peer.name}**" if peer.is_ours else peer.name
            of_ours = {} if ours is None or peer.is_ours else ours.cells
            cells = outcomes[peer.name].cells
            lines.append([name, *(_cell(cells.get(task), of_ours.get(task)) for task in names)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(cell: Cell | None, of_ours: Cell | None) -> str:
    """A cell; with the ratio to this project's, if both are right."""
    if cell is None:
        return "not asked"
    if cell.kind == "lacks":
        return cell.says
    if cell.kind == "fails":
        return "**fails**"
    if cell.kind == "wrong":
        return "**wrong**"
    if cell.value is None:
        return cell.says
    shown = _number(cell.value)
    if of_ours is None or of_ours.kind != "measured" or not of_ours.value:
        return shown
    return f"{shown} ({_number(cell.value / of_ours.value)}×)"  # noqa: RUF001 - times


def _number(value: float) -> str:
    """Three digits, without powers of ten."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _troubles(
    peers: Iterable[Peer], outcomes: Mapping[str, Outcome], names: Mapping[str, str]
) -> Iterable[str]:
    for peer in peers:
        said: dict[str, list[str]] = {}
        for task, name in names.items():
            cell = outcomes[peer.name].cells.get(task)
            if cell is not None and cell.kind in {"fails", "wrong"}:
                said.setdefault(_sentence(cell), []).append(name)
            if cell is not None and cell.n_done is not None:
                said.setdefault(_CUT_SHORT, []).append(f"{name} ({cell.n_done} times)")
        if not peer.has_vectors:
            said["keeps no vectors"] = ["all"]
        for words, tasks in said.items():
            which = "" if tasks == ["all"] else f", {', '.join(tasks)}"
            yield f"{peer.name}{which}: {words}"


def _sentence(cell: Cell) -> str:
    says = " ".join(cell.says.split()).replace("|", "\\|")
    says = says if len(says) <= _MAX_SAYS else f"{says[:_MAX_SAYS]}…"
    if cell.kind == "fails":
        return f"**fails**: {says}"
    time = "" if cell.value is None else f" (after {_number(cell.value)} ms)"
    return f"**wrong**{time}: {says}"


def _used(peers: Iterable[Peer], outcomes: Mapping[str, Outcome]) -> str:
    rows = [
        f"| {peer.name} | {outcomes[peer.name].versions or 'did not start'} | {peer.how} |"
        for peer in peers
    ]
    return "\n".join(["| peer | versions | how |", "|---|---|---|", *rows])


def _facts(data: Data, load: str) -> Iterable[str]:
    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    sizes = data.sizes
    yield (
        f"{sizes.rows:,} messages in sessions of {sizes.session_rows}, written session by session; "
        f"then {sizes.appends} one at a time and {sizes.turns} turns of {TURN}; "
        f"{sizes.queries} questions of each kind, {sizes.kills} kills"
    )
    yield f"{datetime.now(UTC):%Y-%m-%d}, Python {platform.python_version()}"
    yield (
        f"{os.cpu_count()} cores, {pages * size / 2**30:.0f} GiB of memory, {platform.system()} "
        f"{platform.machine()}; load {load}"
    )


def _bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)
