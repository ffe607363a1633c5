"""A page for one tenant, user or agent shows nothing else, whatever is asked for."""

import pytest
from apps.inspector.conftest import crawled
from lance_context_inspector.app import FILES, PAGES

from lance_context_core import ContextStore, Message

OTHERS = ("Theirsson", "Globex", "zoe", "robot", "the-release", "try-theirs")
"""What must stand on no page of Ada's at Acme."""


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A store of two tenants who call all that they have alike, with words of their own in it."""
    place = tmp_path_factory.mktemp("shared") / "memory"
    with ContextStore.open(place) as store:
        for tenant, user, agent, word in (
            ("acme", "ada", "tutor", "Ourania"),
            ("globex", "zoe", "robot", "Theirsson"),
            ("acme", "zoe", "robot", "Theirsson"),
        ):
            own = store.scope(tenant=tenant, user_id=user, agent_id=agent)
            own.history.append(agent, Message.user(f"I like {word}", id="m1"), session_id="s1")
            own.history.append(
                agent, Message.user(f"only {word}", id=f"m-{user}-{tenant}"), session_id=f"s-{user}"
            )
            own.sessions.update("s1", title=f"About {word}")
            own.memory.add([Message.user(f"memory of {word}", id="mem")], user_id=user)
            own.knowledge.add(
                [Message.user(f"My cat is called {word}.", id="cat")], session_id="s2"
            )
            own.windows.keep(own.assemble(session_id="s1", agent_id=agent, budget=500))
            own.context().add("user", word.encode(), "application/pdf", id="file")
            board = own.tasks.board(f"board-{user}")
            board.add(f"do {word}")
        store.tag("the-release")
        store.create_branch("try-theirs")
    return place


def addresses_of_others(place):
    """Addresses of what others have, as a person could guess them: one of each kind of thing."""
    with ContextStore.open(place) as store:
        zoe = store.scope(user_id="zoe")
        found = {
            (name, one["kind"]): {"id": one["id"], "context": name}
            for name in ("default", "knowledge", "windows")
            for one in zoe.context(name).list(include_binary=False, include_embedding=False)
        }
    same = dict.fromkeys(("id", "session", "q", "user", "name", "source"), "")
    return [
        *found.values(),
        *(dict.fromkeys(same, one) for one in ("s1", "zoe", "board-zoe", "globex")),
        {"id": "s1", "tenant": "globex", "user_id": "zoe", "agent": "robot", "session": "s1"},
        {"id": "m1", "session": "s1", "user": "zoe", "before": "1", "after": "2"},
        {"id": "file", "user": "zoe", "session": "", "before": "1"},
    ]


SCOPES = [{"tenant": "acme", "user_id": "ada"}, {"user_id": "ada"}, {"agent_id": "tutor"}]
each_scope = pytest.mark.parametrize("scope", SCOPES, ids=" ".join)


@pytest.mark.slow
@each_scope
async def test_what_is_linked_from_a_scope_is_of_that_scope(browse, shared, scope):
    found = await crawled(await browse(shared, **scope))
    assert len(found) > 15
    assert "Ourania" in "".join(one.text for one in found.values())
    for link, answer in found.items():
        assert answer.status == 200, link
        assert not [word for word in OTHERS if word in answer.text], link


@pytest.mark.slow
@each_scope
async def test_what_is_guessed_is_not_found(browse, shared, scope):
    browser = await browse(shared, **scope)
    twins = (f"{path}.json" for path in PAGES if path != "/")
    paths = [*FILES, *(PAGES if scope == SCOPES[0] else twins)]
    for params in addresses_of_others(shared):
        for path in paths:
            answer = await browser.get(path, **params)
            assert answer.status in {200, 400, 404}, (path, params)
            told = answer.text
            for given in params.values():  # What was asked for may be said again.
                told = told.replace(given, "")
            assert [word for word in OTHERS if word in told] == [], (path, params)


@each_scope
async def test_what_is_everybodys_is_not_there_in_a_scope(browse, shared, scope):
    browser = await browse(shared, **scope)
    for path, params in (
        ("/timeline", {}),
        ("/health", {}),
        ("/merge", {"source": "try-theirs"}),
        ("/facts", {"branch": "try-theirs"}),
        ("/facts", {"branch": "no-such-branch"}),
        ("/facts", {"at": "the-release"}),
        ("/diff", {"before": "the-release"}),
        ("/diff", {"before": "1", "after": "try-theirs"}),
    ):
        assert (await browser.get(path, **params)).status == 404, path
    assert "/timeline" not in "".join((await browser.get("/")).links)


async def test_what_is_outside_is_told_as_what_is_not(browse, shared):
    browser = await browse(shared, user_id="ada")
    for path in ("/person", "/erasure", "/facts", "/sessions"):
        there = await browser.get(path, user="zoe")
        nowhere = await browser.get(path, user="zzz")
        assert there.status == nowhere.status == 404
        assert there.text == nowhere.text.replace("zzz", "zoe")


async def test_no_query_in_sql_sees_beyond_the_wall(browse, shared):
    browser = await browse(shared, tenant="acme", user_id="ada")
    for view in ("messages", "memories", "facts", "records", "sessions", "items", "jobs"):
        answer = await browser.get("/sql.json", q=f"SELECT * FROM {view}")
        assert answer.status == 200, answer.text
        assert not [word for word in ("Theirsson", "zoe", "Globex") if word in answer.text], view
    assert "Ourania" in (await browser.get("/sql", q="SELECT text FROM messages")).text
    assert 'data-moments="" data-beside=""' in (await browser.get("/sql")).text
    assert (await browser.get("/beside.json")).status == 404


async def test_no_form_reaches_beyond_the_wall(browse, shared):
    browser = await browse(shared, can_write=True, tenant="acme", user_id="ada")
    with ContextStore.open(shared) as store:
        before = store.context("knowledge").list(), store.branches(), store.tags()
        fact = store.scope(tenant="globex").context("knowledge").list(filters={"kind": "fact"})[0]
        job = store.scope(tenant="globex").knowledge.jobs.list()[0]
    for path, fields in (
        ("/do/correct", {"id": fact["id"], "text": "x"}),
        ("/do/invalidate", {"id": fact["id"], "reason": "x"}),
        ("/do/pin", {"id": fact["id"]}),
        ("/do/undo-job", {"id": job.id}),
        ("/do/discard-job", {"id": job.id}),
        ("/do/merge-job", {"id": job.id}),
        ("/do/tag", {"name": "x"}),
        ("/do/merge", {"source": "try-theirs"}),
        ("/do/drop", {"name": "try-theirs", "typed": "try-theirs"}),
    ):
        answer = await browser.post(path, **fields)
        assert answer.status in {400, 404}, path
        assert "Theirsson" not in answer.text.replace("try-theirs", "")
    with ContextStore.open(shared) as store:
        assert (store.context("knowledge").list(), store.branches(), store.tags()) == before
