"""`lance-ctx`: its options, its commands, and how it ends."""

import atexit
import os
import sys
import warnings
from contextlib import suppress
from typing import Any, NoReturn

import click
from click.core import ParameterSource

from lance_context_cli import __version__, exits
from lance_context_cli.call import Call
from lance_context_cli.commands import (
    asking,
    auditing,
    checking,
    coordinating,
    following,
    hooks,
    knowing,
    looking,
    moving,
    naming,
    removing,
    replaying,
    reviewing,
    serving,
    telling,
    upkeep,
    versions,
    working,
)
from lance_context_cli.named import place_of
from lance_context_cli.output import Format, Output
from lance_context_cli.pager import paged, pager
from lance_context_cli.place import Place

_LISTS = (
    "sessions",
    "ls",
    "history",
    "search",
    "ask",
    "sql",
    "facts",
    "jobs",
    "tasks",
    "review",
    "log",
    "diff",
)
"""The commands that answer with a list, and change nothing."""
_PAGED = frozenset(
    {*_LISTS, "show", "status", "why", "explain", "context", "audit", "branch", "tag", "doctor"}
)
"""The commands whose answer goes through the pager on a terminal."""


_IS_PAGED = f"{__name__}.is_paged"


class _Commands(click.Group):
    """The commands; a person who leaves the pager early has read enough, which is no error."""

    def invoke(self, ctx: click.Context) -> Any:
        """As any group; see the class."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            if _IS_PAGED in ctx.meta:
                return exits.OK
            raise


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "-C",
    "--store",
    "uri",
    metavar="PLACE",
    envvar="LANCE_CONTEXT_STORE",
    help="The store: a directory, or a URI such as s3://bucket/memory.",
)
@click.option("-s", "--named", metavar="NAME", help="The name of a store: see lance-ctx store.")
@click.option(
    "--at", metavar="REF", help="The past version to read: a number, a tag, or a moment (ISO 8601)."
)
@click.option("--branch", metavar="NAME", help="The branch; default: main.")
@click.option("--tenant", metavar="ID", help="Only data of this tenant.")
@click.option("--user", "user_id", metavar="ID", help="Only data of this user.")
@click.option("--agent", "agent_id", metavar="ID", help="Only data of this agent.")
@click.option(
    "--embedder",
    metavar="NAME",
    envvar="LANCE_CONTEXT_EMBEDDER",
    help="The embedder of the store, such as local, for search by meaning.",
)
@click.option(
    "--read-only",
    is_flag=True,
    help="Open the store read-only: nothing on the disk changes.",
)
@click.option("--json", "format", flag_value="json", help="Print one document of JSON.")
@click.option(
    "--jsonl", "format", flag_value="jsonl", help="Print one line of JSON for each result."
)
@click.option("--csv", "format", flag_value="csv", help="Print lists as CSV, with a heading.")
@click.option(
    "--arrow",
    "arrow",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Write the resulting list to FILE, as Arrow.",
)
@click.option(
    "--fields", metavar="LIST", help="Print these columns of a list, separated by commas."
)
@click.option(
    "--width", type=click.IntRange(min=20), metavar="N", help="Print lists as tables of N columns."
)
@click.option("--whole", "is_whole", is_flag=True, help="Print long texts in lists completely.")
@click.option("--no-pager", "is_unpaged", is_flag=True, help="Print without a pager.")
@click.option("--local", "is_local", is_flag=True, help="Print times in this machine's time zone.")
@click.version_option(__version__, prog_name="lance-ctx")
@click.pass_context
def cli(
    context: click.Context,
    /,
    format: Format | None,
    arrow: str | None,
    is_local: bool,
    fields: str | None,
    width: int | None,
    is_whole: bool,
    is_unpaged: bool,
    read_only: bool,
    named: str | None,
    **place: str | None,
) -> None:
    """Inspect, search, version and erase an agent's memory.

    Read commands change nothing. Exit codes: 0 success, 1 the answer is no, 2 a wrong request, 3 not
    found, 4 a conflict with another writer, 5 refused.
    """
    if arrow is not None:
        if format is not None:
            raise click.UsageError(f"--arrow and --{format} are two forms of one answer: give one")
        if context.invoked_subcommand not in _LISTS:
            told = f"--arrow writes what {', '.join(_LISTS)} answer: leave it out"
            raise click.UsageError(told)
        format = "arrow"
    names = tuple(filter(None, (one.strip() for one in (fields or "").split(","))))
    output = Output(
        format or "people", is_local, arrow, names, width, is_whole, sys.stdout.isatty()
    )
    if named is not None:
        if context.get_parameter_source("uri") is ParameterSource.COMMANDLINE:
            raise click.UsageError("-C and -s both name the store: give one")
        place["uri"] = place_of(named)
    context.obj = Call(Place(read_only=read_only, **place), output)
    if context.invoked_subcommand in _PAGED and not is_unpaged and (command := pager()) is not None:
        context.color = not os.environ.get("NO_COLOR")
        context.meta[_IS_PAGED] = True
        context.with_resource(paged(command))


for room in (
    looking,
    following,
    telling,
    asking,
    knowing,
    coordinating,
    versions,
    removing,
    upkeep,
    moving,
    hooks,
    checking,
    replaying,
    auditing,
    reviewing,
    naming,
    serving,
    working,
):
    for command in room.COMMANDS:
        cli.add_command(command)


def main() -> NoReturn:
    """Run the command that the arguments name, and end the process.

    Nothing that is imported is taken apart: that costs time, in which libraries complain of each
    other's threads.
    """
    _have_streams()
    warnings.showwarning = _told
    code = _ended()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    atexit._run_exitfuncs()  # noqa: SLF001 - what was registered, such as the end of the store's loop
    os._exit(code)


def _have_streams() -> None:
    """Have all three, also where the caller has closed some: else a file of the store would be one."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # What is opened has the lowest number that is free.
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115


def _ended() -> int:
    try:
        ended = cli.main(standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        _helped(error).show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        Output().note("lance-ctx: interrupted")
        return exits.INTERRUPTED
    except BrokenPipeError:  # Who reads has read enough: click, too, ends with 1 then.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return exits.NO
    except Exception as error:
        code = exits.code_of(error)
        if code is None:
            raise
        is_of_file = "lance_context_core" not in type(error).__module__
        way_out = ": name a place that is there, and may be written" if is_of_file else ""
        Output().note(f"lance-ctx: {error}{way_out}")
        return code
    return ended if isinstance(ended, int) else exits.OK


def _helped(error: click.ClickException) -> click.ClickException:
    """The error; for an option that is none of the command's, but of all, one that says so."""
    if isinstance(error, click.NoSuchOption):
        name = error.option_name
        if any(name in one.opts for one in cli.params):
            told = f"{name} is a global option, and comes before the command: lance-ctx {name} …"
            return click.UsageError(told, error.ctx)
    return error


def _told(message: Warning | str, *_: object, **__: object) -> None:
    Output().note(f"lance-ctx: {message}")
