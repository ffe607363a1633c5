"""A page in a real browser: served on this machine, looked at by Chromium."""

import asyncio
import shutil
import threading
from contextlib import contextmanager
from importlib.util import find_spec

import pytest
from browser import chromium

from apps.inspector import stores
from lance_context_core import ContextStore

collect_ignore_glob = [] if find_spec("playwright") else ["test_*.py"]
"""Run where Playwright is: see `tests/environments.py`."""


@contextmanager
def served(place, *, can_write=False, **scope):
    """Serves the page of a store in a thread, and hands out what makes links to it."""
    from lance_context_inspector.serving import Server, listening
    from lance_context_inspector.view import Opened

    with ContextStore.open(place, maintenance=None) as store:
        seen = Opened(store=store.aio.scope(**scope), scope=scope, can_write=can_write)
        server = Server(seen, listening(0), said=lambda _: None)
        thread = threading.Thread(target=lambda: asyncio.run(server.serve()))
        thread.start()
        try:
            yield server
        finally:
            server.end()
            thread.join()


@contextmanager
def browsing():
    """A browser without a window."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        # As root there is no sandbox; it shows nothing but our own pages.
        browser = driver.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


@pytest.fixture(scope="session")
def browser():
    with browsing() as one:
        yield one


@pytest.fixture(scope="session")
def used_page(tmp_path_factory):
    with served(stores.used(tmp_path_factory.mktemp("used") / "memory")) as server:
        yield server


@pytest.fixture(scope="session")
def readable(tmp_path_factory):
    """As `used_page`, with the forms of a page that may write."""
    place = stores.used(tmp_path_factory.mktemp("readable") / "memory")
    with served(place, can_write=True) as server:
        yield server


@pytest.fixture(scope="session")
def hostile_page(tmp_path_factory):
    place = stores.hostile(tmp_path_factory.mktemp("hostile") / "memory")
    with served(place, can_write=True) as server:
        yield server


@pytest.fixture
def writable(tmp_path, tmp_path_factory):
    place = shutil.copytree(stores.used(tmp_path / "memory"), tmp_path / "copy")
    with served(place, can_write=True) as server:
        yield server


@pytest.fixture
def visit(browser):
    """Opens a tab on a page and enters it; whatever goes wrong there fails the test."""
    opened = []

    def enter(server, **options):
        context = browser.new_context(reduced_motion="reduce", **options)
        page = context.new_page()
        wrong = []
        page.on("console", lambda said: wrong.append(said.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("dialog", lambda dialog: (wrong.append(dialog.message), dialog.dismiss()))
        base = server.link.partition("/enter")[0]
        page.on(
            "request",
            lambda asked: (
                None if asked.url.startswith((f"{base}/", "data:")) else wrong.append(asked.url)
            ),
        )
        page.goto(server.link)
        opened.append((context, wrong))
        page.base = base
        return page

    yield enter
    for context, wrong in opened:
        context.close()
        assert wrong == []
