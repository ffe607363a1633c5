"""What every command is handed."""

from dataclasses import dataclass

import click

from lance_context_cli.output import Output
from lance_context_cli.place import Place


@dataclass(frozen=True, slots=True)
class Call:
    """The memory that a command is about, and where its answer goes."""

    place: Place
    output: Output


pass_call = click.make_pass_decorator(Call)
