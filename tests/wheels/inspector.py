"""What the page does where nothing is installed but its wheel."""

import http.client
import re
import subprocess
import sys
from importlib.metadata import requires, version
from pathlib import Path
from urllib.parse import urlsplit

import lance_context_inspector

from lance_context_core import ContextStore, Message

NAME = "lance-context-inspector"

package = Path(lance_context_inspector.__file__).parent
assert package.is_relative_to(sys.prefix), package
assert (package / "py.typed").is_file()
assert lance_context_inspector.__version__ == version(NAME) == version("lance-context-core")

named = {re.match(r"[\w-]+", one)[0] for one in requires(NAME)}
assert named == {"lance-context-core", "click", "jinja2", "starlette", "uvicorn"}, named

with ContextStore.open("memory") as store:
    store.history.append("helper", Message.user("I moved to Oslo."), session_id="1")

command = [sys.executable, "-m", NAME.replace("-", "_"), "memory", "--no-open"]
with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
    try:
        link = urlsplit(program.stdout.readline().strip())
        asked = http.client.HTTPConnection(link.hostname, link.port, timeout=60)
        asked.request("GET", f"{link.path}?{link.query}")
        entered = asked.getresponse()
        entered.read()
        cookie = entered.headers["set-cookie"].partition(";")[0]
        for path, words in (
            ("/search?q=Oslo", b"I moved to Oslo."),
            ("/static/style.css", b"--accent"),
        ):
            asked.request("GET", path, headers={"cookie": cookie})
            answer = asked.getresponse()
            assert answer.status == 200, answer.status
            assert words in answer.read(), path
    finally:
        program.terminate()
