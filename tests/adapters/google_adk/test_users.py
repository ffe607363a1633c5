"""Users of one place are apart, and what is erased of one is gone from every file."""

import pytest
from adapters.google_adk.samples import APP, create, get, said, texts
from google.adk.errors.input_validation_error import InputValidationError
from google.adk.sessions.session import Session
from google.genai import types
from google_adk_lance_context import (
    LanceArtifactService,
    LanceMemoryService,
    LanceSessionService,
)


async def use_all(store, user, word):
    """Let a user have a session, a memory and a file, all with one word."""
    sessions = LanceSessionService(store)
    session = await create(sessions, user=user, state={"own": word, "user:k": word})
    await sessions.append_event(session, said(f"I like {word}.", state={"own": f"{word}!"}))
    session = await get(sessions, user=user)
    await LanceMemoryService(store).add_session_to_memory(session)
    await LanceArtifactService(store).save_artifact(
        app_name=APP,
        user_id=user,
        session_id="1",
        filename="a",
        artifact=types.Part(text=word),
    )


async def found_of(store, user):
    """What all services have of a user: texts, states, memories and files."""
    of = {"app_name": APP, "user_id": user}
    sessions, memories = LanceSessionService(store), LanceMemoryService(store)
    artifacts = LanceArtifactService(store)
    session = await get(sessions, user=user)
    file = await artifacts.load_artifact(**of, session_id="1", filename="a")
    answer = await memories.search_memory(**of, query="like tea milk")
    return (
        None if session is None else (texts(session), session.state),
        len((await sessions.list_sessions(**of)).sessions),
        await sessions.get_user_state(**of),
        [one.content.parts[0].text for one in answer.memories],
        file and file.text,
    )


def all_of(word):
    state = {"own": f"{word}!", "user:k": word}
    said = f"I like {word}."
    return ([said], state), 1, {"k": word}, [said], word


NOTHING = (None, 0, {}, [], None)


async def test_two_users_with_equal_ids_do_not_see_each_other(store):
    await use_all(store, "ada", "tea")
    assert await found_of(store, "ben") == NOTHING
    await use_all(store, "ben", "milk")
    assert await found_of(store, "ada") == all_of("tea")
    assert await found_of(store, "ben") == all_of("milk")
    of_ben = {"app_name": APP, "user_id": "ben"}
    await LanceSessionService(store).delete_session(**of_ben, session_id="1")
    await LanceArtifactService(store).delete_artifact(**of_ben, session_id="1", filename="a")
    assert await found_of(store, "ada") == all_of("tea")


async def test_an_erased_user_is_gone_from_every_service_and_file(store, place):
    sessions = LanceSessionService(store)
    await use_all(store, "ada", "quincetea")
    await use_all(store, "ben", "oatmilk")
    await create(sessions, "2", user="ben", state={"app:motto": "brew"})
    await store.scope(user_id="ada").erase(sole_writer=True)
    assert await found_of(store, "ada") == NOTHING
    assert (await found_of(store, "ben"))[0][1] == {
        "own": "oatmilk!",
        "user:k": "oatmilk",
        "app:motto": "brew",
    }
    await store.close()
    files = [one.read_bytes() for one in place.rglob("*") if one.is_file()]
    assert not any(b"quincetea" in one for one in files)
    assert any(b"oatmilk" in one for one in files)


async def test_a_service_over_the_scope_of_a_user_is_for_that_user_alone(store):
    await use_all(store, "ada", "tea")
    of_ada = LanceSessionService(store.scope(user_id="ada"))
    assert texts(await get(of_ada)) == ["I like tea."]
    assert len((await of_ada.list_sessions(app_name=APP)).sessions) == 1
    memory = LanceMemoryService(store.scope(user_id="ada"))
    ben = {"app_name": APP, "user_id": "ben"}
    for call in (
        lambda: create(of_ada, user="ben"),
        lambda: get(of_ada, user="ben"),
        lambda: of_ada.list_sessions(**ben),
        lambda: of_ada.append_event(Session(id="1", **ben), said("hi")),
        lambda: memory.search_memory(**ben, query="tea"),
        lambda: memory.add_session_to_memory(Session(id="1", **ben, events=[said("hi")])),
    ):
        with pytest.raises(InputValidationError, match="ben"):
            await call()


async def test_tenants_are_apart(store):
    for tenant in ("a", "b"):
        sessions = LanceSessionService(store, tenant=tenant)
        assert await get(sessions) is None
        await create(sessions, state={"app:t": tenant, "user:t": tenant, "t": tenant})
        session = await get(sessions)
        assert set(session.state.values()) == {tenant}
    memories = LanceMemoryService(store, tenant="a")
    await memories.add_session_to_memory(
        Session(id="1", app_name=APP, user_id="ada", events=[said("tea")])
    )
    of_ada = {"app_name": APP, "user_id": "ada"}
    assert (await memories.search_memory(**of_ada, query="tea")).memories
    other = LanceMemoryService(store, tenant="b")
    assert (await other.search_memory(**of_ada, query="tea")).memories == []
    file = {**of_ada, "filename": "user:a"}
    await LanceArtifactService(store, tenant="a").save_artifact(
        **file, artifact=types.Part(text="t")
    )
    assert await LanceArtifactService(store, tenant="b").load_artifact(**file) is None
