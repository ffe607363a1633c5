"""Stores to look at: one that an agent has used for a while, and one in which all texts are hostile."""

import json
import struct
import zlib
from datetime import UTC, datetime
from pathlib import Path

from core.conformance.doubles import ManualClock

from lance_context_core import (
    ContextStore,
    ImagePart,
    Message,
    ReasoningPart,
    Relationship,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from lance_context_core.graph import Entity, Mention, Relation
from lance_context_core.window import HistorySection, ProfileSection, RecallSection, SystemSection

CONVERSATION = Path(__file__).parents[3] / "examples" / "data" / "conversation.json"
BEGIN = datetime(2026, 5, 4, 9, tzinfo=UTC)


def picture(width=320, height=200):
    """A picture of a hill in the evening, as PNG."""
    rows = []
    for y in range(height):
        row = bytearray([0])
        for x in range(width):
            hill = 130 + 34 * ((x / width - 0.4) ** 2 * 4) - 18
            sun = (x - 230) ** 2 + (y - 70) ** 2 < 26**2
            sky = (250 - y // 3, 200 - y // 2, 150 + y // 6)
            row += bytes((255, 236, 170) if sun and y < hill else sky if y < hill else (52, 84, 72))
        rows.append(bytes(row))

    def chunk(kind, data):
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = zlib.compress(b"".join(rows), 9)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")
    )


def used(place, *, n_sessions=3):
    """A store of a baker and her assistant: told, known, tagged, branched, proposed, shared."""
    clock = ManualClock(BEGIN)
    with ContextStore.open(place, clock=clock) as store:
        wren = store.writing_as("wren")
        sessions = _sessions(n_sessions)
        for number, turns in enumerate(sessions, 1):
            clock.advance(days=1)
            for message in turns:
                clock.advance(minutes=1)
                wren.history.append("wren", message, session_id=f"call-{number}")
        wren.sessions.update("call-1", title="The first call")
        for number, text in enumerate(
            ("Prefers to be called before noon", "Closed on Mondays", "Pays by invoice")
        ):
            wren.memory.add([Message.user(text, id=f"memory-{number}")], user_id="tilda")
        for turn in _known():
            clock.advance(hours=1)
            wren.knowledge.add([turn], session_id="market", user_id="tilda")
        _trip(wren, clock)
        store.tag("before-the-fair")
        clock.advance(days=1)
        store.create_branch("what-if")
        trying = store.branch("what-if").writing_as("planner")
        trying.memory.add([Message.user("Could open on Sundays", id="sundays")], user_id="tilda")
        trying.context().update(id="memory-1", metadata={"weight": 2})
        store.create_branch("empty-ideas")
        clock.advance(hours=3)
        wren.knowledge.add(
            [Message.user("I moved to Bergen.", id="moved", name="Tilda")],
            session_id="market",
            user_id="tilda",
        )
        wren.history.append("wren", Message.user("Rye or oats?", id="rye"), session_id="oats")
        store.knowledge.distill(session_id="oats")
        _windows(wren, clock)
        _tasks(wren, clock)
        _graph(wren)
        wren.memory.add([Message.user("Bob keeps bees", id="bees")], user_id="bob")
        store.flush()
    return place


def _sessions(n):
    turns = json.loads(CONVERSATION.read_text(encoding="utf-8"))["turns"]
    found = []
    for number in range(1, n + 1):
        said = [one for one in turns if one["session"] == number]
        found.append(
            [
                (Message.user if one["speaker"] == "Tilda" else Message.assistant)(
                    one["text"], id=one["id"], name=one["speaker"]
                )
                for one in said
            ]
        )
    return found


def _known():
    return [
        Message.user("I live in Oslo. I prefer rye bread.", id="lives", name="Tilda"),
        Message.user("My oven is broken. My favourite flour is spelt.", id="oven", name="Tilda"),
        Message.user("My sister is called Ana.", id="sister", name="Tilda"),
    ]


def _trip(store, clock):
    """A session with thoughts, calls of tools, a failure and a picture."""
    said = (
        Message.user(
            "Where could I take the market van in the evening? Somewhere with a view.", id="ask"
        ),
        Message(
            id="looks",
            role="assistant",
            parts=(
                ReasoningPart(text="She wants a view, and the van is tall: no tunnel under 3 m."),
                TextPart(text="Let me look at what is near."),
                ToolCallPart(
                    call_id="c1",
                    name="places.search",
                    arguments={"near": "Oslo", "with": ["view", "parking"], "height_m": 2.9},
                ),
                ToolCallPart(call_id="c2", name="weather.tonight", arguments={"place": "Oslo"}),
            ),
        ),
        Message(
            id="answers",
            role="tool",
            parts=(
                ToolResultPart(
                    call_id="c1",
                    name="places.search",
                    content="Ekeberg: view of the fjord, parking for 40, no barrier",
                ),
                ToolResultPart(
                    call_id="c2",
                    name="weather.tonight",
                    content="the service is not there",
                    is_error=True,
                ),
            ),
        ),
        Message(
            id="shows",
            role="assistant",
            parts=(
                TextPart(
                    text="Ekeberg has the fjord below it and room for the van. I could not ask for the weather."
                ),
                ImagePart(
                    data=picture(),
                    media_type="image/png",
                    caption="Ekeberg in the evening, the sun over the fjord",
                ),
            ),
        ),
        Message.user("Lovely, book it.", id="books"),
    )
    for message in said:
        clock.advance(minutes=1)
        store.history.append("wren", message, session_id="trip")
    store.sessions.update("trip", title="A place for the van")


def _windows(store, clock):
    sections = [
        SystemSection(text="You are Wren, who helps a baker. Be brief; say when you do not know."),
        ProfileSection(),
        RecallSection(),
        HistorySection(),
    ]
    for query in ("What did she say of the oven?", "When is she called best?"):
        clock.advance(minutes=1)
        window = store.assemble(
            session_id="call-1",
            agent_id="wren",
            user_id="tilda",
            budget=1_200,
            query=query,
            sections=sections,
        )
        store.windows.keep(window, run_id="run-1")


def _graph(store):
    """A baker, whom she buys from and sells to, and where these are."""
    names = ("Tilda", "person"), ("Mill Brook", "company"), ("Bergen", "place"), ("Ana", "person")
    tilda, mill, bergen, ana = store.graph.add_entities(
        [Entity(name=name, type=type) for name, type in names]
    )
    store.graph.add_relations(
        [
            Relation(source_id=tilda.id, target_id=mill.id, type="buys_from", weight=0.8),
            Relation(source_id=tilda.id, target_id=ana.id, type="sister_of"),
            Relation(source_id=mill.id, target_id=bergen.id, type="located_in"),
        ]
    )
    store.graph.add_mentions(
        [Mention(source_id="sister", session_id="market", text="Ana", entity_id=ana.id)]
    )


def _tasks(store, clock):
    board = store.tasks.board("the fair")
    board.add("Order flour for the fair", id="flour", priority="high")
    board.add("Bake for the fair", id="bake", depends_on=["flour"])
    board.add("Mend the oven", id="oven", priority="urgent")
    board.add("Print labels", id="labels", priority="low")
    clock.advance(minutes=2)
    done = board.claim("wren")
    board.complete(done.id, attempt=done.attempt, note="the element was loose")
    clock.advance(minutes=2)
    board.claim("robin")


HOSTILE = (
    "<script>document.title='owned'</script>",
    '"><img src=x onerror="document.title=1">',
    "<svg/onload=document.title=1>",
    "javascript:document.title=1",
    "{{ 7 * 7 }}{% for x in y %}",
    "</textarea></pre></title><h1>x</h1>",
    "\u202egnirts\u202c turned around",
    "\x1b[31mred\x07\r",
    "' onfocus='document.title=1' autofocus='",
)
"""Texts that would do something if they were not only shown."""


def hostile(place):
    """A store in which whatever may be said says something hostile."""
    every = " ".join(HOSTILE)
    clock = ManualClock(BEGIN)
    with ContextStore.open(place, clock=clock) as store:
        for number, text in enumerate(HOSTILE):
            clock.advance(minutes=1)
            _hostile_turn(store, text, number)
        store.context().add(
            "user",
            "x" * 1_000_000 + every,
            id="long",
            metadata={f"{one}{n}": one for n in range(1_100) for one in HOSTILE},
        )
        store.context().add("user", every, id="plain", source=every, tags=HOSTILE)
        store.context().add("user", b"<svg onload=x>", "image/svg+xml", id="svg")
        store.context().add("user", b"<script>1</script>", "text/html", id="page")
        store.history.append(
            "a", Message.user("I live in <b>Oslo</b>.", id="lives"), session_id="<s>"
        )
        store.knowledge.distill()
        store.windows.keep(store.assemble(session_id=HOSTILE[0], agent_id=HOSTILE[0], budget=4000))
        store.tag("safe")
        store.create_branch("other")
        store.branch("other").memory.add([every], user_id=HOSTILE[1])
        for text in HOSTILE:
            board = store.tasks.board(text)
            board.add(text, note=text)
            board.claim(text)
    return place


def _hostile_turn(store, text, number):
    parts = (
        TextPart(text=text),
        ReasoningPart(text=text),
        ToolCallPart(call_id=f"c{number}", name=text, arguments={text: text}),
        ToolCallPart(call_id=f"d{number}", name=text, arguments=text),
        ToolResultPart(call_id=f"c{number}", name=text, content=text, is_error=True),
        ToolResultPart(call_id=text, name=text, content=text),
        ImagePart(url="javascript:document.title=1", caption=text),
        ImagePart(url=f"https://example.org/{text}", caption=text),
        ImagePart(data=b"<svg onload=document.title=1>", media_type="image/png", caption=text),
    )
    message = Message(role="user", name=text, parts=parts, metadata={text: text})
    store.history.append(text, message, session_id=text, run_id=text)
    store.sessions.update(text, title=text, status=text, metadata={text: text})
    store.memory.add([Message.user(f"I live in {text}", name=text)], user_id=text)
    store.scope(user_id=text).history.append(text, Message.user(text), session_id=text)
    store.knowledge.add([Message.user(f"My cat is called {text}.")], session_id=text, user_id=text)
    edges = [Relationship(target_id=text, relation=text)]
    store.context().add("user", text, relationships=edges, user_id=text)
