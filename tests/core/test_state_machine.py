"""The whole store against plain dicts: anything that can be done, in any order.

Ids, sessions and names come from small pools, so that they collide.
"""

import shutil
import tempfile
from collections import Counter
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import pytest
from core.conformance.doubles import ManualClock
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from lance_context_core import AlreadyExistsError, ContextStore, Message
from lance_context_core.settings import JournalPolicy

IDS = [f"m{n}" for n in range(8)]
SESSIONS = ["s", "t"]
TAGS = ["v1", "v2"]
BRANCHES = ["left", "right"]
MAIN = "main"
HOUR = timedelta(hours=1)

ids = st.lists(st.sampled_from(IDS), min_size=1, max_size=4, unique=True)
sessions = st.sampled_from(SESSIONS)
texts = st.sampled_from(["tea", "coffee", "green tea", "no milk"])
journals = st.sampled_from([JournalPolicy(), JournalPolicy(rows=3), None])
"""One that is folded when it is asked, one that is by itself, and none; in a directory."""
policies = st.sampled_from(["ours", "theirs", "newest"])


@dataclass(frozen=True)
class Row:
    """What the store must know about one message; rows that are equal were written by one write."""

    session: str
    text: str
    number: int
    expires_at: datetime | None
    created_at: datetime
    updated_at: datetime


Rows = dict[str, Row]
"""By id, in the order in which they were added."""


@dataclass
class Branch:
    """A branch: its rows, and for all but main, what it and its parent last had in common."""

    rows: Rows = field(default_factory=dict)
    parent: str = MAIN
    base: Rows = field(default_factory=dict)


class WholeStore(RuleBasedStateMachine):
    """Each rule does one thing to the store and to the dicts; all that shows is then compared."""

    def __init__(self):
        super().__init__()
        self.clock = ManualClock()
        self.branches = {MAIN: Branch()}
        self.tags: dict[str, Rows] = {}
        self.tag_branches: dict[str, str] = {}
        self.known_versions: dict[int, Rows] = {}

    @initialize(local=st.booleans(), journal=journals)
    def open(self, local, journal):
        self.folder = tempfile.mkdtemp() if local else None
        self.store = self._open(journal)

    def _open(self, journal):
        return ContextStore.open(self.folder or "memory://", clock=self.clock, journal=journal)

    def teardown(self):
        if hasattr(self, "store"):
            self._compare()
            self.store.close()
            if self.folder:
                shutil.rmtree(self.folder)

    # Writing

    @rule(branch=st.data(), ids=ids, session=sessions, text=texts, expires=st.booleans())
    def append(self, branch, ids, session, text, expires):
        """What the session has is left alone, hidden ids are written anew, taken ones refused."""
        self._append(self._drawn(branch), ids, session, text, expires=expires)

    def _append(self, name, ids, session, text, *, expires):
        moment = self.clock.advance(minutes=1)
        rows = self.branches[name].rows
        free = [one for one in ids if home(one) == session]
        expires_at = moment + HOUR if expires else None
        messages = [Message.user(text, id=one, metadata={"number": 0}) for one in free]
        if expires:
            records = [
                {"id": one, "role": "user", "content": text, "session_id": session, "bot_id": "a",
                 "metadata": {"number": 0}, "expires_at": expires_at}
                for one in free
            ]  # fmt: skip
            self._on(name).context().upsert_many(records, key="id")
            for one in free:
                self._upsert(rows, one, Row(session, text, 0, expires_at, moment, moment))
        elif any(self._is_shown(rows.get(one)) and rows[one].text != text for one in free):
            with pytest.raises(AlreadyExistsError):
                self._on(name).history.append_many("a", messages, session_id=session)
        else:
            self._on(name).history.append_many("a", messages, session_id=session)
            for one in free:
                if not self._is_shown(rows.get(one)):
                    rows.pop(one, None)
                    rows[one] = Row(session, text, 0, None, moment, moment)
        self._compare_branch(self._on(name), self.branches[name].rows)

    @rule(branch=st.data(), ids=ids, text=texts)
    def upsert(self, branch, ids, text):
        """One commit, in which some are new and others are replaced where they stand."""
        name = self._drawn(branch)
        moment = self.clock.advance(minutes=1)
        rows = self.branches[name].rows
        written = {one: Row(home(one), text, 1, None, moment, moment) for one in ids}
        self._on(name).context().upsert_many(
            [
                {"id": one, "role": "user", "content": row.text, "session_id": row.session,
                 "bot_id": "a", "metadata": {"number": row.number}}
                for one, row in written.items()
            ],
            key="id",
        )  # fmt: skip
        for one, row in written.items():
            self._upsert(rows, one, row)
        self._compare_branch(self._on(name), self.branches[name].rows)

    @rule(branch=st.data(), id=st.sampled_from(IDS), number=st.integers(2, 9))
    def update(self, branch, id, number):
        name = self._drawn(branch)
        self._change(name, id, number)
        self._compare_branch(self._on(name), self.branches[name].rows)

    @rule(branch=st.data(), id=st.sampled_from(IDS))
    def delete(self, branch, id):
        name = self._drawn(branch)
        existed = self._on(name).context().delete(id=id)
        assert existed == (self.branches[name].rows.pop(id, None) is not None)
        self._compare_branch(self._on(name), self.branches[name].rows)

    @rule()
    def expire(self):
        self.clock.advance(hours=2)
        self._compare()

    @rule(branch=st.data(), ids=ids, session=sessions, more=ids)
    def append_what_expired(self, branch, ids, session, more):
        """They come after all others, in the order of the call, and not where they once stood."""
        name = self._drawn(branch)
        self._append(name, ids, session, "tea", expires=True)
        self.expire()
        self._append(name, list(dict.fromkeys([*more, *ids])), session, "no milk", expires=False)

    # Versions

    @rule(name=st.sampled_from(TAGS), branch=st.data())
    def tag(self, name, branch):
        branch = self._drawn(branch)
        if name in self.tags:
            assert self.store.delete_tag(name)
        self._on(branch).tag(name)
        self.tags[name], self.tag_branches[name] = dict(self.branches[branch].rows), branch
        self._compare()

    @precondition(lambda self: self.tags)
    @rule(choice=st.data())
    def restore(self, choice):
        name = choice.draw(st.sampled_from(sorted(self.tags)))
        self.store.restore(name)
        self.branches[MAIN].rows = dict(self.tags[name])
        self._compare()

    @rule()
    def remember_a_version(self):
        self.known_versions[self.store.version()] = dict(self.branches[MAIN].rows)

    @precondition(lambda self: self.known_versions)
    @rule(choice=st.data())
    def look_back(self, choice):
        number = choice.draw(st.sampled_from(sorted(self.known_versions)))
        if number:
            self._compare_branch(self.store.checkout(number), self.known_versions[number])

    # Branches

    @rule(name=st.sampled_from(BRANCHES), parent=st.data())
    def fork(self, name, parent):
        if name in self.branches:
            return
        parent = self._drawn(parent)
        rows = self.branches[parent].rows
        self._on(parent).create_branch(name)
        self.branches[name] = Branch(dict(rows), parent, dict(rows))
        self._compare()

    @precondition(lambda self: len(self.branches) > 1)
    @rule(choice=st.data())
    def drop(self, choice):
        name = choice.draw(st.sampled_from(sorted(set(self.branches) - {MAIN})))
        holders = [
            one for one, branch in self.branches.items() if branch.parent == name and one != name
        ]
        holders += [tag for tag, branch in self.tag_branches.items() if branch == name]
        if not holders:
            assert self.store.delete_branch(name)
            del self.branches[name]
        self._compare()

    @precondition(lambda self: len(self.branches) > 1)
    @rule(choice=st.data(), policy=policies, upwards=st.booleans(), again=st.booleans())
    def merge(self, choice, policy, upwards, again):
        child = choice.draw(st.sampled_from(sorted(set(self.branches) - {MAIN})))
        parent = self.branches[child].parent
        source, target = (child, parent) if upwards else (parent, child)
        again = again and bool(self.branches[source].rows)
        if again:
            id = choice.draw(st.sampled_from(sorted(self.branches[source].rows)))
            self._change(source, id, number=7)
        self._merge(child, source, target, policy)
        if again:
            # What both sides had changed is no conflict for the next merge.
            self._change(target, id, number=8)
            self._merge(child, source, target, "theirs")
        self._compare()

    def _merge(self, child, source, target, policy):
        self._on(target).merge(source, policy=policy)
        theirs = self.branches[source].rows
        self.branches[target].rows = merged(
            self.branches[child].base, self.branches[target].rows, theirs, policy
        )
        self.branches[child].base = dict(theirs)

    def _change(self, name, id, number):
        moment = self.clock.advance(minutes=1)
        rows = self.branches[name].rows
        changed = self._on(name).context().update(id=id, metadata={"number": number})["updated"]
        assert changed == self._is_shown(rows.get(id))
        if changed:
            rows[id] = replace(rows[id], number=number, updated_at=moment)

    # What must change nothing, and what must change everything

    @rule(branch=st.data())
    def maintain(self, branch):
        self._on(self._drawn(branch)).maintain()
        self._compare()

    @rule()
    def thin(self):
        self.store.thin()
        self.known_versions.clear()
        self._compare()

    @precondition(lambda self: self.folder)
    @rule(journal=journals)
    def reopen(self, journal):
        self.store.close()
        self.store = self._open(journal)
        self._compare()

    @precondition(lambda self: self.folder)
    @rule()
    def fold(self):
        self.store.flush()
        self._compare()

    @rule(ids=ids)
    def erase(self, ids):
        self.store.erase(ids=ids)
        for rows in (
            *(branch.rows for branch in self.branches.values()),
            *(branch.base for branch in self.branches.values()),
            *self.tags.values(),
        ):
            for one in ids:
                rows.pop(one, None)
        self.known_versions.clear()
        self._compare()

    # Helpers

    def _drawn(self, data) -> str:
        return data.draw(st.sampled_from(sorted(self.branches)))

    def _on(self, branch):
        return self.store if branch == MAIN else self.store.branch(branch)

    def _is_shown(self, row) -> bool:
        now = self.clock.now()
        return row is not None and (row.expires_at is None or row.expires_at > now)

    def _upsert(self, rows, id, row) -> None:
        if self._is_shown(rows.get(id)):
            rows[id] = replace(row, created_at=rows[id].created_at)
        else:
            rows.pop(id, None)
            rows[id] = row

    def _compare(self) -> None:
        assert {one.name for one in self.store.branches()} == set(self.branches) - {MAIN}
        for name, branch in self.branches.items():
            self._compare_branch(self._on(name), branch.rows)
        assert set(self.store.tags()) == set(self.tags)
        for tag, rows in self.tags.items():
            self._compare_branch(self.store.checkout(tag), rows)

    def _compare_branch(self, store, rows) -> None:
        shown = {one: row for one, row in rows.items() if self._is_shown(row)}
        for session in SESSIONS:
            found = store.history.get_messages("a", session_id=session)
            wanted = [(one, row.text) for one, row in shown.items() if row.session == session]
            assert [(message.id, message.text) for message in found] == wanted
        records = store.context().list()
        assert Counter((one["id"], one["metadata"]["number"]) for one in records) == Counter(
            (one, row.number) for one, row in shown.items()
        )
        hits = store.search("tea", mode="text", limit=100)
        assert {hit.record.id for hit in hits} == {
            one for one, row in shown.items() if "tea" in row.text
        }


def home(id: str) -> str:
    """The session of a message: in two sessions one id would be two messages."""
    return SESSIONS[IDS.index(id) % len(SESSIONS)]


def merged(base: Rows, ours: Rows, theirs: Rows, policy: str) -> Rows:
    """What three rows by rows make: what one side alone has changed is taken from it."""
    rows = deepcopy(ours)
    for one in [*ours, *(one for one in theirs if one not in ours)]:
        before, here, there = base.get(one), ours.get(one), theirs.get(one)
        takes_theirs = {
            "ours": False,
            "theirs": True,
            "newest": here is None or (there is not None and there.updated_at > here.updated_at),
        }[policy]
        if there in (here, before):
            continue
        if here != before:
            # Both have written to it, perhaps nothing new.
            if content(there) in (content(here), content(before)):
                continue
            if content(here) != content(before) and not takes_theirs:
                continue
        if there is None:
            del rows[one]
        else:
            rows[one] = there
    return rows


def content(row: Row | None) -> Row | None:
    """What a merge compares."""
    return row and replace(row, updated_at=row.created_at)


WholeStore.TestCase.settings = settings(
    max_examples=settings.default.max_examples // 3, stateful_step_count=30
)
TestWholeStore = pytest.mark.slow(WholeStore.TestCase)
