"""What a page that may write does: as the store does it, once, and with the way back."""

import html
import json
import re

from lance_context_core import ContextStore, Message


async def done(browser, path, **fields):
    answer = await browser.post(path, **fields)
    assert answer.status == 200, answer.text
    return answer


async def test_a_merge_on_the_page_is_that_of_the_store(browse, used):
    browser = await browse(used, can_write=True)
    preview = json.loads((await browser.get("/merge.json", source="what-if")).text)
    answer = await done(browser, "/do/merge", source="what-if")
    with ContextStore.open(used) as store:
        assert {one["target"] for one in [preview["report"]]} == {"main"}
        assert preview["report"]["tables"]["records"]["added"] == 1
        texts = [one.text for one in store.memory.list(user_id="tilda").items]
    assert "Could open on Sundays" in texts
    assert re.search(r"lance-ctx restore \d+", answer.text)
    (link,) = (one for one in answer.links if one.startswith("/diff"))
    assert "Could open on Sundays" in (await browser.get(link)).text
    again = await done(browser, "/do/merge", source="what-if")
    assert "Nothing was left to merge" in again.text


async def test_both_sides_of_what_both_changed_are_shown(browse, used):
    with ContextStore.open(used) as store:
        for branch, text in (("main", "Pays in cash"), ("what-if", "Pays by card")):
            context = store.branch(branch).context()
            context.update(id="memory-2", metadata={"how": text})
    page = (await (await browse(used)).get("/merge", source="what-if", policy="ours")).text
    assert "Changed on both sides: 1" in page
    assert "Ours stays" in page


async def test_a_branch_is_dropped_by_who_types_its_name(browse, used):
    browser = await browse(used, can_write=True)
    wrong = await browser.post("/do/drop", name="empty-ideas", typed="empty-idea")
    assert wrong.status == 400
    await done(browser, "/do/drop", name="empty-ideas", typed="empty-ideas")
    assert (
        "gone already"
        in (await done(browser, "/do/drop", name="empty-ideas", typed="empty-ideas")).text
    )
    with ContextStore.open(used) as store:
        assert "empty-ideas" not in [one.name for one in store.branches()]


async def test_a_proposal_is_read_and_merged_or_dropped(browse, used):
    with ContextStore.open(used) as store:
        (job,) = store.knowledge.jobs.list(state="proposed")
    browser = await browse(used, can_write=True)
    page = await browser.get("/job", id=job.id)
    assert "Proposal</h2>" in page.text
    assert "Rye or oats?" in page.text
    for link in page.links:
        if link.startswith("/record"):
            assert (await browser.get(link)).status == 200, link
    answer = await done(browser, "/do/merge-job", id=job.id)
    assert f"lance-ctx undo {job.id}" in answer.text
    with ContextStore.open(used) as store:
        assert store.knowledge.jobs.get(job.id).state == "succeeded"
        store.history.append("wren", Message.user("Oats."), session_id="oats")
        other = store.knowledge.distill(session_id="oats")
    await done(browser, "/do/discard-job", id=other.job_id)
    with ContextStore.open(used) as store:
        assert other.branch not in [one.name for one in store.branches()]


async def test_a_job_is_undone_as_it_was_told_and_the_undo_too(browse, used):
    browser = await browse(used, can_write=True)
    with ContextStore.open(used) as store:
        job = next(one for one in store.knowledge.jobs.list() if one.kind == "extract")
        would = store.knowledge.undo(job.id, dry_run=True)
    answer = await done(browser, "/do/undo-job", id=job.id)
    assert f"{len(would.retired)} records are hidden" in answer.text
    undo = re.search(r"lance-ctx undo (job-\w+)", answer.text)[1]
    answer = await done(browser, "/do/undo-job", id=undo)
    assert f"{len(would.retired)} are back" in answer.text


async def test_a_fact_is_set_right_hidden_and_pinned(browse, used):
    browser = await browse(used, can_write=True)
    with ContextStore.open(used) as store:
        found = store.context("knowledge").list(filters={"kind": "fact"})
    ids = {one["text"]: one["id"] for one in found}
    await done(
        browser, "/do/correct", id=ids["My sister is called Ana."], text="Her sister is Anna."
    )
    await done(browser, "/do/invalidate", id=ids["I prefer rye bread."], reason="a joke")
    pinned = ids["I moved to Bergen."]
    await done(browser, "/do/pin", id=pinned)
    told = json.loads((await browser.get("/facts.json")).text)["part"]["items"]
    texts = [one["text"] for one in told]
    assert "Her sister is Anna." in texts
    assert "I prefer rye bread." not in texts
    assert "Unpin it" in (await browser.get("/record", id=pinned, context="knowledge")).text
    await done(browser, "/do/pin", id=pinned, pinned="no")
    assert "Pin it as it is" in (await browser.get("/record", id=pinned, context="knowledge")).text


async def test_a_version_is_given_a_name(browse, used):
    browser = await browse(used, can_write=True)
    answer = await done(browser, "/do/tag", name="the-third", version="3")
    assert "lance-ctx tag -d the-third" in answer.text
    with ContextStore.open(used) as store:
        assert store.tags()["the-third"] == 3
    assert (await browser.post("/do/tag", name="the-third", version="2")).status == 409


async def test_what_was_is_not_written_to(browse, used):
    browser = await browse(used, can_write=True)
    assert "<form method" not in (await browser.get("/timeline", at="3")).text
    assert (await browser.post("/do/merge", source="what-if", at="3")).status == 409


async def test_forms_are_there_only_where_they_may_write(browse, used):
    reading, writing = await browse(used), await browse(used, can_write=True)
    for path, params in (("/timeline", {}), ("/merge", {"source": "what-if"})):
        assert 'action="/do/' not in (await reading.get(path, **params)).text
        assert 'action="/do/' in (await writing.get(path, **params)).text


def inverse(answer):
    """The form that takes back what was done: where it goes, and its fields."""
    (form,) = re.findall(
        r'<form method="post" action="([^"]+)">(.*?)<button>Take it back', answer.text, re.DOTALL
    )
    fields = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)">', form[1])
    return form[0], {name: html.unescape(value) for name, value in fields if name != "form"}


async def test_a_memory_is_edited_noted_hidden_and_each_is_taken_back(browse, used):
    browser = await browse(used, can_write=True)
    which = {"id": "memory-0", "user": "tilda", "context": "default", "back": "/person?user=tilda"}

    def memory():
        with ContextStore.open(used) as store:
            return {one.id: one for one in store.memory.list(user_id="tilda").items}.get("memory-0")

    before = memory()
    edited = await done(browser, "/do/edit", **which, text="Prefers to be called after noon")
    assert memory().text == "Prefers to be called after noon"
    assert "This is version" in edited.text
    assert "/person?user=tilda" in edited.links
    path, fields = inverse(edited)
    await done(browser, path, **fields)
    assert memory().text == before.text

    noted = await done(browser, "/do/note", **which, note="<b>ask</b> again in June")
    assert memory().metadata["note"] == "<b>ask</b> again in June"
    assert "&lt;b&gt;ask" in (await browser.get("/record", id="memory-0", user="tilda")).text
    path, fields = inverse(noted)
    await done(browser, path, **fields)
    assert "note" not in memory().metadata

    hidden = await done(browser, "/do/hide", **which, reason="too old")
    assert memory() is None
    path, fields = inverse(hidden)
    await done(browser, path, **fields)
    assert memory().text == before.text


async def test_a_fact_that_was_hidden_or_corrected_is_taken_back(browse, used):
    with ContextStore.open(used) as store:
        fact = next(one for one in store.knowledge.list(user_id="tilda") if "Bergen" in one.text)
    browser = await browse(used, can_write=True)
    which = {"id": fact.id, "context": "knowledge", "user": "tilda"}
    for path, fields in (("/do/correct", {"text": "I moved to Voss."}), ("/do/pin", {}),
                         ("/do/invalidate", {"reason": "a joke"})):  # fmt: skip
        back, given = inverse(await done(browser, path, **which, **fields))
        await done(browser, back, **given)
        with ContextStore.open(used) as store:
            now = store.knowledge.get(fact.id)
        assert now.text == fact.text
        assert not now.metadata.get("pinned")


async def test_what_cannot_be_changed_is_refused_and_stays(browse, used):
    browser = await browse(used, can_write=True)
    for path, fields, status in (
        ("/do/edit", {"id": "ask", "session": "trip", "text": "x"}, 400),
        ("/do/edit", {"id": "memory-0", "user": "tilda"}, 400),
        ("/do/hide", {"id": "no-such", "reason": "x"}, 404),
        ("/do/note", {"id": "memory-0", "user": "bob", "note": "x"}, 404),
    ):
        assert (await browser.post(path, **fields)).status == status, path
    for back in ("//evil.example", "/\\evil.example", "/\t/evil.example", "https://evil.example"):
        answer = await done(browser, "/do/note", id="memory-0", user="tilda", note="x", back=back)
        assert not [one for one in answer.links if "evil" in one]
