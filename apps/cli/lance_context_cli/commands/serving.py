"""What shows a store elsewhere than in the terminal; each is a distribution of its own."""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

import click


class Elsewhere(click.Command):
    """A command of another distribution: it is imported when it is called, and not before."""

    def __init__(
        self,
        name: str,
        package: str,
        short_help: str,
        *,
        command: str | None = None,
        always: tuple[str, ...] = (),
    ) -> None:
        """The `command`, or else `name`, of the module `command` of that package.

        `always` are options that it is called with whatever else is given.
        """
        super().__init__(name, help=short_help)
        self.package = package
        self.command = command or name
        self.always = always

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
                f'{self.name} is installed by: pip install "lance-context-cli[{self.command}]"'
            )
        command: click.Command = getattr(import_module(f"{self.package}.command"), self.command)
        return command.make_context(info_name, [*self.always, *args], parent=parent, **extra)


ui = Elsewhere("ui", "lance_context_inspector", "Show the store in the browser, on a local page.")
mcp = Elsewhere("mcp", "lance_context_mcp", "Serve the store to agents that speak MCP.")
serve = Elsewhere(
    "serve",
    "lance_context_mcp",
    "Serve the store over HTTP, to agents that speak MCP and have the token: mcp --http.",
    command="mcp",
    always=("--http",),
)

SHELLS = ("bash", "zsh", "fish")


@click.command
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print what has SHELL complete commands and options: eval "$(lance-ctx completion bash)"."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    root = context.find_root()
    click.echo(kind(root.command, {}, "lance-ctx", "_LANCE_CTX_COMPLETE").source())


COMMANDS = (ui, mcp, serve, completion)
