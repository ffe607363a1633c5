"""What cannot be stored is refused in ADK's class, before anything is written."""

import pytest
from adapters.google_adk.samples import APP, OF_ADA, create, get, said, texts
from google.adk.errors.input_validation_error import InputValidationError
from google.adk.events.event import Event
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.session import Session
from google.genai import types
from google_adk_lance_context import (
    LanceArtifactService,
    LanceMemoryService,
    LanceSessionService,
)

NAMES = {
    "NUL": "a\0b",
    "a lone surrogate": "\ud800",
    "a number": 5,
    "bytes": b"1",
    "a list": ["1"],
}
ODD = {
    "10,000 characters": "x" * 10_000,
    "a path": "../x",
    "slashes": "a//b/",
    "emoji": "🌧",
    "quotes": '\'; DROP TABLE "x" --',
    "wildcards": "%_*",
    "a word of ours": "sessions",
}
EVENTS = {
    "a lone surrogate": said("\ud800"),
    "an object": Event(author="bot", custom_metadata={"x": object()}),
    "a time that is none": said("a", timestamp=float("nan")),
    "a time after the end of days": said("a", timestamp=1e300),
    "an id with NUL": said("a", id="\0"),
}


def cases(named):
    return [pytest.param(value, id=name) for name, value in named.items()]


async def is_empty(store):
    """Whether nothing was ever written, but for one session without events."""
    n_items = [await store.kv(name).count() for name in ("google-adk", "adk-artifacts")]
    n_rows = len(await store.history.session_ids(APP)) + len((await store.memory.list()).items)
    return n_items in ([0, 0], [1, 0]) and n_rows == 0


@pytest.mark.parametrize("name", cases(NAMES))
@pytest.mark.parametrize("which", ["app_name", "user_id", "session_id"])
async def test_a_name_that_names_nothing_is_refused(
    store, sessions, memories, artifacts, which, name
):
    of = {**OF_ADA, "session_id": "1", which: name}
    calls = [
        lambda: sessions.create_session(**of),
        lambda: sessions.get_session(**of),
        lambda: sessions.delete_session(**of),
        lambda: artifacts.save_artifact(**of, filename="a", artifact=types.Part(text="a")),
        lambda: artifacts.list_artifact_keys(**of),
    ]
    if which != "session_id":
        whose = {one: of[one] for one in OF_ADA}
        calls += [
            lambda: sessions.list_sessions(**whose),
            lambda: sessions.get_user_state(**whose),
            lambda: memories.search_memory(**whose, query="tea"),
            lambda: memories.delete_memory(**whose, memory_id="1"),
        ]
    calls.append(lambda: memories.add_events_to_memory(**of, events=[said("tea")]))
    for call in calls:
        with pytest.raises(InputValidationError):
            await call()
    assert await is_empty(store)


@pytest.mark.parametrize("name", cases(ODD))
async def test_any_other_name_is_taken_as_it_is(store, name):
    sessions, memories = LanceSessionService(store), LanceMemoryService(store)
    of = {"app_name": name, "user_id": name}
    session = await sessions.create_session(
        **of, session_id=name, state={name: 1, "user:" + name: 2}
    )
    await sessions.append_event(session, said("tea", state={"app:" + name: 3}))
    session = await sessions.get_session(**of, session_id=name)
    assert (session.id, session.user_id, texts(session)) == (name, name, ["tea"])
    assert session.state == {name: 1, "user:" + name: 2, "app:" + name: 3}
    (listed,) = (await sessions.list_sessions(app_name=name)).sessions
    assert (listed.user_id, listed.id, listed.state) == (name, name, session.state)
    await memories.add_session_to_memory(session)
    assert len((await memories.search_memory(**of, query="tea")).memories) == 1
    await sessions.delete_session(**of, session_id=name)
    assert await sessions.get_session(**of, session_id=name) is None
    assert await get(sessions, "x") is None


@pytest.mark.parametrize("event", cases(EVENTS))
async def test_an_event_that_cannot_be_stored_is_refused(store, sessions, event):
    session = await create(sessions)
    with pytest.raises(InputValidationError, match="cannot be stored"):
        await sessions.append_event(session, event)
    assert await is_empty(store)
    assert session.events == []
    await sessions.append_event(session, said("b"))
    assert texts(await get(sessions)) == ["b"]


async def test_state_that_is_no_json_is_stored_as_text_with_a_warning(sessions, caplog):
    session = await create(sessions, state={"f": len, "n": float("inf"), "s": {1, 2}.__class__})
    assert "are no JSON" in caplog.text
    read = await get(sessions)
    assert read.state == session.state
    assert read.state["n"] == float("inf")
    assert "len" in read.state["f"]


@pytest.mark.parametrize("state", [["a"], "text", 5], ids=["a list", "a text", "a number"])
async def test_a_state_that_is_no_dictionary_is_refused(store, sessions, state):
    with pytest.raises(InputValidationError, match="state"):
        await create(sessions, state=state)
    assert await is_empty(store)


async def test_what_is_no_session_or_event_is_refused(sessions, memories):
    session = await create(sessions)
    for wrong in ((None, said("a")), (session, "a"), ({}, {})):
        with pytest.raises(InputValidationError, match="give a Session and an Event"):
            await sessions.append_event(*wrong)
    with pytest.raises(InputValidationError, match="give a Session"):
        await memories.add_session_to_memory("1")
    assert await sessions.get_session(**OF_ADA, session_id="") is None
    with pytest.raises(ValueError, match="greater than or equal to 0"):
        GetSessionConfig(num_recent_events=-1)


@pytest.mark.parametrize(
    "entry",
    [
        MemoryEntry(content=types.Content(parts=[])),
        MemoryEntry(content=types.Content(parts=[types.Part(text=" ")])),
        MemoryEntry(content=types.Content(parts=[types.Part(text="\ud800")])),
        MemoryEntry(content=types.Content(parts=[types.Part(text="a")]), timestamp="today"),
        MemoryEntry(content=types.Content(parts=[types.Part(text="a")]), id="\0"),
        MemoryEntry(
            content=types.Content(parts=[types.Part(text="a")]), custom_metadata={"x": float("nan")}
        ),
    ],
    ids=["nothing", "blank", "surrogate", "time", "id", "metadata"],
)
async def test_a_memory_that_cannot_be_stored_is_refused(store, memories, entry):
    good = MemoryEntry(content=types.Content(parts=[types.Part(text="good")]))
    with pytest.raises(InputValidationError):
        await memories.add_memory(**OF_ADA, memories=[good, entry])
    assert await is_empty(store)


async def test_an_artifact_that_cannot_be_stored_is_refused(store, artifacts):
    of_a = {**OF_ADA, "session_id": "1", "filename": "a"}
    for wrong in ("text", None, {"inlineData": 5}, types.Part(text="\ud800")):
        with pytest.raises(InputValidationError):
            await artifacts.save_artifact(**of_a, artifact=wrong)
    for metadata in ({"x": float("nan")}, {"x": object()}):
        with pytest.raises(InputValidationError):
            await artifacts.save_artifact(
                **of_a, artifact=types.Part(text="a"), custom_metadata=metadata
            )
    for version in ("0", 1.5, True):
        with pytest.raises(InputValidationError, match="version"):
            await artifacts.load_artifact(**of_a, version=version)
    assert await is_empty(store)


@pytest.mark.parametrize(
    ("made", "named"),
    [
        (lambda: LanceSessionService(5), "store"),
        (lambda: LanceSessionService("memory://", stale="never"), "stale"),
        (lambda: LanceSessionService("memory://", agent_id=5), "agent_id"),
        (lambda: LanceSessionService("memory://", tenant=""), "tenant"),
        (lambda: LanceMemoryService("memory://", limit=0), "limit"),
        (lambda: LanceMemoryService("memory://", limit=True), "limit"),
        (lambda: LanceMemoryService(None), "store"),
        (lambda: LanceArtifactService(None), "store"),
    ],
)
def test_a_wrong_option_is_refused_by_name(made, named):
    with pytest.raises(InputValidationError, match=named):
        made()


async def test_a_session_by_hand_is_not_found(sessions):
    with pytest.raises(ValueError, match="not found"):
        await sessions.append_event(Session(id="1", **OF_ADA), said("a"))
