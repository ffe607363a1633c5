"""What was found by the places of its rows: who said it, when, and what was said before."""

from collections.abc import Mapping, Sequence
from datetime import UTC
from typing import NamedTuple

from lance_context_core.engine.schema import KEY
from lance_context_core.engine.table.found import Found
from lance_context_core.hot.block import LINK
from lance_context_core.search.boosts import (
    Boost,
    Neighbours,
    Period,
    Preceding,
    Recency,
    Role,
    Speaker,
    Turn,
)

_TURN = Turn._fields
"""What is read of a candidate for a boost of which is not known what it asks for."""

_ASKED: Mapping[type, Sequence[str]] = {
    Neighbours: (),
    Preceding: ("text",),
    Speaker: ("name",),
    Role: ("role",),
    Recency: ("created_at",),
    Period: ("created_at",),
}
"""And for those that are known."""

place = "{:020}".format
"""The id of a row as a text of one length: these sort in the order of writing."""


class Placed(NamedTuple):
    """Rows that were found, with their places."""

    places: list[str]
    rows: Found

    @classmethod
    def of(cls, rows: Found) -> "Placed":
        """The rows with the places that their ids are."""
        return cls([*map(place, rows.ids)], rows)


def asked_by(boosts: Sequence[Boost]) -> list[str]:
    """What of a turn the boosts may ask for."""
    asked = {name for one in boosts for name in _ASKED.get(type(one), _TURN)}
    return [name for name in _TURN if name in asked]


def turns_of(found: Sequence[Placed], boosts: Sequence[Boost]) -> dict[str, Turn]:
    """What is known of each row, by its place: of all that can be, what the boosts may ask for."""
    asked = asked_by(boosts)
    turns: dict[str, Turn] = {}
    for places, rows in found:
        nothing = [None] * len(places)
        told = [rows.column(name) if name in asked else nothing for name in _TURN]
        if "created_at" in asked:
            moments = told[_TURN.index("created_at")]
            told[_TURN.index("created_at")] = [one and one.replace(tzinfo=UTC) for one in moments]
        turns.update(zip(places, map(Turn, *told), strict=True))
    return turns


def previous_of(found: Sequence[Placed]) -> dict[str, str]:
    """The place of the turn before it, for each candidate where that is a candidate, too."""
    places: dict[str, str] = {}
    links: dict[str, str | None] = {}
    for here, rows in found:
        places.update(zip(rows.column(KEY), here, strict=True))
        links.update(zip(here, rows.column(LINK), strict=True))
    return {place: places[key] for place, key in links.items() if key in places}
