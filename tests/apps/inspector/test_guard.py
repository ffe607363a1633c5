"""Who may look: nobody without the link, no other page, no other name."""

import pytest
from apps.inspector.conftest import COOKIE, HOST
from lance_context_inspector.app import FILES, PAGES
from lance_context_inspector.pages import doing

SECRETS = ("Tilda", "Ekeberg", "tilda")


def nothing_is_told(answer):
    return not any(one in answer.text for one in SECRETS) and len(answer.body) < 200


async def test_no_page_is_shown_without_the_cookie(browse, used):
    browser = await browse(used)
    browser.headers.pop("cookie")
    for path in (*PAGES, *FILES, "/sessions.json", "/static/style.css", "/nowhere"):
        answer = await browser.get(path)
        assert answer.status == 401, path
        assert nothing_is_told(answer)


async def test_the_link_works_once_and_the_next_one_is_told(browse, used):
    browser = await browse(used)
    told = []
    browser.keys.on_entered = told.append
    first = browser.keys.token
    assert (await browser.get("/enter", token=first)).status == 303
    assert told == [browser.keys.token] != [first]
    for token in (first, "", "x", first[:-1], browser.keys.form):
        assert (await browser.get("/enter", token=token)).status == 403
    assert (await browser.get("/enter", token=told[0])).status == 303


@pytest.mark.parametrize(
    ("target", "to"),
    [("/?at=3", "/?at=3"), ("//evil.example", "/"), ("/\\evil.example", "/"), ("https://x.y", "/")],
)
async def test_the_link_leads_to_pages_of_ours_alone(browse, used, target, to):
    browser = await browse(used)
    answer = await browser.get("/enter", token=browser.keys.token, to=target)
    assert (answer.status, answer.headers["location"]) == (303, to)
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith(f"{COOKIE}=")
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example:8123", "127.0.0.1", "127.0.0.1:8124", "127.0.0.1.evil.com:8123", ""),
        *("0.0.0.0:8123", "localhost", "127.0.0.1:8123.evil.com", "user@127.0.0.1:8123"),
    ],
    ids=lambda host: f"host={host or 'empty'}",
)
async def test_another_name_of_this_machine_is_refused(browse, used, host):
    browser = await browse(used)
    browser.headers["host"] = host
    for path in ("/", f"/enter?token={browser.keys.token}"):
        answer = await browser.get(path)
        assert answer.status == 400
        assert nothing_is_told(answer)
    assert (await browser.post("/do/tag", name="x")).status == 400


@pytest.mark.parametrize("site", ["cross-site", "same-site", "nonsense"])
async def test_what_another_page_asks_for_is_refused(browse, used, site):
    browser = await browse(used, can_write=True)
    browser.headers["sec-fetch-site"] = site
    for answer in (await browser.get("/sessions"), await browser.post("/do/tag", name="x")):
        assert answer.status == 403
        assert nothing_is_told(answer)


@pytest.mark.parametrize(
    "changed",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9999"},
        {"origin": f"https://{HOST}"},
        {"origin": None},
        {"cookie": None},
        {"content-type": "text/plain"},
        {"content-type": "multipart/form-data"},
    ],
    ids=lambda changed: " ".join(f"{name} {value}" for name, value in changed.items()),
)
async def test_a_form_has_to_come_from_this_page(browse, used, changed):
    browser = await browse(used, can_write=True)
    right = {
        **browser.headers,
        "origin": f"http://{HOST}",
        "content-type": "application/x-www-form-urlencoded",
    }
    body = f"form={browser.keys.form}&name=from-a-form".encode()
    headers = {name: one for name, one in {**right, **changed}.items() if one is not None}
    answer = await browser.ask("POST", "/do/tag", body=body, headers=headers)
    assert answer.status in {401, 403}
    assert "from-a-form" not in (await browser.get("/timeline")).text
    assert (await browser.ask("POST", "/do/tag", body=body, headers=right)).status == 200
    assert "from-a-form" in (await browser.get("/timeline")).text


async def test_a_form_needs_the_token_of_this_page(browse, used):
    browser = await browse(used, can_write=True)
    for wrong in ("", "x", browser.keys.form[:-1], browser.keys.token):
        assert (await browser.post("/do/tag", form=wrong, name="x")).status == 403


@pytest.mark.parametrize("path", doing.ALL)
async def test_looking_never_writes_and_read_only_pages_take_no_form(browse, used, path):
    reading, writing = await browse(used), await browse(used, can_write=True)
    assert (await reading.post(path, id="x", name="x", source="what-if")).status == 404
    assert (await reading.get(path, id="x", name="x", source="what-if")).status == 404
    assert (await writing.get(path, id="x", name="x", source="what-if")).status == 405
    for method in ("PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"):
        assert (await writing.ask(method, path)).status == 405


async def test_every_answer_says_what_the_browser_may_do_with_it(browse, used):
    browser = await browse(used)
    for path in (*PAGES, "/nowhere", "/enter", "/sessions.json", "/static/script.js"):
        headers = (await browser.get(path, id="trip", q="van")).headers
        assert headers["content-security-policy"].startswith("default-src 'none'; style-src 'self'")
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"
        assert headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in headers


async def test_nothing_of_a_page_needs_what_its_policy_forbids(browse, used):
    browser = await browse(used)
    for path in PAGES:
        text = (await browser.get(path, id="trip", q="van", user="tilda", name="the fair")).text
        assert " style=" not in text
        assert "<style" not in text
        assert text.count("<script") == text.count('<script src="/static/script.js" defer>') == 1
        assert " on" not in {one[:3] for one in text.split('"')[1::2]}


async def test_a_path_leads_to_no_other_file(browse, used):
    browser = await browse(used)
    for path in ("/static/../app.py", "/static/%2e%2e/app.py", "/static//etc/passwd", "/static/"):
        assert (await browser.get(path)).status == 404
