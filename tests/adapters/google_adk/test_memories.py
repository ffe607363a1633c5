"""The memory service: what ADK's own does, and what is more."""

import pytest
from adapters.google_adk.samples import APP, OF_ADA, PARTS, said
from google.adk.events.event import Event
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions.session import Session
from google.genai import types
from google_adk_lance_context import LanceMemoryService

from lance_context_core import Message


def session(*events, id="1", user="ada", app=APP):
    return Session(id=id, app_name=app, user_id=user, events=list(events))


def content(*texts):
    return types.Content(parts=[types.Part(text=text) for text in texts])


async def found(service, query, *, user="ada", app=APP):
    answer = await service.search_memory(app_name=app, user_id=user, query=query)
    return [one.content.parts[0].text for one in answer.memories]


NUTS = said("I am allergic to nuts.", id="e1", timestamp=1_700_000_000.0)
DOG = said("My dog is called Rex.", id="e2", author="bot")


# As ADK's own


async def test_what_was_said_is_found_by_its_words(any_memories):
    await any_memories.add_session_to_memory(session(NUTS, DOG))
    await any_memories.add_session_to_memory(session(said("We met in Oslo.", id="e3"), id="2"))
    answer = await any_memories.search_memory(**OF_ADA, query="Allergic?")
    (memory,) = answer.memories
    assert (memory.id, memory.author, memory.content) == ("e1", "user", NUTS.content)
    assert memory.timestamp.startswith("2023-11-1")
    assert sorted(await found(any_memories, "nuts dog")) == [
        *("I am allergic to nuts.", "My dog is called Rex."),
    ]
    assert await found(any_memories, "OSLO") == ["We met in Oslo."]
    for nothing in ("cat", "", "  ", "?"):
        assert await found(any_memories, nothing) == []


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("私の名前は太郎です", "太郎"),
        ("我喜欢机器学习", "机器学习"),
        ("Меня зовут Алексей", "Алексей"),
        ("私はPythonでADKを使っています", "python"),
        ("Meet at the Cafe\u0301", "Café"),
    ],
)
async def test_words_of_any_language_are_found(any_memories, text, query):
    await any_memories.add_session_to_memory(session(said(text)))
    assert await found(any_memories, query) == [text]
    assert await found(any_memories, "天気") == []


async def test_the_best_match_is_the_first_and_ten_are_enough(any_memories):
    notes = [said(f"note {n} about work", id=f"n{n}") for n in range(15)]
    backlog = said("the backlog note about work", id="backlog")
    await any_memories.add_session_to_memory(session(*notes, backlog))
    hits = await found(any_memories, "work backlog note")
    assert (len(hits), hits[0]) == (10, "the backlog note about work")


async def test_a_session_may_be_added_many_times(any_memories):
    for n in range(1, 4):
        await any_memories.add_session_to_memory(session(*[NUTS, DOG][:n]))
    await any_memories.add_events_to_memory(**OF_ADA, events=[NUTS, NUTS], session_id="1")
    assert await found(any_memories, "nuts") == ["I am allergic to nuts."]
    assert await found(any_memories, "dog") == ["My dog is called Rex."]


async def test_events_are_added_to_what_is_there(any_memories):
    await any_memories.add_events_to_memory(**OF_ADA, events=[NUTS])
    await any_memories.add_events_to_memory(**OF_ADA, events=[DOG])
    other = said("I am allergic to cats.", id="e1")
    await any_memories.add_events_to_memory(**OF_ADA, events=[other])
    assert await found(any_memories, "allergic") == ["I am allergic to nuts."]
    await any_memories.add_events_to_memory(**OF_ADA, events=[])
    await any_memories.add_session_to_memory(session(id="empty"))


async def test_what_says_nothing_is_no_memory(any_memories):
    events = [
        Event(author="bot", content=types.Content(parts=[PARTS[name]]), id=name)
        for name in ("empty text", "call", "answer as JSON", "picture")
    ]
    await any_memories.add_session_to_memory(session(Event(author="bot"), *events, NUTS))
    assert await found(any_memories, "weather degrees Oslo nuts") == ["I am allergic to nuts."]


async def test_users_and_apps_are_apart(any_memories):
    await any_memories.add_session_to_memory(session(NUTS))
    await any_memories.add_session_to_memory(session(said("Nuts are fine.", id="e1"), user="ben"))
    assert await found(any_memories, "nuts", user="ben") == ["Nuts are fine."]
    assert await found(any_memories, "nuts", user="") == []
    assert await found(any_memories, "nuts", app="other") == []
    slashed = session(said("a secret"), app="app/other", user="user")
    await any_memories.add_session_to_memory(slashed)
    assert await found(any_memories, "secret", app="app", user="other/user") == []


async def test_a_deleted_memory_stays_deleted(any_memories):
    await any_memories.add_session_to_memory(session(NUTS, DOG))
    for id in ("e1", "e1", "unknown", "", None):
        await any_memories.delete_memory(**OF_ADA, memory_id=id)
    await any_memories.add_session_to_memory(session(NUTS, DOG))
    await any_memories.add_events_to_memory(**OF_ADA, events=[NUTS], session_id="1")
    assert await found(any_memories, "nuts dog") == ["My dog is called Rex."]
    # Of another user nothing was deleted.
    await any_memories.add_session_to_memory(session(NUTS, user="ben"))
    assert await found(any_memories, "nuts", user="ben") == ["I am allergic to nuts."]


async def test_what_is_changed_after_it_was_added_or_found_stays_as_it_was(any_memories):
    event = NUTS.model_copy(deep=True)
    await any_memories.add_session_to_memory(session(event))
    event.content.parts[0].text = event.author = "changed"
    answer = await any_memories.search_memory(**OF_ADA, query="nuts")
    answer.memories[0].content.parts.clear()
    assert await found(any_memories, "nuts") == ["I am allergic to nuts."]


# Ours


async def test_memories_are_added_by_hand(memories):
    given = [
        MemoryEntry(
            id="m1",
            content=content("Ada likes green tea."),
            author="bot",
            timestamp="2024-05-01T12:00:00+02:00",
            custom_metadata={"about": {"deep": [1]}},
        ),
        MemoryEntry(content=content("Ada lives in Oslo.")),
    ]
    for _ in range(2):
        await memories.add_memory(**OF_ADA, memories=given[:1], custom_metadata={"by": "hand"})
    await memories.add_memory(**OF_ADA, memories=given[1:])
    (tea,) = (await memories.search_memory(**OF_ADA, query="tea")).memories
    assert (tea.id, tea.author, tea.content) == ("m1", "bot", given[0].content)
    assert tea.timestamp == "2024-05-01T10:00:00+00:00"
    assert tea.custom_metadata == {"about": {"deep": [1]}, "by": "hand"}
    (oslo,) = (await memories.search_memory(**OF_ADA, query="Oslo")).memories
    assert oslo.id
    await memories.delete_memory(**OF_ADA, memory_id=oslo.id)
    assert await found(memories, "Oslo") == []


async def test_metadata_of_events_is_that_of_their_memories(memories):
    await memories.add_events_to_memory(**OF_ADA, events=[NUTS], custom_metadata={"from": "import"})
    (memory,) = (await memories.search_memory(**OF_ADA, query="nuts")).memories
    assert memory.custom_metadata == {"from": "import"}


async def test_a_memory_deleted_in_one_app_may_be_added_in_another(memories):
    await memories.add_session_to_memory(session(NUTS))
    await memories.delete_memory(**OF_ADA, memory_id="e1")
    await memories.add_session_to_memory(session(NUTS, app="other"))
    assert await found(memories, "nuts", app="other") == ["I am allergic to nuts."]


async def test_equal_texts_of_two_events_are_two_memories(memories):
    await memories.add_session_to_memory(session(NUTS, said("I am allergic to nuts.", id="e9")))
    assert len(await found(memories, "nuts")) == 2


async def test_more_memories_than_a_transaction_holds_are_added(memories):
    many = [said(f"fact {n}", id=f"f{n}") for n in range(300)]
    await memories.add_session_to_memory(session(*many))
    assert await found(memories, "fact 299") != []


async def test_a_search_is_limited_and_filtered_as_the_service_says(store):
    own = LanceMemoryService(store, limit=2, mode="text", filter={"session_id": "2"})
    await own.add_session_to_memory(session(NUTS))
    several = [said(f"nuts {n}", id=f"n{n}") for n in range(4)]
    await own.add_session_to_memory(session(*several, id="2"))
    assert len(await found(own, "nuts")) == 2
    assert all(text.startswith("nuts") for text in await found(own, "nuts"))


async def test_memories_of_other_frameworks_are_found_without_an_app(store, memories):
    ada = store.scope(user_id="ada")
    await ada.memory.add([Message.user("Ada likes green tea.")], metadata={"from": "elsewhere"})
    await memories.add_session_to_memory(session(NUTS))
    assert await found(memories, "tea") == []
    shared = LanceMemoryService(store, agent_id="")
    answer = await shared.search_memory(**OF_ADA, query="tea")
    (memory,) = answer.memories
    assert (memory.content, memory.author) == (
        types.Content(role="user", parts=[types.Part(text="Ada likes green tea.")]),
        "user",
    )
    assert memory.custom_metadata == {"from": "elsewhere"}
    assert await found(shared, "nuts") == ["I am allergic to nuts."]
    # And the reverse.
    await shared.add_session_to_memory(session(DOG))
    assert [hit.record.text for hit in await ada.memory.search("dog")] == ["My dog is called Rex."]
