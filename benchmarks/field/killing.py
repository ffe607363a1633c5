"""What a kill costs: a peer's process is ended while it appends, and what it acknowledged is looked for."""

import random
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.field.data import Data
from benchmarks.field.peers import Peer
from benchmarks.field.running import Asked, Cell, Start
from benchmarks.processes import SideError

TASK = "kill"
TITLE = "lost by kills"
_AT_LEAST = 10
"""How many appends are acknowledged before a kill."""
_WAIT_SECONDS = 60.0
_MAX_DELAY_MS = 200
"""How much later a kill comes at most."""
_COUNT = 2_000
"""More appends than any peer can do until it is killed."""
_GAP = 50
"""What a kill interrupts may be there or not: nothing near it is written again."""


def killed(peer: Peer, data: Data, *, start: Start, folder: Path) -> Cell:
    """What was lost of what a peer acknowledged before it was killed, several times."""
    told = folder / "told.txt"
    told.touch()
    place = {"folder": str(folder / "store"), "rows": str(data.path)}
    draw = random.Random(peer.name)
    try:
        for _ in range(data.sizes.kills):
            _append_until_killed(
                start(peer),
                place,
                told,
                n_messages=data.sizes.total,
                after_ms=draw.uniform(0, _MAX_DELAY_MS),
            )
        acknowledged = _numbers(told)
        side = start(peer)
        try:
            side.ask("open", **place)
            lost = set(acknowledged) - _found(side, data, acknowledged)
        finally:
            side.close()
    except SideError as error:
        return Cell(kind="fails", says=str(error))
    if lost:
        return Cell(kind="wrong", says=f"{len(lost)} of {len(acknowledged)} lost")
    return Cell(kind="measured", says=f"0 of {len(acknowledged)}")


def _append_until_killed(
    side: Asked, place: Mapping[str, str], told: Path, *, n_messages: int, after_ms: float
) -> None:
    """Raises SideError if it fails before it is killed."""
    errors: list[str] = []
    before = len(_numbers(told))
    first = max(_numbers(told), default=-_GAP) + _GAP
    count = min(_COUNT, n_messages - first)

    def append() -> None:
        try:
            answer = side.ask("append", start=first, count=count, told=str(told))
        except SideError as error:
            errors.append(str(error))
        else:
            errors.append(answer.get("error") or answer.get("lacks") or "")

    try:
        side.ask("open", **place)
        appending = threading.Thread(target=append)
        appending.start()
        end = time.monotonic() + _WAIT_SECONDS
        while appending.is_alive() and len(_numbers(told)) < before + _AT_LEAST:
            if time.monotonic() > end:
                errors.append(f"fewer than {_AT_LEAST} appends in {_WAIT_SECONDS:g} s")
                break
            time.sleep(0.002)
        time.sleep(after_ms / 1_000)
        failures = [error for error in errors if error]
    finally:
        side.close()
    appending.join()
    if failures:
        raise SideError(failures[0])


def _found(side: Asked, data: Data, numbers: Sequence[int]) -> set[int]:
    """Those of `numbers` that a peer reads in their sessions, or else finds by their vectors."""
    found: set[int] = set()
    for session in dict.fromkeys(data.sessions[number] for number in numbers):
        answer = side.ask("whole", session=session)
        if "lacks" in answer:
            return {number for number in numbers if number in _near(side, data, number)}
        found |= {data.numbers.get(text, -1) for text in answer["texts"]}
    return found


def _near(side: Asked, data: Data, number: int) -> list[int]:
    vector = data.vectors[number].tolist()
    answer = side.ask("search", how="vector", text=f"kill {number}", vector=vector, limit=1)
    return [data.numbers.get(text, -1) for text in answer.get("texts", ())]


def _numbers(told: Path) -> list[int]:
    # The last line may be half of one.
    return [int(line) for line in told.read_text(encoding="ascii").split("\n")[:-1]]
