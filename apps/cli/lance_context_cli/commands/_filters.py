"""Filters on the command line: those of the store, in JSON."""

import json
from typing import Any

import click

filter_option = click.option(
    "--filter",
    "filter_json",
    metavar="JSON",
    help="""Select matching records, such as '{"kind": "memory"}'.""",
)


def parsed(filter_json: str | None) -> Any:
    """The filter, or None if there is none. Raises UsageError for a value that is not JSON."""
    try:
        return None if filter_json is None else json.loads(filter_json)
    except ValueError as error:
        raise click.UsageError(f"--filter {filter_json!r} is not JSON: {error}") from error
