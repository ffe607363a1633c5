"""Whatever is called in whatever order, a context holds what a plain list would."""

import json
from datetime import timedelta

import pytest
from core.conformance.doubles import ManualClock
from core.stores.records.record_api import contents
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from lance_context_core import AlreadyExistsError, Context

NAMED = st.sampled_from(["a", "A", "it's", "ä", "a\u0308", "$x"])
SAID = st.sampled_from(["tea", "Tea", "", "it's -- tea", "🫖"])
ROLES = st.sampled_from(["user", "tool", "it's"])


class ContextMachine(RuleBasedStateMachine):
    """A context against a list of what should be in it, in the order of writing."""

    def __init__(self):
        super().__init__()
        self.clock = ManualClock()
        self.ctx = Context.create("memory://", clock=self.clock)
        self.model = []

    def teardown(self):
        self.ctx.close()

    def alive(self):
        now = self.clock.now()
        return [one for one in self.model if one["expires_at"] is None or one["expires_at"] > now]

    def find(self, name):
        return next((one for one in self.alive() if one["external_id"] == name), None)

    def bury(self, *names):
        """An expired record makes way for one of the same name."""
        alive = self.alive()
        self.model = [one for one in self.model if one in alive or one["external_id"] not in names]

    def put(self, role, content, name, n=None):
        self.model.append(
            {"role": role, "content": content, "external_id": name, "n": n, "expires_at": None}
        )

    @rule(role=ROLES, content=SAID, name=NAMED)
    def add(self, role, content, name):
        self.bury(name)
        old = self.find(name)
        if old is not None and (old["role"], old["content"]) != (role, content):
            with pytest.raises(AlreadyExistsError):
                self.ctx.add(role, content, external_id=name)
            return
        self.ctx.add(role, content, external_id=name)
        if old is None:
            self.put(role, content, name)

    @rule(names=st.lists(NAMED, unique=True, max_size=4), content=SAID, anonymous=st.integers(0, 2))
    def upsert_many(self, names, content, anonymous):
        self.bury(*names)
        made = [{"role": "user", "content": content, "external_id": name} for name in names]
        inserted = [one["inserted"] for one in self.ctx.upsert_many(made)]
        assert inserted == [self.find(name) is None for name in names]
        for name in names:
            if (old := self.find(name)) is not None:
                old.update(role="user", content=content, n=None, expires_at=None)
            else:
                self.put("user", content, name)
        self.ctx.add_many({"role": "tool", "content": content} for _ in range(anonymous))
        for _ in range(anonymous):
            self.put("tool", content, None)

    @rule(name=NAMED, n=st.integers(0, 3))
    def update(self, name, n):
        old = self.find(name)
        assert self.ctx.update(external_id=name, metadata={"n": n})["updated"] is (old is not None)
        if old is not None:
            old["n"] = n

    @rule(name=NAMED)
    def expire_soon(self, name):
        moment = self.clock.now() + timedelta(seconds=1)
        self.ctx.update(external_id=name, expires_at=moment)
        if (old := self.find(name)) is not None:
            old["expires_at"] = moment

    @rule(name=NAMED)
    def delete(self, name):
        there = [one for one in self.model if one["external_id"] == name]
        assert self.ctx.delete(external_id=name) is bool(there)
        self.model = [one for one in self.model if one not in there]

    @rule()
    def wait(self):
        self.clock.advance(seconds=1)

    @rule()
    def compact(self):
        self.ctx.compact()

    @rule(role=ROLES, limit=st.integers(0, 4), offset=st.integers(0, 4), newest_first=st.booleans())
    def part(self, role, limit, offset, newest_first):
        matching = [one["content"] for one in self.alive() if one["role"] == role]
        matching = matching[::-1] if newest_first else matching
        listed = self.ctx.list(limit, offset, {"role": role}, newest_first=newest_first)
        assert contents(listed) == matching[offset : offset + limit]

    @invariant()
    def it_holds_what_it_should(self):
        shown = [
            (one["role"], one["content"], one["external_id"], one["metadata"].get("n"))
            for one in self.ctx.list()
        ]
        expected = [
            (one["role"], one["content"], one["external_id"], one["n"]) for one in self.alive()
        ]
        assert shown == expected
        assert self.ctx.entries() == len(expected)


def test_any_sequence_of_calls_leaves_what_a_list_would_hold():
    few = settings(max_examples=settings.default.max_examples // 7, stateful_step_count=15)
    run_state_machine_as_test(ContextMachine, settings=few)


TEXT = st.text(st.characters(exclude_categories=["Cs"]))
INTEGER = st.integers(-(2**63), 2**63 - 1)
FLOAT = st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | INTEGER | FLOAT | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
CONTENT = TEXT | st.binary() | st.lists(JSON)


@settings(max_examples=settings.default.max_examples // 4)
@given(
    made=st.lists(CONTENT, min_size=1, max_size=5),
    metadata=st.dictionaries(TEXT, JSON, max_size=3),
)
def test_any_content_and_metadata_come_back_as_they_were_given(made, metadata):
    with Context.create("memory://") as ctx:
        ctx.add_many({"role": "user", "content": one, "metadata": metadata} for one in made)
        records = ctx.list()
    for record, content in zip(records, made, strict=True):
        assert record["metadata"] == metadata
        is_json = isinstance(content, list)
        assert (json.loads(record["content"]) if is_json else record["content"]) == content
