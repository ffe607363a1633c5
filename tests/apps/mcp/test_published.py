"""What registries and containers are given agrees with the distribution and with its options."""

import json
import re
import tomllib
from pathlib import Path

from lance_context_mcp import http
from lance_context_mcp.command import _PLACE, mcp

HOME = Path(__file__).parents[3] / "apps" / "mcp"
PROJECT = tomllib.loads((HOME / "pyproject.toml").read_text(encoding="utf-8"))["project"]
OPTIONS = {name: one for one in (*_PLACE, *mcp.params) for name in one.opts}


def test_the_entry_of_the_registry_is_of_this_version_and_names_options_that_exist():
    entry = json.loads((HOME / "server.json").read_text(encoding="utf-8"))
    (package,) = entry["packages"]
    assert (package["identifier"], package["version"]) == (PROJECT["name"], PROJECT["version"])
    assert entry["version"] == PROJECT["version"]
    assert len(entry["description"]) <= 100
    assert {one["name"] for one in package["packageArguments"]} <= OPTIONS.keys()
    variables = {one.envvar for one in OPTIONS.values()}
    assert {one["name"] for one in package["environmentVariables"]} <= variables
    readme = (HOME / "README.md").read_text(encoding="utf-8")
    assert f"mcp-name: {entry['name']} " in readme


def test_the_image_is_of_this_version_and_starts_the_server_on_its_port():
    told = (HOME / "Dockerfile").read_text(encoding="utf-8")
    assert f"ARG VERSION={PROJECT['version']}" in told
    entry = json.loads(re.search("^ENTRYPOINT (.*)$", told, re.MULTILINE)[1])
    assert entry[0] in PROJECT["scripts"]
    assert {one for one in entry if one.startswith("--")} <= OPTIONS.keys()
    port = OPTIONS["--port"].default
    assert f"EXPOSE {port}\n" in told
    assert f"http://127.0.0.1:{port}{http.HEALTH}" in told
    assert f"ENV {OPTIONS['--uri'].envvar}=" in told
