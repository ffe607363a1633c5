"""AgentScope's ContextManager over the adapter's services, vs. AgentScope's own."""

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from benchmarks.bench import (
    AGENTSCOPE,
    AGENTSCOPE_SERVICES,
    IN_MEMORY_SERVICES,
    REDIS_SERVICES,
    Bench,
    Turns,
    in_turn,
    ratio,
)
from benchmarks.processes import Side, SideError
from benchmarks.redis_server import NoServerError, redis_server
from benchmarks.registry import Row, Target, figure

_SMALL, _LARGE = 1_000, 10_000
_SESSION = 50
"""How many messages a session has."""
_MANY = 100
"""How many users there are where it is not one."""
_SMALLER = "the smaller store"
_SERVICES = {
    AGENTSCOPE_SERVICES: "lance",
    _SMALLER: "lance, small",
    REDIS_SERVICES: "redis",
    IN_MEMORY_SERVICES: "memory",
}
"""What the side calls them."""
_NOTES = (
    f"sessions of {_SESSION} messages, each in the history and in the memory",
    "Redis keeps nothing on the disk",
)
_BESIDE_REDIS = 2
_CROWDS = 4
"""How often all users have a turn, the first time to warm up."""
_STALL_ROUNDS = 5
_STALL_MS = 20


@figure("agentscope-turn", "A turn of AgentScope's ContextManager, by its services")
def turn(bench: Bench) -> list[Row]:
    """What a user says composed, and an answer appended, with so many messages stored."""
    return [
        *_turns(bench, users=1, whose="of one user"),
        *_turns(bench, users=_MANY, whose=f"of {_MANY} users"),
    ]


@figure(
    "agentscope-stalls",
    "Longest stall of the event loop while turns of AgentScope are run, least of five rounds",
)
def loop_stalls(bench: Bench) -> list[Row]:
    """By how much a clock on the same loop was late at most.

    The least of five rounds: what blocks the loop does so in each, what else the machine does not.
    """
    try:
        side = bench.start(AGENTSCOPE)
        rounds = [
            side.ask("stalls", place=str(bench.folder / f"agentscope-stalls-{number}"))
            for number in range(_STALL_ROUNDS)
        ]
    except SideError as error:
        return [Row(what="stall", unit="ms", notes=(bench.failed(AGENTSCOPE, error),))]
    least = {name: min(one[name] for one in rounds) * 1_000 for name in rounds[0]}
    return [
        Row(
            what="turns, four at once",
            unit="ms",
            values={AGENTSCOPE_SERVICES: least["turns"]},
            judged=least["turns"],
            target=Target(at_most=_STALL_MS),
        ),
        Row(
            what="a loop on which nothing but a timer runs",
            unit="ms",
            values={AGENTSCOPE_SERVICES: least["nothing"]},
        ),
    ]


def _turns(bench: Bench, *, users: int, whose: str) -> list[Row]:
    """The rows of stores with so many users."""
    with ExitStack() as servers:
        sides, notes = _filled(bench, servers, users=users)
        turns = _asked(bench, sides, "turn", users=users)
        peers = {name: side for name, side in sides.items() if name != _SMALLER}
        found = _asked(bench, peers, "search", users=users)
        nothing = _asked(bench, peers, "search", users=users, text="unsaid")
        crowds = _crowds(bench, peers, users=users) if users > 1 else []
    times, composed, appended = map(turns.medians_ms, ("seconds", "composed", "appended"))
    smaller = [each.pop(_SMALLER, 0) for each in (times, composed, appended)]
    own = {name: times[name] for name in (AGENTSCOPE_SERVICES,) if name in times}
    stored = f"{_LARGE:,} messages {whose}"
    return [
        Row(
            what=f"a whole turn, {stored}, vs. Redis",
            unit="ms",
            values=times,
            judged=ratio(times, of=AGENTSCOPE_SERVICES, to=REDIS_SERVICES),
            target=Target(at_most=_BESIDE_REDIS),
            notes=(*_NOTES, *notes, *turns.notes),
        ),
        Row(
            what=f"the same, vs. {_SMALL:,} messages",
            unit="ms",
            values=own,
            judged=ratio({**own, _SMALLER: smaller[0]}, of=AGENTSCOPE_SERVICES, to=_SMALLER),
            target=Target(at_most=1.5),
            notes=(f"{smaller[0]:.1f} ms with {_SMALL:,} messages",),
        ),
        Row(what="of it, composing", unit="ms", values=composed),
        Row(what="of it, appending the answer", unit="ms", values=appended),
        Row(
            what=f"search alone, {stored}",
            unit="ms",
            values=found.medians_ms(),
            notes=_differing(found),
        ),
        Row(what="search without a match", unit="ms", values=nothing.medians_ms()),
        *crowds,
    ]


def _crowds(bench: Bench, sides: Mapping[str, Side], *, users: int) -> list[Row]:
    """The rows of turns of all users, as many a second as there are."""
    rows = []
    for how, at_once in (("one after the other", False), ("all at once", True)):
        requests = [
            {
                "op": "crowd",
                "number": number * users,
                "users": users,
                "at_once": at_once,
                "text": text,
            }
            for number, text in enumerate(bench.corpus.query_texts[:_CROWDS])
        ]
        turns = in_turn(bench, sides, requests, adapt=_of)
        rates = {name: 1_000 / each for name, each in turns.medians_ms().items()}
        rows.append(
            Row(
                what=f"turns of {users} users, {how}",
                unit="turns/s",
                values=rates,
                judged=ratio(rates, of=AGENTSCOPE_SERVICES, to=REDIS_SERVICES),
                notes=turns.notes,
            )
        )
    return rows


def _filled(bench: Bench, servers: ExitStack, *, users: int) -> tuple[dict[str, Side], list[str]]:
    """The services that hold the messages, all in one process, and why the others do not."""
    sides: dict[str, Side] = {}
    notes = []
    try:
        side = bench.start(AGENTSCOPE)
    except SideError as error:
        return {}, [bench.failed(AGENTSCOPE, error)]
    for number, (name, services) in enumerate(_SERVICES.items()):
        place = bench.folder / f"agentscope-{users}-{number}"
        try:
            is_redis = name == REDIS_SERVICES
            uri = servers.enter_context(redis_server(place)) if is_redis else str(place)
            side.ask("start", services=services, place=uri)
            side.ask(
                "fill",
                services=services,
                corpus=str(bench.corpus.path),
                rows=_rows(name),
                users=users,
                session_rows=_SESSION,
                timeout_seconds=900,
            )
        except (NoServerError, SideError) as error:
            notes.append(bench.failed(name, error))
            continue
        sides[name] = side
    return sides, notes


def _rows(name: str) -> int:
    return _SMALL if name == _SMALLER else _LARGE


def _asked(
    bench: Bench, sides: Mapping[str, Side], op: str, *, users: int, text: str = ""
) -> Turns:
    requests = [
        # Sessions take turns, so that none of them grows beyond the others.
        {"op": op, "number": number * 7, "users": users, "text": text or asked}
        for number, asked in enumerate(bench.corpus.query_texts[: bench.repeats])
    ]
    return in_turn(bench, sides, requests, adapt=_of)


def _of(name: str, request: Mapping[str, Any]) -> Mapping[str, Any]:
    n_sessions = _rows(name) // _SESSION
    return {**request, "services": _SERVICES[name], "number": request["number"] % n_sessions}


def _differing(turns: Turns) -> tuple[str, ...]:
    """Which services found another number of messages than those in memory."""
    counts = {name: [one["found"] for one in answers] for name, answers in turns.answers.items()}
    expected = counts.get(IN_MEMORY_SERVICES)
    return tuple(
        f"{name} found other numbers of messages than {IN_MEMORY_SERVICES}"
        for name, found in counts.items()
        if expected is not None and found != expected
    )
