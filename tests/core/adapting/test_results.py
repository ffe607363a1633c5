"""`plain`: what calls return, as JSON."""

import json
from datetime import UTC, date, datetime

from lance_context_core import Item
from lance_context_core.adapting import plain
from lance_context_core.tiers import Tier

MOMENT = datetime(2026, 5, 4, 3, 2, 1, tzinfo=UTC)


def test_what_json_cannot_hold_is_told_in_what_it_can():
    value = {"at": MOMENT, "on": date(2026, 5, 4), "bytes": b"\0\1", "tier": Tier.WARM}
    assert json.loads(json.dumps(plain([value]))) == [
        {"at": "2026-05-04T03:02:01+00:00", "on": "2026-05-04", "bytes": "AAE=", "tier": "warm"}
    ]


def test_a_dataclass_is_an_object_of_its_fields_however_deep_it_lies():
    item = Item(namespace=("user", "1"), key="drink", value={"tea": True})
    told = plain({("user", "1"): (item,)})["user/1"][0]
    assert (told["namespace"], told["key"], told["value"]) == (
        ["user", "1"],
        "drink",
        {"tea": True},
    )


def test_a_class_and_what_nobody_knows_stay_what_they_are():
    other = object()
    assert plain([Item, other]) == [Item, other]
