"""What expires by the clock alone: what held before it holds again, in every read, without upkeep."""

from dataclasses import dataclass
from datetime import timedelta

import pytest
from core.knowledge.living import BERGEN, OSLO

from lance_context_core import Message
from lance_context_core.window import FactsSection, HistorySection

SOON = timedelta(hours=1)


@dataclass
class Person:
    residence: str = ""


def searched(store, search_type):
    found = store.knowledge.search("live in", user_id="ada", search_type=search_type)
    return [one.record.text for one in found]


def window(store):
    shown = store.assemble(
        session_id="new",
        budget=4_000,
        query="live in Bergen or Oslo",
        messages=[Message.user("Where is my home?")],
        sections=[HistorySection(), FactsSection()],
        user_id="ada",
    )
    return " ".join(one.text for one in shown.messages)


READS = {
    "search": lambda store: " ".join(searched(store, "chain")),
    "facts": lambda store: " ".join(searched(store, "facts")),
    "list": lambda store: " ".join(one.text for one in store.knowledge.list(user_id="ada")),
    "profile": lambda store: store.knowledge.profile(Person, user_id="ada").values["residence"],
    "window": window,
}


def moved(store, clock):
    """Ada lives in Oslo, and for an hour in Bergen."""
    store.knowledge.add([OSLO], session_id="s1", user_id="ada")
    until = clock.now() + SOON
    store.knowledge.add([BERGEN], session_id="s2", user_id="ada", expires_at=until)


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_the_former_value_is_read_again_from_the_moment_on_at_which_the_new_one_expires(
    store, clock, read
):
    moved(store, clock)
    assert "Bergen" in read(store)
    assert "Oslo" not in read(store)
    clock.advance(hours=1)
    assert "Oslo" in read(store)
    assert "Bergen" not in read(store)


def test_a_read_of_what_does_not_expire_writes_nothing(store, clock):
    moved(store, clock)
    before = store.version()
    store.knowledge.list(user_id="ada")
    assert store.version() == before
    clock.advance(hours=1)
    store.knowledge.list(user_id="ada")
    after = store.version()
    assert after > before
    clock.advance(hours=1)
    store.knowledge.list(user_id="ada")
    assert store.version() == after


def test_what_was_contradicted_stands_alone_once_the_other_one_has_expired(store, clock):
    until = clock.now() + SOON
    for session, place, ends in (("s1", "Oslo", {"expires_at": until}), ("s2", "Rome", {})):
        said = {"role": "user", "content": f"I live in {place}.", "created_at": OSLO["created_at"]}
        store.knowledge.add([said], session_id=session, user_id="ada", **ends)
    both = store.knowledge.list(user_id="ada")
    assert [one.lifecycle_status for one in both] == ["active", "contradicted"]
    clock.advance(hours=1)
    (fact,) = store.knowledge.list(user_id="ada")
    assert (fact.text, fact.lifecycle_status) == ("I live in Rome.", "active")
