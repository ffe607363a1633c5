"""The pages in Chromium: at once, by keyboard, for all eyes and none, and with nothing that acts."""

import os
import re
import socket
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from apps.inspector.browser import pictures
from apps.inspector.browser.conftest import served
from axe_playwright_python.sync_playwright import Axe
from lance_context_inspector.app import PAGES
from playwright.sync_api import expect

from apps.inspector import stores
from lance_context_core import ContextStore, Message

PATHS = [
    *("/", "/search?q=oven", "/search?q=oven&kind=fact", "/sessions", "/session?id=trip"),
    "/search?q=oven&other_mode=text&other_at=before-the-fair",
    *("/facts?hidden=1", "/people", "/person?user=tilda", "/erasure?user=tilda", "/timeline"),
    *("/diff?before=1&after=what-if", "/merge?source=what-if", "/jobs", "/windows", "/tasks"),
    *("/window?session=call-1&agent=wren&step=2", "/board?name=the+fair", "/health"),
    *("/record?id=shows&session=trip", "/facts?at=before-the-fair", "/sql"),
    *("/sessions?session=call&sort=-messages", "/session?id=trip&live=1", "/graph"),
    *(
        "/runs?left=call-1&right=trip",
        "/jobs?input_price=3&output_price=15",
        "/windows?sort=tokens",
    ),
    *("/search?q=oven&limit=2&page=2", "/sql?q=SELECT+role,+text+FROM+messages+LIMIT+5"),
    *("/people?user=no-such", "/facts?user=no-such"),
]
VIEWS = [("light", 1280), ("dark", 390)]


def read(page, path, folder):
    """Opens a page, takes its picture, and holds it against what everybody needs to read it."""
    page.goto(page.base + path)
    name = re.sub(r"[^a-z0-9]+", "-", path.lower()).strip("-")[:60] or "overview"
    page.screenshot(path=folder / f"{name}.png", full_page=True)
    page.locator("details").evaluate_all("all => all.forEach(one => { one.open = true })")
    found = Axe().run(page)
    assert found.violations_count == 0, f"{path}\n{found.generate_report()}"
    assert page.locator("h1").count() == 1
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"], (
        path
    )
    return name


@pytest.fixture
def folder(request, tmp_path):
    """Where pictures are put: in `PICTURES`, to be looked at, or away."""
    kept = os.environ.get("PICTURES")
    found = tmp_path if kept is None else Path(kept) / request.node.callspec.id
    found.mkdir(parents=True, exist_ok=True)
    return found


@pytest.mark.parametrize(("scheme", "width"), VIEWS)
def test_everybody_can_read_and_use_every_page(visit, readable, folder, scheme, width):
    page = visit(readable, color_scheme=scheme, viewport={"width": width, "height": 800})
    first = page.locator("main a[href^='/record']").first.get_attribute("href")
    page.goto(page.base + "/graph?name=Tilda")
    entity = page.locator("main a[href^='/entity']").first.get_attribute("href")
    page.goto(page.base + "/jobs?state=proposed")
    job = page.locator("main a[href^='/job?']").first.get_attribute("href")
    paths = [*PATHS, first, f"{entity}&depth=2", job]
    taken = {read(page, path, folder) for path in paths}
    assert {one.stem for one in folder.glob("*.png")} >= taken
    assert {path.partition("?")[0] for path in paths} >= set(PAGES)


@pytest.mark.parametrize(("scheme", "width"), VIEWS)
def test_everybody_can_read_what_cannot_be_shown(browser, used_page, folder, scheme, width):
    context = browser.new_context(
        color_scheme=scheme, viewport={"width": width, "height": 800}, reduced_motion="reduce"
    )
    page = context.new_page()
    page.goto(used_page.link)
    page.base = used_page.link.partition("/enter")[0]
    for path in ("/record?id=no-such", "/sql?q=DROP+TABLE+messages", "/sessions?sort=colour"):
        read(page, path, folder)
        expect(page.get_by_role("alert")).to_be_visible()
    context.close()


def test_what_a_change_did_can_be_read_and_taken_back_where_one_reads(visit, writable):
    page = visit(writable)
    page.goto(page.base + "/person?user=tilda")
    fact = page.locator(".fact", has_text="I moved to Bergen.")
    fact.get_by_text("Change it").click()
    fact.get_by_label("It should say").fill("I moved to Voss.")
    fact.get_by_role("button", name="Correct it").click()
    expect(page.get_by_role("status")).to_contain_text("This is version")
    assert Axe().run(page).violations_count == 0
    page.get_by_role("link", name="See it").click()
    expect(page.locator(".card").first).to_contain_text("I moved to Voss.")
    page.goto(page.base + "/person?user=tilda")
    fact = page.locator(".fact", has_text="I moved to Voss.")
    fact.get_by_text("Change it").click()
    fact.get_by_label("It is wrong, because").fill("a joke")
    fact.get_by_role("button", name="Hide it").click()
    page.get_by_role("button", name="Take it back").click()
    page.get_by_role("link", name="Back to where you were").click()
    page.wait_for_url("**/person?user=tilda")
    expect(page.get_by_text("I moved to Voss.").first).to_be_visible()


def test_a_conversation_is_followed_live(visit, tmp_path):
    place = stores.used(tmp_path / "memory")
    with served(place) as server, ContextStore.open(place, maintenance=None) as store:
        page = visit(server)
        page.goto(page.base + "/session?id=oats&live=1")
        store.history.append("wren", Message.user("Barley it is."), session_id="oats")
        expect(page.get_by_text("Barley it is.")).to_have_count(1, timeout=30_000)
        page.goto("about:blank")


def test_a_person_gets_everywhere_without_a_mouse(visit, used_page):
    page = visit(used_page)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the page"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.keyboard.press("/")
    page.keyboard.type("oven")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search?q=oven*")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    assert page.locator("[data-item].here").count() == 1
    here = page.evaluate("document.activeElement.getAttribute('href')")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**{here}")
    page.goto(page.base + "/window?session=call-1&agent=wren&step=1")
    page.keyboard.press("n")
    page.get_by_role("heading", name="at step 2").wait_for()
    page.wait_for_load_state()  # Before that, no script listens for keys.
    page.keyboard.press("p")
    page.get_by_role("heading", name="at step 1").wait_for()


def test_a_person_goes_through_versions_by_keyboard(visit, used_page):
    page = visit(used_page)
    page.goto(page.base + "/facts?hidden=1")
    page.keyboard.press("]")
    expect(page.locator("#told")).to_have_text("This is now: there is no later version.")
    page.keyboard.press("[")
    page.wait_for_url("**/facts?hidden=1&at=*")
    page.wait_for_load_state()
    seen = int(page.get_by_label("As of").input_value())
    page.keyboard.press("[")
    page.wait_for_url(f"**at={seen - 1}*")
    page.wait_for_load_state()
    for at in (f"**at={seen}*", "**at=&*"):
        page.keyboard.press("]")
        page.wait_for_url(at)
        page.wait_for_load_state()
    expect(page.get_by_role("note")).to_have_count(0)


def test_pages_work_without_their_script(visit, used_page):
    page = visit(used_page, java_script_enabled=False)
    page.get_by_label("Ask it something").fill("oven")
    page.get_by_role("button", name="Search").click()
    page.get_by_text("Why").first.click()
    expect(page.get_by_text("What each channel said").first).to_be_visible()
    page.get_by_role("link", name="Facts").first.click()
    page.get_by_text("1 turn says so").first.click()
    expect(page.get_by_text("says so still").first).to_be_visible()


def test_a_store_full_of_hostile_texts_does_nothing(visit, hostile_page):
    page = visit(hostile_page)
    waiting, seen, per_path = ["/"], set(), {}
    while waiting and len(seen) < 70:
        link = waiting.pop(0)
        path = link.partition("?")[0]
        if link in seen or per_path.get(path, 0) > 6 or path in {"/blob", "/text"}:
            continue
        seen.add(link)
        per_path[path] = per_path.get(path, 0) + 1
        page.goto(page.base + link)
        assert page.title().endswith("· lance-context")
        assert "owned" not in page.title().replace("document.title='owned'", "")
        assert page.locator("script").count() == 1
        page.locator("details").evaluate_all("all => all.forEach(one => { one.open = true })")
        waiting += page.locator("a[href^='/']").evaluate_all(
            "all => all.map(one => one.getAttribute('href'))"
        )
    assert len(seen) > 40


def test_versions_and_tags_slide_by_and_the_page_follows(visit, used_page):
    page = visit(used_page)
    page.goto(page.base + "/facts?hidden=1")
    expect(page.get_by_label("Version", exact=True)).to_be_hidden()
    page.get_by_label("As of").focus()
    slide = page.get_by_label("Version", exact=True)
    expect(slide).to_be_visible()
    assert slide.get_attribute("aria-valuetext") == "now"
    told = []
    while "before-the-fair" not in (told or [""])[-1]:
        assert slide.input_value() != "0"
        slide.evaluate("one => { one.stepDown(); one.dispatchEvent(new Event('input')) }")
        told.append(slide.get_attribute("aria-valuetext"))
    assert all(one.startswith("version ") for one in told)
    slide.dispatch_event("change")
    page.wait_for_url("**/facts?hidden=1&at=before-the-fair*")
    expect(page.get_by_role("note")).to_contain_text("As it was at before-the-fair")
    assert page.get_by_text("I moved to Bergen.").count() == 0
    page.get_by_label("As of").fill("")
    page.get_by_role("button", name="Look").click()
    expect(page.get_by_text("I moved to Bergen.").first).to_be_visible()


def test_a_merge_is_read_and_done_by_hand(visit, writable):
    page = visit(writable)
    page.get_by_role("link", name="Timeline").click()
    page.get_by_role("row", name="what-if").get_by_role("link", name="what a merge").click()
    page.get_by_role("button", name="Merge it").click()
    assert "is merged" in page.get_by_role("status").inner_text()
    page.get_by_role("link", name="See it").click()
    expect(page.get_by_text("Could open on Sundays")).to_be_visible()


def test_a_second_browser_and_a_name_that_leads_here_are_refused(visit, used_page, browser):
    page = visit(used_page)
    port = page.base.rpartition(":")[2]
    other = browser.new_context()
    assert other.request.get(page.base + "/sessions").status == 401
    other.close()
    for host in (f"evil.example:{port}", "127.0.0.1"):
        asked = urllib.request.Request(page.base + "/", headers={"Host": host})  # noqa: S310
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(asked)  # noqa: S310
        assert refused.value.code == 400
        refused.value.close()
    outside = next(
        (one[4][0] for one in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)), ""
    )
    if not outside.startswith("127."):
        with pytest.raises(OSError, match="refused"):
            socket.create_connection((outside, int(port)), timeout=5)


def test_the_pictures_of_the_docs_are_taken(browser, used_page, tmp_path):
    pictures.take(browser, used_page, tmp_path)
    taken = {one.name for one in tmp_path.iterdir()}
    assert taken == {one.name for one in pictures.IMAGES.glob("inspector-*.png")}
