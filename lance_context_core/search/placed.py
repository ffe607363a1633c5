"""What was found by the places of its rows: who said it, when, and what was said before."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from lance_context_core.engine.schema import KEY
from lance_context_core.engine.table.found import Found
from lance_context_core.hot.block import LINK
from lance_context_core.search.boosts import Boost, Neighbours, Preceding, Role, Speaker, Turn

TURN = ("name", "role", "created_at", "text")
"""What is read of a candidate for the boosts."""

_TIMELESS = (Neighbours, Preceding, Role, Speaker)
"""The boosts that do not ask when a turn was said."""

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


def turns_of(found: Sequence[Placed], boosts: Sequence[Boost]) -> dict[str, Turn]:
    """What is known of each row, by its place; the moment only if one of the boosts may ask for it."""
    is_timed = not all(isinstance(one, _TIMELESS) for one in boosts)
    turns: dict[str, Turn] = {}
    for places, rows in found:
        name, role, moment, text = TURN
        moments: list[datetime | None] = [None] * len(places)
        if is_timed:
            moments = [one and one.replace(tzinfo=UTC) for one in rows.column(moment)]
        told = zip(rows.column(name), rows.column(role), moments, rows.column(text), strict=True)
        turns.update(zip(places, map(Turn._make, told), strict=True))
    return turns


def previous_of(found: Sequence[Placed]) -> dict[str, str]:
    """The place of the turn before it, for each candidate where that is a candidate, too."""
    places: dict[str, str] = {}
    links: dict[str, str | None] = {}
    for here, rows in found:
        places.update(zip(rows.column(KEY), here, strict=True))
        links.update(zip(here, rows.column(LINK), strict=True))
    return {place: places[key] for place, key in links.items() if key in places}
