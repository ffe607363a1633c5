"""The page as an ASGI application: which address shows what, and what becomes of errors."""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from lance_context_core.adapting import plain
from lance_context_core.errors import ContextStoreError
from lance_context_inspector.guard import Guard, Keys
from lance_context_inspector.page import Page
from lance_context_inspector.pages import (
    asking,
    doing,
    files,
    graph,
    health,
    home,
    jobs,
    knowledge,
    people,
    records,
    runs,
    search,
    sessions,
    tasks,
    versions,
    windows,
)
from lance_context_inspector.showing import rendered
from lance_context_inspector.statuses import status_of
from lance_context_inspector.view import Opened, View

Show: TypeAlias = Callable[[View], Awaitable[Page | Response]]

PAGES: Mapping[str, Show] = {
    "/": home.home,
    "/search": search.search,
    "/sessions": sessions.sessions,
    "/session": sessions.session,
    "/facts": knowledge.facts,
    "/record": records.record,
    "/people": people.people,
    "/person": people.person,
    "/erasure": people.erasure,
    "/graph": graph.graph,
    "/entity": graph.entity,
    "/runs": runs.runs,
    "/timeline": versions.timeline,
    "/diff": versions.difference,
    "/merge": versions.merging,
    "/jobs": jobs.jobs,
    "/job": jobs.job,
    "/windows": windows.windows,
    "/window": windows.window,
    "/tasks": tasks.tasks,
    "/board": tasks.board,
    "/health": health.health,
    "/sql": asking.sql,
}
"""What looks, by its path; each has a twin in JSON at `PATH.json`."""

ASKED: Mapping[str, Show] = {
    "/beside.json": versions.beside,
}
"""What the script of the pages asks for, and no person."""

_LONGEST_FORM = 1_000_000


@dataclass(frozen=True, slots=True)
class Inspector:
    """Answers requests about one store."""

    opened: Opened
    keys: Keys

    def routes(self) -> list[BaseRoute]:
        """Which address is answered by what."""
        found: list[BaseRoute] = []
        for path, show in PAGES.items():
            twin = "/index.json" if path == "/" else f"{path}.json"
            found += [
                Route(path, self._html(show), methods=["GET"]),
                Route(twin, self._json(show), methods=["GET"]),
            ]
        found += [Route(path, self._json(show), methods=["GET"]) for path, show in ASKED.items()]
        found += [Route(path, self._html(show), methods=["GET"]) for path, show in FILES.items()]
        if self.opened.can_write:
            found += [
                Route(path, self._form(do), methods=["POST"]) for path, do in doing.ALL.items()
            ]
        static = StaticFiles(directory=Path(__file__).parent / "static")
        return [*found, Mount("/static", static)]

    def _html(self, show: Show) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            try:
                view = await self._view(request, request.url.path)
                found = await show(view)
            except (ContextStoreError, ValueError, OverflowError) as error:
                return self._failed(error, has_moment="at" in request.query_params)
            if isinstance(found, Response):
                return found
            return self._shown(view, found, found.status)

        return answer

    def _json(self, show: Show) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            try:
                path = request.url.path.removesuffix(".json")
                found = await show(await self._view(request, "/" if path == "/index" else path))
            except (ContextStoreError, ValueError, OverflowError) as error:
                return _in_json({"error": str(error)}, status_of(error))
            if isinstance(found, Response):
                return found
            return _in_json(plain(found.data), found.status)

        return answer

    def _form(self, do: Show) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            form = await _form_of(request)
            if not self.keys.is_form(form.pop("form", "")):
                return Response("this form is of an earlier start of the page\n", 403)
            try:
                view = await View.of(self.opened, request.url.path, form)
                done = await do(view)
            except (ContextStoreError, ValueError, OverflowError) as error:
                return self._failed(error)
            return done if isinstance(done, Response) else self._shown(view, done)

        return answer

    async def _view(self, request: Request, path: str) -> View:
        return await View.of(self.opened, path, dict(request.query_params))

    def _shown(self, view: View, page: Page, status: int = 200) -> Response:
        return HTMLResponse(rendered(page, view, self.keys.form), status)

    def _failed(self, error: Exception, *, has_moment: bool = False) -> Response:
        status = status_of(error)
        here = View(opened=self.opened, store=self.opened.store, params={}, branch=None, at=None)
        words = str(error) or type(error).__name__
        title = "Not found" if status == 404 else "That cannot be shown"
        data = {"words": words, "has_moment": has_moment and here.is_whole}
        return self._shown(here, Page("error.html", title, data), status)


FILES: Mapping[str, Show] = {"/blob": files.blob, "/text": files.text}
"""What is no page: bytes and long texts, as they are."""


def application(opened: Opened, *, keys: Keys, hosts: list[str], cookie: str) -> Guard:
    """The guarded page of a store."""
    inspector = Inspector(opened, keys)
    return Guard(Starlette(routes=inspector.routes()), keys, hosts, cookie)


async def _form_of(request: Request) -> dict[str, str]:
    """The fields of a form; none of what is too large for one, or in another form."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip()
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > _LONGEST_FORM:
            return {}
    if kind != "application/x-www-form-urlencoded":
        return {}
    return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))


def _in_json(value: Any, status: int) -> Response:
    text = json.dumps(value, ensure_ascii=True, default=str, indent=2)
    return Response(text, status, media_type="application/json")
