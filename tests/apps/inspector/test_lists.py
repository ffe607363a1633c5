"""Lists are filtered, sorted and paged by their columns, and their addresses say how."""

import json

import pytest

from lance_context_core import ContextStore, Message


async def rows(browser, path, **params):
    answer = await browser.get(f"{path}.json", **params)
    assert answer.status == 200, answer.text
    return json.loads(answer.text)["listing"]["part"]["items"]


@pytest.mark.parametrize(
    ("sort", "key"),
    [
        ("session", lambda one: (one.title or one.id).casefold()),
        ("messages", lambda one: one.n_messages),
        ("last", lambda one: one.updated_at),
    ],
)
async def test_sessions_are_sorted_by_a_column_both_ways(browse, used, sort, key):
    browser = await browse(used)
    with ContextStore.open(used) as store:
        known = store.sessions.list()
    keys = {one.id: key(one) for one in known}
    for sign, is_down in (("", False), ("-", True)):
        found = [keys[one["id"]] for one in await rows(browser, "/sessions", sort=sign + sort)]
        assert found == sorted(keys.values(), reverse=is_down)


async def test_sessions_are_filtered_and_the_filter_stays_in_the_address(browse, used):
    browser = await browse(used)
    with ContextStore.open(used) as store:
        wanted = {
            one.id for one in store.sessions.list() if "CALL" in (one.title or one.id).upper()
        }
    assert {one["id"] for one in await rows(browser, "/sessions", session="CALL")} == wanted
    page = (await browser.get("/sessions", session="CALL", sort="messages")).text
    assert 'aria-sort="ascending"' in page
    assert "sort=-messages" in page
    assert "session=CALL" in page


@pytest.mark.parametrize("sort", ["user", "sessions", "last"])
async def test_people_are_sorted_by_a_column_both_ways(browse, used, sort):
    browser = await browse(used)
    with ContextStore.open(used) as store:
        store.memory.add(["Nothing is said to her."], user_id="aunt")
        known = [(one, store.scope(user_id=one).sessions.list()) for one in store.user_ids()]
    keys = {
        id: {"user": id, "sessions": len(its), "last": its[0].updated_at if its else None}[sort]
        for id, its in known
    }
    assert len({*keys.values()}) > 1
    for sign, is_down in (("", False), ("-", True)):
        found = [keys[one[0]] for one in await rows(browser, "/people", sort=sign + sort)]
        there = [one for one in found if one is not None]
        assert there == sorted(there, reverse=is_down)
        assert found == there + [None] * (len(keys) - len(there))


@pytest.mark.parametrize("sort", ["table", "rows", "versions"])
async def test_tables_are_sorted_by_a_column_both_ways(browse, used, sort):
    browser = await browse(used)
    with ContextStore.open(used, maintenance=None) as store:
        keys = {one.table: getattr(one, sort) for one in store.stats().tables}
    for sign, is_down in (("", False), ("-", True)):
        found = [keys[one["table"]] for one in await rows(browser, "/health", sort=sign + sort)]
        assert found == sorted(keys.values(), reverse=is_down)


async def test_people_are_filtered_by_their_id(browse, used):
    browser = await browse(used)
    assert [one[0] for one in await rows(browser, "/people", user="ILD")] == ["tilda"]
    assert await rows(browser, "/people", user="no-such") == []


@pytest.mark.parametrize(
    "path", ["/people", "/sessions", "/jobs", "/windows", "/graph", "/facts", "/tasks"]
)
async def test_a_column_that_does_not_exist_is_refused_and_named(browse, used, path):
    answer = await (await browse(used)).get(path, sort="colour")
    assert answer.status == 400
    assert "colour" in answer.text


async def test_jobs_and_windows_tell_tokens_and_what_they_cost(browse, used):
    browser = await browse(used)
    with ContextStore.open(used) as store:
        ids = store.windows.list("call-1", agent_id="wren")
        tokens = {one: store.windows.get(one).tokens for one in ids}
    found = await rows(browser, "/windows", sort="tokens")
    assert {one["id"]: one["metadata"]["tokens"] for one in found} == tokens
    answer = await browser.get("/windows.json", input_price="2.5")
    assert json.loads(answer.text)["cost"]["amount"] == pytest.approx(sum(tokens.values()) * 2.5e-6)
    assert (await browser.get("/jobs", input_price="free")).status == 400
    assert (await browser.get("/jobs", output_price="-1")).status == 400


async def test_a_search_has_further_pages(browse, used):
    browser = await browse(used)
    given = {"q": "oven rye bread flour market", "mode": "text", "limit": 3}
    with ContextStore.open(used) as store:
        every = [one.record.id for one in store.search(given["q"], mode="text", limit=9)]
    seen = []
    for page in (1, 2, 3):
        told = json.loads((await browser.get("/search.json", **given, page=page)).text)
        seen += [hit["record"]["id"] for hit, _ in told["hits"]]
    assert seen == every
    assert len(every) == 9
    assert "page=2" in (await browser.get("/search", **given)).text


async def test_facts_are_listed_from_the_first_one_too(browse, used):
    browser = await browse(used)
    newest = json.loads((await browser.get("/facts.json")).text)["part"]["items"]
    oldest = json.loads((await browser.get("/facts.json", sort="created")).text)["part"]["items"]
    assert [one["id"] for one in oldest] == [one["id"] for one in newest][::-1]
    told = json.loads((await browser.get("/facts.json", session="market")).text)["part"]["items"]
    assert {one["session_id"] for one in told} == {"market"}


async def test_a_conversation_that_is_followed_shows_what_was_added(browse, used):
    browser = await browse(used)
    page = (await browser.get("/session", id="oats", live="1")).text
    assert "data-live" in page
    with ContextStore.open(used) as store:
        store.history.append("wren", Message.user("Barley!", id="barley"), session_id="oats")
    page = (await browser.get("/session", id="oats", live="1")).text
    assert 'data-key="barley"' in page
    assert "data-live" not in (await browser.get("/session", id="oats")).text


async def test_the_graph_is_walked_from_one_entity_to_the_next(browse, used):
    browser = await browse(used)
    names = [one["name"] for one in await rows(browser, "/graph")]
    assert names == ["Ana", "Bergen", "Mill Brook", "Tilda"]
    (tilda,) = await rows(browser, "/graph", name="tilda")
    near = await browser.get("/entity", id=tilda["id"])
    assert "Mill Brook" in near.text
    assert "Bergen" not in near.text
    assert "Bergen" in (await browser.get("/entity", id=tilda["id"], depth="2")).text
    (mill,) = await rows(browser, "/graph", name="mill")
    assert any(mill["id"] in one for one in near.links)
    assert (await browser.get("/entity", id="no-such")).status == 404
    assert (await browser.get("/entity", id=tilda["id"], depth="9")).status == 400


async def test_two_runs_stand_side_by_side(browse, used):
    browser = await browse(used)
    told = json.loads((await browser.get("/runs.json", left="call-1", right="trip")).text)
    with ContextStore.open(used) as store:
        n_turns = [store.sessions.get(one).n_messages for one in ("call-1", "trip")]
    assert [one["n_turns"] for one in told["sides"]] == n_turns
    assert told["sides"][1]["n_calls"] == 2
    assert told["sides"][1]["n_errors"] == 1
    assert len(told["pairs"]) == max(n_turns)
    same = json.loads((await browser.get("/runs.json", left="trip", right="trip")).text)
    assert all(one["is_same"] for one in same["pairs"])
    assert (await browser.get("/runs", left="trip", right="no-such")).status == 404


async def test_the_columns_of_each_view_stand_beside_the_query(browse, used):
    browser = await browse(used)
    told = json.loads((await browser.get("/sql.json")).text)["views"]
    with ContextStore.open(used) as store:
        for name in ("messages", "facts", "relations"):
            described = store.sql(f"DESCRIBE {name}").to_pylist()
            assert told[name] == [[one["column_name"], one["column_type"]] for one in described]
    sample = next(one for one in (await browser.get("/sql")).links if "FROM+messages+LIMIT" in one)
    assert (await browser.get(sample)).status == 200


async def test_boards_are_sorted_and_filtered_by_their_columns(browse, tmp_path):
    sizes = {"b": (1, 1), "a": (3, 0), "B2": (2, 3), "c": (0, 6)}
    with ContextStore.open(tmp_path / "boards") as store:
        for name, (n_open, n_done) in sizes.items():
            board = store.tasks.board(name)
            board.add_many(f"done {n}" for n in range(n_done))
            while task := board.claim("ann"):
                board.complete(task.id)
            board.add_many(f"open {n}" for n in range(n_open))
    browser = await browse(tmp_path / "boards")

    async def listed(**params):
        return [one[0] for one in await rows(browser, "/tasks", **params)]

    assert await listed() == ["a", "b", "B2", "c"]
    assert await listed(sort="-tasks") == ["c", "B2", "a", "b"]
    assert await listed(sort="open") == ["c", "b", "B2", "a"]
    assert await listed(sort="done") == ["a", "b", "B2", "c"]
    assert await listed(board="B", sort="-board") == ["B2", "b"]
    page = (await browser.get("/tasks", sort="-tasks")).text
    assert 'aria-sort="descending"' in page
