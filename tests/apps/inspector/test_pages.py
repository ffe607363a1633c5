"""What the pages show is what the store answers."""

import html
import json
import re
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from apps.inspector.conftest import crawled
from core.conformance.doubles import ManualClock
from lance_context_inspector.app import PAGES
from lance_context_inspector.pages import _growing, asking
from lance_context_inspector.pages import home as home_page

from apps.inspector import stores
from lance_context_core import ContextStore, Message
from lance_context_core.stores.records.scoped import Records

LATER = datetime.now(UTC) + timedelta(days=60)


def said(answer):
    """What a page that could not be shown says."""
    return re.findall(r'role="alert">(.*?)</p>', answer.text, re.DOTALL)


def texts(answer):
    """What a person reads on a page."""
    return html.unescape(re.sub(r"<[^>]*>", " ", answer.text))


async def looked(browser, path, **params):
    answer = await browser.get(path, **params)
    assert answer.status == 200, (path, said(answer))
    return texts(answer)


@pytest.mark.slow
async def test_every_page_that_is_linked_is_there_and_looking_changes_nothing(browse, used):
    with ContextStore.open(used) as store:
        before = store.version(), store.versions(), store.context().list()
    browser = await browse(used)
    found = await crawled(browser)
    wrong = {link: (one.status, said(one)) for link, one in found.items() if one.status != 200}
    assert wrong == {}
    assert set(PAGES) - {link.partition("?")[0] for link in found} == set()
    with ContextStore.open(used) as store:
        assert (store.version(), store.versions(), store.context().list()) == before


async def test_every_page_has_a_twin_in_json(browse, used):
    browser = await browse(used)
    params = {"id": "trip", "user": "tilda", "name": "the fair", "before": "1", "source": "what-if"}
    for path in PAGES:
        twin = "/index.json" if path == "/" else f"{path}.json"
        answer = await browser.get(twin, **params)
        told = json.loads(answer.text)
        assert answer.status == (await browser.get(path, **params)).status
        assert ("error" in told) == (answer.status != 200)


async def test_a_search_tells_what_each_hit_is_made_of(browse, used):
    page = await looked(await browse(used), "/search", q="oven")
    with ContextStore.open(used) as store:
        hits = store.search("oven", limit=20)
    places = [page.find(" ".join(hit.record.text.split())[:60]) for hit in hits]
    assert hits
    assert -1 not in places
    assert places == sorted(places)
    for hit in hits:
        assert f"{hit.score:.3f}" in page
        for channel in hit.channels.values():
            assert f"{channel.raw:.3f}" in page
        for share in hit.why.values():
            assert f"{share:+.3f}" in page


async def test_two_ways_of_searching_are_shown_side_by_side(browse, used):
    browser = await browse(used)
    given = {"q": "oven bees oats", "mode": "text", "other_at": "before-the-fair"}
    told = json.loads((await browser.get("/search.json", **given)).text)["compared"]
    with ContextStore.open(used) as store:
        stores_ = (store, store.checkout("before-the-fair"))
        here, there = (
            [one.record.id for one in each.search(given["q"], mode="text", limit=20)]
            for each in stores_
        )
    for name, ids in (("rank", here), ("other_rank", there)):
        ranked = sorted((one[name], one["record"]["id"]) for one in told if one[name])
        assert ranked == [*enumerate(ids, 1)]
    page = await looked(browser, "/search", **given)
    assert page.count("\N{MINUS SIGN} lost") == len({*here} - {*there}) > 0
    assert page.count("+ gained") == len({*there} - {*here})
    assert "Side by side" not in await looked(browser, "/search", q="oven")
    assert (await browser.get("/search", q="x", other_mode="magic")).status == 400


async def facts(browser, **params):
    """The texts of the facts that the page lists."""
    told = json.loads((await browser.get("/facts.json", **params)).text)
    return [one["text"] for one in told["part"]["items"]]


async def test_facts_are_found_with_the_turns_that_say_so(browse, used):
    browser = await browse(used)
    page = await looked(browser, "/search", q="Where does she live?", kind="fact")
    assert "1 turn says so" in page
    assert "✓ says so still" in page
    assert "I moved to Bergen." in await facts(browser)
    assert "I live in Oslo." not in await facts(browser)
    assert "I live in Oslo." in await facts(browser, hidden="1")
    assert "something took its place" in await looked(browser, "/facts", hidden="1")


@pytest.mark.parametrize("path", ["/facts", "/search"])
async def test_a_fact_tells_from_when_to_when_it_was_so_and_what_took_its_place(browse, used, path):
    browser = await browse(used)
    with ContextStore.open(used) as store:
        facts = store.context("knowledge").list(filters={"kind": "fact"}, include_retired=True)
    spans = {one["text"]: one["metadata"]["fact"] for one in facts}
    moved = spans["I moved to Bergen."]["valid_from"]
    assert spans["I live in Oslo."]["valid_to"] == moved
    answer = await browser.get(path, hidden="1", q="Where does she live?", kind="fact")
    page = " ".join(texts(answer).split())
    assert f"so since {moved[:16].replace('T', ' ')}" in page
    assert answer.text.count('class="strip"') == answer.text.count('class="valid"') > 0
    if path == "/facts":
        ends = spans["I live in Oslo."]["valid_from"], moved
        begun, ended = (one[:16].replace("T", " ") for one in ends)
        assert f"so from {begun} to {ended}" in page
        (link,) = re.findall(r'href="([^"]*)">something took its place', answer.text)
        assert "I moved to Bergen." in await looked(browser, html.unescape(link))


async def test_a_turn_that_says_something_else_by_now_is_no_proof(browse, used, monkeypatch):
    async def leave(records, within, *, ids=None):
        """As an older release, which left what was known of such turns."""

    monkeypatch.setattr(Records, "cleared", leave)
    with ContextStore.open(used) as store:
        tilda = store.scope(user_id="tilda")
        tilda.history.rewrite("", Message.user("I live nowhere.", id="sister"), session_id="market")
        tilda.context().forget(id="oven")
    page = await looked(await browse(used), "/facts")
    assert "✗ says something else by now" in page
    assert "✗ The turn is gone" in page


async def test_a_conversation_shows_calls_beside_answers_thoughts_and_pictures(browse, used):
    browser = await browse(used)
    page = await looked(browser, "/session", id="trip")
    order = [
        *("Where could I take", "no tunnel under 3 m", "places.search", "height_m"),
        *("Ekeberg: view of the fjord", "weather.tonight", "Error", "the service is not there"),
        *("Ekeberg has the fjord", "Ekeberg in the evening", "book it"),
    ]
    places = [page.index(words) for words in order]
    assert places == sorted(places)
    (picture,) = {one for one in (await browser.get("/session", id="trip")).links if "/blob" in one}
    answer = await browser.get(picture)
    assert answer.body == stores.picture()
    assert answer.headers["content-type"] == "image/png"


async def test_a_conversation_is_read_page_by_page(browse, tmp_path):
    said = [Message.user(f"turn number {n}") for n in range(120)]
    with ContextStore.open(tmp_path / "long") as store:
        store.history.append_many("a", said, session_id="s")
    browser = await browse(tmp_path / "long")
    seen = []
    for number in ("1", "2", "3"):
        seen += re.findall(
            r"turn number (\d+)", await looked(browser, "/session", id="s", page=number)
        )
    assert seen == [str(n) for n in range(120)]
    assert (await browser.get("/session", id="s", page="4")).status == 404


async def test_a_fact_tells_who_said_it_and_what_became_of_it(browse, used):
    with ContextStore.open(used) as store:
        context = store.context("knowledge")
        facts = context.list(filters={"kind": "fact"}, include_retired=True)
        (fact,) = [one for one in facts if one["text"] == "I live in Oslo."]
        changes = store.knowledge.history(fact["id"])
    page = await looked(await browse(used), "/record", id=fact["id"], context="knowledge")
    assert "Tilda" in page
    assert "✓ says so still" in page
    assert [one.kind for one in changes] == ["add", "supersede"]
    for words in ("add", "supersede", "I moved to Bergen.", "superseded by id"):
        assert words in page


async def test_an_erasure_is_told_as_the_store_would_do_it(browse, used):
    browser = await browse(used)
    told = json.loads((await browser.get("/erasure.json", user="tilda")).text)["would"]
    page = await looked(browser, "/erasure", user="tilda")
    with ContextStore.open(used) as store:
        done = store.scope(user_id="tilda").erase()
    assert (told["records"], told["derived"]) == (done.records, done.derived)
    assert f" {done.records} " in page
    for path in ("/person", "/erasure"):
        assert (await browser.get(path, user="tilda")).status == 404
    for link in ("/", "/facts?hidden=1", "/jobs", "/people", "/search?q=Oslo", "/sessions"):
        answer = await browser.get(link)
        assert answer.status == 200
        assert "I live in Oslo" not in answer.text


async def test_a_person_who_is_strange_to_a_shell_is_quoted_for_it(browse, tmp_path):
    name = "x'; rm -rf ~ #"
    with ContextStore.open(tmp_path / "memory") as store:
        store.memory.add(["hm"], user_id=name)
    page = await looked(await browse(tmp_path / "memory"), "/erasure", user=name)
    assert """--user 'x'"'"'; rm -rf ~ #' erase""" in page


@pytest.mark.parametrize("ref", ["before-the-fair", "3", "time"])
async def test_at_a_moment_a_page_is_that_of_the_store_then(browse, used, ref):
    if ref == "time":
        with ContextStore.open(used) as store:
            (ref,) = (one.created_at.isoformat() for one in store.versions() if one.number == 3)
    browser = await browse(used)
    assert "I moved to Bergen." in await facts(browser)
    assert f"As it was at {ref}" in " ".join((await looked(browser, "/facts", at=ref)).split())
    assert "I moved to Bergen." not in await facts(browser, at=ref)
    assert "I live in Oslo." in await facts(browser, at=ref)
    links = (await browser.get("/facts", at=ref)).links
    menu = [one for one in links if one.startswith("/sessions")]
    assert menu
    assert all("at=" in one for one in menu)


async def test_a_branch_is_looked_at_as_it_is(browse, used):
    browser = await browse(used)
    assert "Could open on Sundays" in await looked(
        browser, "/person", user="tilda", branch="what-if"
    )
    assert "Could open on Sundays" not in await looked(browser, "/person", user="tilda")
    for at in ({"at": "nowhere"}, {"branch": "nowhere"}, {"at": "99"}, {"at": "1999-01-01"}):
        assert (await browser.get("/facts", **at)).status == 404


async def test_a_difference_is_that_of_the_store(browse, used):
    browser = await browse(used)
    told = json.loads((await browser.get("/diff.json", before="3", after="what-if")).text)
    with ContextStore.open(used) as store:
        diff = store.diff(3, "what-if")
    assert told["counts"] == {
        "added": len(diff.added),
        "changed": len(diff.changed),
        "removed": len(diff.removed),
    }
    assert [one["id"] for one in told["added"]] == [one.id for one in diff.added] == ["sundays"]
    page = await browser.get("/diff", before="3", after="what-if")
    for link in page.links:
        if link.startswith("/record"):
            assert (await browser.get(link)).status == 200


async def test_words_that_changed_are_told_apart(browse, used):
    with ContextStore.open(used) as store:
        before = store.version()
        message = Message.user("Lovely, cancel it.", id="books")
        store.history.rewrite("wren", message, session_id="trip")
    answer = await (await browse(used)).get("/diff", before=str(before))
    assert "<del>book</del><ins>cancel</ins>" in answer.text


async def test_a_window_is_shown_as_the_agent_saw_it(browse, used):
    browser = await browse(used)
    page = await looked(browser, "/window", session="call-1", agent="wren", step="2")
    with ContextStore.open(used) as store:
        ids = store.windows.list("call-1", agent_id="wren")
        window = store.windows.get(ids[1])
    assert len(ids) == 2
    counts = [f"{n:,}".replace(",", "\u2009") for n in (window.tokens, window.room)]
    assert " tokens of ".join(counts) in page
    assert "Step 2 of 2" in page
    for seen in window.seen:
        assert not seen.text or " ".join(seen.text.split())[:80] in " ".join(page.split())
    assert (await browser.get("/window", session="call-1", agent="wren", step="3")).status == 404


SAID = "SELECT id, text, created_at FROM messages ORDER BY created_at, id"


async def test_a_question_in_sql_is_answered_as_the_store_answers_it(browse, used):
    browser = await browse(used)
    page = await looked(browser, "/sql", q=SAID)
    told = json.loads((await browser.get("/sql.json", q=SAID)).text)
    then = json.loads((await browser.get("/sql.json", q=SAID, at="before-the-fair")).text)
    with ContextStore.open(used) as store:
        rows = store.sql(SAID).to_pylist()
        rows_then = store.checkout("before-the-fair").sql(SAID).to_pylist()
    assert told["columns"] == ["id", "text", "created_at"]
    assert [row[0] for row in told["rows"]] == [row["id"] for row in rows]
    assert [row[0] for row in then["rows"]] == [row["id"] for row in rows_then]
    assert 0 < len(rows_then) < len(rows)
    assert all(" ".join(row["text"].split())[:60] in page for row in rows if row["text"])
    many = await looked(browser, "/sql", q="SELECT range FROM range(201)")
    assert "200 rows, the first ones" in many
    for query in ("DROP VIEW messages", "SELECT 1; SELECT 2", "selec", "SELECT getenv('HOME')"):
        answer = await browser.get("/sql", q=query)
        assert answer.status == 400
        assert said(answer)


@pytest.mark.parametrize("query", ["SELECT id\nFORM messages", "SELECT '</textarea><b>x</b>' OF x"])
async def test_a_question_that_is_refused_stays_where_it_was_typed(browse, used, query):
    browser = await browse(used)
    answer = await browser.get("/sql", q=query)
    told = json.loads((await browser.get("/sql.json", q=query)).text)
    (typed,) = re.findall(r"<textarea[^>]*>(.*?)</textarea>", answer.text, re.DOTALL)
    assert html.unescape(typed) == query
    assert 'aria-invalid="true" aria-describedby="refused"' in answer.text
    assert [html.unescape(one) for one in said(answer)] == [told["error"]]
    assert "aria-invalid" not in (await browser.get("/sql", q="SELECT 1")).text


async def test_without_what_answers_sql_its_page_says_what_to_install(browse, used, monkeypatch):
    monkeypatch.setitem(sys.modules, "duckdb", None)
    browser = await browse(used)
    answer = await browser.get("/sql", q=SAID)
    assert (answer.status, "lance-context-core[sql]" in answer.text) == (501, True)
    monkeypatch.setattr(asking, "find_spec", lambda _: None)
    answer = await browser.get("/sql")
    assert (answer.status, "lance-context-core[sql]" in answer.text) == (200, True)
    assert "<textarea" not in answer.text


async def test_every_page_is_looked_at_as_of_another_moment_from_its_bar(browse, used):
    browser = await browse(used)
    for path, params in (
        ("/", {}),
        ("/session", {"id": "trip"}),
        ("/search", {"q": 'the "oven" & more', "mode": "text"}),
        ("/sessions", {"page": "1", "at": "3", "branch": "what-if"}),
    ):
        bar = re.search(
            r'<form class="asof".*?</form>', (await browser.get(path, **params)).text, re.DOTALL
        )
        fields = re.findall(r'name="([\w-]+)" value="(.*?)"', bar[0])
        kept = {name: html.unescape(value) for name, value in fields}
        assert f'action="{path}"' in bar[0]
        wanted = {"at": "", "branch": ""} | params
        wanted.pop("page", None)  # Another moment has other pages.
        assert kept == wanted
        asked = kept | {"at": "before-the-fair", "branch": ""}
        shown = await looked(browser, path, **asked)
        assert "As it was at before-the-fair" in " ".join(shown.split())


@pytest.mark.parametrize("branch", [None, "what-if"])
async def test_versions_are_gone_through_one_by_one_from_now_to_the_first_and_back(
    browse, used, branch
):
    with ContextStore.open(used) as store:
        store.history.append("wren", Message.user("One more"), session_id="oats")
        kept = [one.number for one in (store.branch(branch) if branch else store).versions()]
    browser = await browse(used)

    async def walked(where, at):
        passed = [at]
        while passed[-1] is not None:
            given = {"at": at, "branch": branch or ""}
            told = json.loads((await browser.get("/beside.json", **given)).text)
            passed.append(at := told[where])
        return passed

    assert await walked("earlier", "") == ["", *kept[-2::-1], None]
    assert await walked("later", kept[0]) == [*kept[:-1], "", None]
    assert (await walked("later", kept[-1]))[:2] == [kept[-1], ""]


async def test_versions_that_were_thinned_away_are_passed_over(browse, tmp_path):
    with ContextStore.open(tmp_path / "memory") as store:
        for number in range(9):
            store.memory.add([f"number {number}"], user_id="tilda")
            store.flush()
            if number in {0, 5}:
                store.tag(f"tag-{number}")
    with ContextStore.open(tmp_path / "memory", clock=ManualClock(LATER)) as store:
        store.thin()
        kept = [one.number for one in store.versions()]
    assert any(b - a > 2 for a, b in pairwise(kept))
    browser = await browse(tmp_path / "memory")
    for number, after in pairwise(kept[:-1]):
        told = json.loads((await browser.get("/beside.json", at=number)).text)
        assert told["later"] == after
        told = json.loads((await browser.get("/beside.json", at=after)).text)
        assert told["earlier"] == number


async def test_growth_is_told_by_day(browse, used):
    browser = await browse(used)
    for at in ("", "before-the-fair"):
        told = json.loads((await browser.get("/index.json", at=at)).text)["growth"]
        with ContextStore.open(used) as store:
            seen = store.checkout(at) if at else store
            rows = seen.sql("SELECT created_at FROM records").to_pylist()
            kept = {one["id"] for one in seen.context().list()}
        made = [row["created_at"].date().isoformat() for row in rows]
        assert len(made) > len(kept) > 0
        counts = Counter(made)
        days = {one["day"]: one["n"] for one in told["days"]}
        assert {day: n for day, n in days.items() if n} == counts
        assert (told["n"], len(days), max(days)) == (len(made), 30, max(made))
        answer = await browser.get("/", at=at)
        assert answer.text.count('<rect class="grew"') == len(counts)
        for day, n in counts.items():
            assert f"{day} {n} " in " ".join(texts(answer).split()) + " "


async def test_without_what_counts_the_overview_has_no_growth(browse, used, monkeypatch):
    browser = await browse(used)
    assert "Growth by day" in await looked(browser, "/")
    monkeypatch.setattr(_growing, "find_spec", lambda _: None)
    assert "Growth by day" not in await looked(browser, "/")


async def test_the_growth_of_a_large_store_is_counted_where_it_is_asked_for(
    browse, used, monkeypatch
):
    browser = await browse(used)
    counted = json.loads((await browser.get("/index.json")).text)["growth"]
    for few in (1, counted["n"]):
        monkeypatch.setattr(home_page, "FEW", few)
        for at in ("", "before-the-fair"):
            page = await looked(browser, "/", at=at) if at else await looked(browser, "/")
            if few == 1:
                assert "up to a million records are counted" in " ".join(page.split())
    told = json.loads((await browser.get("/index.json", growth="all")).text)
    assert (told["growth"], told["grows"]) == (counted, False)


async def test_a_board_says_who_is_at_what(browse, used):
    page = await looked(await browse(used), "/board", name="the fair")
    for words in ("robin", "after Order flour for the fair", "the element was loose", "blocked"):
        assert words in page


@pytest.mark.parametrize(
    ("path", "params"),
    [
        ("/session", {}),
        ("/session", {"id": "x", "page": "0"}),
        ("/search", {"q": "x", "limit": "101"}),
        ("/search", {"q": "x", "mode": "magic"}),
        ("/sessions", {"page": "1e9"}),
        ("/jobs", {"state": "lost"}),
        ("/merge", {"source": "what-if", "policy": "mine"}),
        ("/timeline", {"before": "-1"}),
        ("/facts", {"at": "0001-01-01"}),
        ("/record", {"id": "a\x00b"}),
    ],
    ids=lambda one: one if isinstance(one, str) else " ".join(f"{k}={v!r}" for k, v in one.items()),
)
async def test_what_a_link_cannot_mean_is_said_and_is_no_fault(browse, used, path, params):
    answer = await (await browse(used)).get(path, **params)
    assert answer.status in {400, 404}
    assert said(answer)


async def test_an_empty_store_has_pages(browse, tmp_path):
    with ContextStore.open(tmp_path / "empty") as store:
        store.history.append("a", Message.user("x"), session_id="s")
        store.sessions.delete("s")
    browser = await browse(tmp_path / "empty")
    for path in (
        "/",
        "/search",
        "/sessions",
        "/facts",
        "/people",
        "/timeline",
        "/jobs",
        "/windows",
        "/tasks",
        "/health",
    ):
        await looked(browser, path)
