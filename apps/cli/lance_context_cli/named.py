"""Stores by names: `-s NAME` instead of a place, as git has remotes and AWS profiles."""

import json
import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

import click

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_TABLE = "stores"


def config_file() -> Path:
    """The file that holds the names; on Linux `~/.config/lance-context/stores.toml`."""
    return Path(click.get_app_dir("lance-context")) / "stores.toml"


def stores() -> dict[str, str]:
    """The place of each name, in the order of the file; empty without a file.

    Raises UsageError if the file is no TOML, or has something else in it than names and places.
    """
    file = config_file()
    try:
        found = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise click.UsageError(f"{file} is not TOML: {error}. Fix it, or remove it") from error
    held = found.get(_TABLE, {})
    if not isinstance(held, dict) or not all(isinstance(one, str) for one in held.values()):
        raise click.UsageError(f'{file}: [{_TABLE}] holds lines such as work = "/home/ada/memory"')
    return held


def place_of(name: str) -> str:
    """The place of the store with that name. Raises UsageError if no store has it."""
    known = stores()
    if name not in known:
        there = ", ".join(known) or "none yet"
        raise click.UsageError(
            f"-s {name}: no store has that name ({there}). Name one: lance-ctx store add {name} PLACE"
        )
    return known[name]


def check_name(name: str) -> str:
    """Returns the name. Raises UsageError if it is invalid."""
    if not _NAME.fullmatch(name):
        raise click.UsageError(
            f"{name!r} cannot be a name: use letters, digits and . _ -, at most 100"
        )
    return name


def check_place(place: str) -> str:
    """Returns the place, a directory as an absolute path. Raises UsageError if it is invalid."""
    if not place.strip() or not place.isprintable():
        raise click.UsageError(f"{place!r} is not a place: give a directory or a URI")
    return place if "://" in place else str(Path(place).expanduser().absolute())


def write(held: Mapping[str, str]) -> None:
    """Replace the names by these, at once: a reader sees the old ones or the new ones."""
    file = config_file()
    file.parent.mkdir(parents=True, exist_ok=True)
    # A text of JSON without control characters is one of TOML.
    lines = [f"{json.dumps(name)} = {json.dumps(place, ensure_ascii=False)}\n"
             for name, place in held.items()]  # fmt: skip
    new = file.with_name(f"{file.name}.{os.getpid()}")
    new.write_text(f"[{_TABLE}]\n{''.join(lines)}", encoding="utf-8")
    new.replace(file)
