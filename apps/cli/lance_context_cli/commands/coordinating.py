"""What agents that work together have to do: the boards of tasks."""

from dataclasses import fields

import click

from lance_context_cli.call import Call, pass_call
from lance_context_cli.output import Line, plain

_USUAL = "default"
_TASK = ("id", "status", "priority", "worker", "waits for", "title")


@click.command
@click.argument("board", default=_USUAL)
@click.option("--ready", "is_ready", is_flag=True, help="Tasks that are ready, most urgent first.")
@click.option("--tree", "is_tree", is_flag=True, help="Show subtasks as a tree, with the progress.")
@click.option("--boards", "is_naming", is_flag=True, help="List the names of the boards.")
@pass_call
def tasks(call: Call, board: str, is_ready: bool, is_tree: bool, is_naming: bool) -> None:
    """List the tasks of a board with their workers and dependencies."""
    from lance_context_core.errors import NotFoundError

    if is_ready + is_tree + is_naming > 1:
        raise click.UsageError("give one of --ready, --tree and --boards")
    room = call.place.reading().tasks
    if is_naming:
        call.output.rows(("board",), (Line((one,), one) for one in room.boards()))
        return
    if board != _USUAL and board not in room.boards():
        raise NotFoundError(f"no board {board!r} here: lance-ctx tasks --boards")
    shown = room.board(board)
    if is_tree:
        stats = shown.stats()
        call.output.text(shown.tree())
        call.output.fields({one.name: getattr(stats, one.name) for one in fields(stats)})
        return
    found = shown.ready() if is_ready else shown.list()
    done = {one.id for one in shown.list(status="completed")}
    call.output.rows(
        _TASK,
        (
            Line(
                (
                    *(one.id, one.status.value, one.priority.name.lower(), one.assigned_to),
                    [id for id in one.depends_on if id not in done],
                    one.title,
                ),
                plain(one),
            )
            for one in found
        ),
    )


COMMANDS = (tasks,)
