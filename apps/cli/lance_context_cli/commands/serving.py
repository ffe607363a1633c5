"""What shows a store elsewhere than in the terminal; each is a distribution of its own."""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

import click


class Elsewhere(click.Command):
    """A command of another distribution: it is imported when it is called, and not before."""

    def __init__(self, name: str, package: str, short_help: str) -> None:
        """The command `name` of the module `command` of that package."""
        super().__init__(name, help=short_help)
        self.package = package

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        """The other command's: from here on all is as if it stood here."""
        if find_spec(self.package) is None:
            raise click.ClickException(
                f'{self.name} is installed by: pip install "lance-context-cli[{self.name}]"'
            )
        command: click.Command = getattr(import_module(f"{self.package}.command"), str(self.name))
        return command.make_context(info_name, args, parent=parent, **extra)


ui = Elsewhere("ui", "lance_context_inspector", "Show the store in the browser, on a local page.")
mcp = Elsewhere("mcp", "lance_context_mcp", "Serve the store to agents that speak MCP.")

COMMANDS = (ui, mcp)
