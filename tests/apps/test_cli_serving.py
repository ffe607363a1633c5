"""Commands of other distributions: what stands for them here, and that they get the place."""

import sys
from types import ModuleType, SimpleNamespace

import click
import pytest
from lance_context_cli.call import pass_call
from lance_context_cli.commands import serving


@pytest.mark.parametrize(("name", "extra"), [("ui", "ui"), ("mcp", "mcp"), ("serve", "mcp")])
def test_what_is_not_installed_is_said_in_one_line_with_the_way_out(ctx, monkeypatch, name, extra):
    monkeypatch.setattr(serving, "find_spec", lambda _: None)
    ended = ctx(name, "--port", "0")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.splitlines() == [
        f'Error: {name} is installed by: pip install "lance-context-cli[{extra}]"'
    ]


@pytest.mark.parametrize(
    ("name", "package"), [("ui", "lance_context_inspector"), ("mcp", "lance_context_mcp")]
)
def test_a_command_of_another_distribution_stands_here_as_if_it_were_ours(
    ctx, monkeypatch, name, package
):
    @click.command
    @click.option("--port", type=int)
    @pass_call
    def theirs(call, port):
        click.echo(f"{call.place.user_id} {port}")

    command = ModuleType(f"{package}.command")
    setattr(command, name, theirs)
    monkeypatch.setattr(serving, "find_spec", lambda _: SimpleNamespace())
    monkeypatch.setitem(sys.modules, package, ModuleType(package))
    monkeypatch.setitem(sys.modules, f"{package}.command", command)
    assert ctx("--user", "ada", name, "--port", "7").out == "ada 7\n"
    assert "--port" in ctx(name, "--help").out
    assert ctx(name, "--nonsense").code == 2


def test_what_is_served_is_served_over_http(ctx, monkeypatch):
    @click.command
    @click.option("--http", is_flag=True)
    @pass_call
    def theirs(call, http):
        click.echo(f"{call.place.user_id} {http}")

    command = ModuleType("lance_context_mcp.command")
    command.mcp = theirs
    monkeypatch.setattr(serving, "find_spec", lambda _: SimpleNamespace())
    monkeypatch.setitem(sys.modules, "lance_context_mcp", ModuleType("lance_context_mcp"))
    monkeypatch.setitem(sys.modules, "lance_context_mcp.command", command)
    assert ctx("--user", "ada", "serve").out == "ada True\n"
