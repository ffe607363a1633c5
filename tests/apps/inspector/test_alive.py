"""The page as a program beside others that use the store: while they write, and when it ends."""

import asyncio
import os
import signal
import subprocess
import sys
import urllib.request
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.cookiejar import CookieJar

from apps.inspector.conftest import crawled
from core.conformance.doubles import ManualClock

from apps.inspector import stores
from lance_context_core import ContextStore, Message

SECRET = "quincunx"


@contextmanager
def running(place):
    """The page in a process of its own, where there is no browser and no display; with its link."""
    without = {"DISPLAY", "WAYLAND_DISPLAY", "BROWSER", "PATH"}
    environment = {name: one for name, one in os.environ.items() if name not in without}
    command = [sys.executable, "-m", "lance_context_inspector", str(place)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env={**environment, "PATH": ""}, **pipes) as process:
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


def opened(link):
    """What a browser shows that follows the link."""
    cookies = urllib.request.HTTPCookieProcessor(CookieJar())
    with urllib.request.build_opener(cookies).open(link, timeout=60) as answer:
        return answer.status, answer.read().decode()


def test_without_a_browser_the_link_is_told_and_an_interrupt_ends_it(used):
    with running(used) as (process, link):
        status, page = opened(link)
        assert (status, "<h1" in page) == (200, True)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        assert "Traceback" not in process.stderr.read()


def test_a_page_that_is_killed_leaves_those_who_write_alone(used):
    with ContextStore.open(used) as store:
        with running(used) as (process, link):
            assert opened(link)[0] == 200
            process.kill()
            process.wait(60)
        store.memory.add([Message.user(SECRET, id="after")], user_id="tilda")
        store.maintain()
        assert SECRET in [one.text for one in store.memory.list(user_id="tilda").items]
        assert store.verify().is_whole


async def test_two_browsers_see_what_is_written_meanwhile(browse, used):
    one, two = await browse(used), await browse(used)
    pages = ("/", "/session", "/sessions", "/facts", "/search")
    with ContextStore.open(used) as store:
        for n in range(4):
            said = Message.user(f"{SECRET} number {n}")
            writing = store.aio.history.append("baker", said, session_id="live")
            looking = [
                browser.get(path, id="trip", q="oven") for browser in (one, two) for path in pages
            ]
            _, *answers = await asyncio.gather(writing, *looking)
            assert {answer.status for answer in answers} == {200}
            for browser in (one, two):
                assert f"{SECRET} number {n}" in (await browser.get("/session", id="live")).text


async def test_what_was_erased_is_on_no_page(browse, used):
    with ContextStore.open(used) as store:
        store.history.append("baker", Message.user(SECRET, id="gone"), session_id="trip")
        store.tag("before")
        browser = await browse(used)
        shown = await browser.get("/session", id="trip")
        assert SECRET in shown.text
        store.erase(ids=["gone"])
    for path in ("/record", "/record.json"):
        answer = await browser.get(path, id="gone", context="default")
        assert (answer.status, SECRET in answer.text) == (404, False)
    for start in ("/", "/session?id=trip", f"/search?q={SECRET}", "/?at=before"):
        found = await crawled(browser, start, most=25)
        words = [link for link, one in found.items() if SECRET in one.text and SECRET not in link]
        assert words == []
    assert (await browser.get("/search.json", q=SECRET)).text.count(SECRET) <= 1


async def test_a_link_to_a_moment_shows_the_same_later(browse, used):
    with ContextStore.open(used) as store:
        number = store.version()
        links = [f"{path}at={number}" for path in ("/?", "/facts?", "/session?id=trip&")]
        browser = await browse(used)
        before = [(await browser.get(link)).text for link in links]
        store.history.append("baker", Message.user(SECRET), session_id="trip")
        store.flush()
        later = await browse(used)
        assert [(await later.get(link)).text for link in links] == before


async def test_a_version_that_was_thinned_away_says_so_with_the_way_out(browse, tmp_path):
    place = stores.used(tmp_path / "memory")  # In a copy of its files nothing is kept for tags.
    with ContextStore.open(place) as store:
        numbers = [one.number for one in store.versions()]
        kept = store.tags()["before-the-fair"]
        gone = next(one for one in numbers if one > kept + 1)
    browser = await browse(place)
    pages = ("/", "/facts", "/timeline", "/session")
    before = {(await browser.get(path, at=gone, id="trip")).status for path in pages}
    later = ManualClock(datetime.now(UTC) + timedelta(days=60))
    with ContextStore.open(place, clock=later) as store:
        store.thin()
    for look in (browser, await browse(place)):
        for path in pages:
            answer = await look.get(path, at=gone, id="trip")
            assert answer.status == 404
            assert f"version {gone} was pruned" in answer.text
            assert "/timeline" in answer.text.split("<main")[1]
        assert (await look.get("/session", at=kept, id="trip")).status == 200
    assert before == {200}
