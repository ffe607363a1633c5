"""What is stored of facts is the fold of what counts: of the turns that are left and of the jobs that stand."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from tempfile import TemporaryDirectory

import pytest
from core.conformance.doubles import ManualClock
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lance_context_core import (
    ContextStore,
    InvalidRequestError,
    ManagedMemory,
    Message,
    NotFoundError,
)
from lance_context_core.knowledge import FactCandidate
from lance_context_core.window import FactsSection, HistorySection, ProfileSection, RecallSection

START = datetime(2025, 1, 1, tzinfo=UTC)
HOME = {"type": "object", "properties": {"home": {"type": "string"}}}
ASKED = "home Oslo Bergen Rome tea dog cat"


class Plain:
    """Takes `home Oslo` for the value of a slot, `home` for its end, and all else for a statement."""

    def __init__(self, name="plain/1"):
        self.name = name

    def extract(self, turns):
        return [self._fact(one) for one in turns]

    def _fact(self, turn):
        word, _, value = turn.text.partition(" ")
        of_slot = {"slot": "home", "value": value or None} if word == "home" else {}
        polarity = "ends" if turn.text == "home" else "states"
        place = {"source_id": turn.id, "start": 0, "end": len(turn.text)}
        return FactCandidate(text=turn.text, polarity=polarity, **place, **of_slot)


class Life:
    """A store that things happen to, and what must be known in it by then."""

    def __init__(self, *places):
        self.clock = ManualClock(START + timedelta(days=1000))
        self.stores = [
            ContextStore.open(place, clock=self.clock) for place in places or ["memory://"]
        ]
        self.turn_to(0)
        self.said = {}
        self.proposed = None
        self.has_fork = False
        self.retracted = set()
        self.corrected = {}

    def turn_to(self, n):
        """Let what comes happen in another handle of the place, as another process has one."""
        self.store = self.stores[n % len(self.stores)]
        self.memory = self.store.knowledge.using(extractor=Plain())
        self.history = self.store.scope(user_id="ada").history

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for store in self.stores:
            store.close()

    # What happens

    def tell(self, session, day, text, *, is_heard=True, store=None):
        id = f"{session}-{day}"
        if id in self.said:
            return
        self.said[id] = (session, day, text)
        message = Message.user(text, id=id, created_at=START + timedelta(days=day))
        store = store or self.store
        if is_heard:
            memory = store.knowledge.using(extractor=Plain())
            memory.add([message], session_id=session, user_id="ada")
        else:
            store.scope(user_id="ada").history.append("", message, session_id=session)

    def aside(self, session, day, text):
        """Tell something on a branch."""
        if not self.has_fork:
            self.store.create_branch("aside")
            self.has_fork = True
        self.tell(session, day, text, store=self.store.branch("aside"))

    def join(self):
        if self.has_fork:
            self.store.merge("aside")
            self.store.delete_branch("aside")
            self.has_fork = False

    def undo(self, n):
        done = [
            one
            for one in self.memory.jobs.list(state="succeeded")
            if one.kind in ("extract", "distill", "undo") and one.parent_id is None
        ]
        if done:
            self.memory.undo(done[n % len(done)].id)

    def distill(self):
        self.memory.distill(apply="merge")

    def propose(self):
        if self.proposed is None:
            self.proposed = self.memory.distill().job_id or None

    def merge(self):
        if self.proposed is not None:
            with suppress(NotFoundError, InvalidRequestError):  # It saw what was erased since.
                self.memory.merge(self.proposed)
            self.proposed = None

    def replay(self, n):
        done = [
            one
            for one in self.memory.jobs.list(kind="extract", state="succeeded")
            if one.undone_by is None
        ]
        if done:
            job = done[n % len(done)]
            other = self.memory.using(
                extractor=Plain("other/1" if job.producer == "plain/1" else "plain/1")
            )
            with suppress(InvalidRequestError):  # Its session is archived.
                other.merge(other.replay(job.id).job_id)

    def erase(self, n):
        if self.said:
            id = sorted(self.said)[n % len(self.said)]
            self.store.erase(ids=[id], derived="rebuild")

    def retract(self, n):
        found = self.store.context("knowledge").list(filters={"kind": "fact"})
        if found and self.proposed is None:
            one = sorted(found, key=lambda one: one["id"])[n % len(found)]
            self.memory.invalidate(one["id"], reason="it is wrong")
            self.retracted |= {*one["source_ids"]}

    def correct(self, n, value):
        found = self.store.context("knowledge").list(filters={"kind": "fact"})
        found = [one for one in found if one["text"] != "home"]
        if found and self.proposed is None and not self.has_fork:
            one = sorted(found, key=lambda one: one["id"])[n % len(found)]
            text = f"home {value}" if one["text"].startswith("home") else f"has {value}"
            self.memory.correct(one["id"], text)
            self.corrected |= dict.fromkeys(one["source_ids"], text)

    def archive(self, session):
        if self.proposed is None:
            with suppress(NotFoundError):  # It has no turns.
                self.memory.archive(session)

    def unarchive(self, session):
        if self.proposed is None:
            with suppress(NotFoundError):  # It is not archived.
                self.memory.unarchive(session)

    def clear(self, session):
        self.history.clear("", session_id=session)

    def pop(self, session):
        self.history.pop("", session_id=session)

    def age(self, session):
        """Let the turns expire by the clock alone."""
        self.history.touch("", session_id=session, expires_at=self.clock.now() + timedelta(hours=1))
        self.clock.advance(hours=2)

    def expire(self, session):
        self.age(session)
        self.store.maintain()

    # What is known: by the turns and jobs that there are, and by what is stored

    def there(self):
        """The turns that the history has, each by its session and its id."""
        return {
            (session, message.id)
            for session in {session for session, _, _ in self.said.values()}
            for message in self.history.get_messages("", session_id=session)
        }

    def counted(self):
        """What counts, in order: the day, the session, the text and the id of each turn."""
        heard = {
            (job.session_id, id)
            for job in self.memory.jobs.list(kind="extract", state="succeeded")
            if job.undone_by is None
            for id in job.input_ids
        }
        # What a person has corrected stays, whatever is undone.
        heard |= {(self.said[id][0], id) for id in self.corrected}
        counts = heard & self.there()
        return sorted(
            (day, session, text, id)
            for id, (session, day, text) in self.said.items()
            if (session, id) in counts and id not in self.retracted
        )

    def stored(self):
        """All facts that reads may show, what was true once too."""
        found = self.store.context("knowledge").list(
            include_retired=True, filters={"kind": "fact", "retired_at": None}
        )
        return [_told(one) for one in found]

    def texts(self):
        """Every text that some read shows of what is known, or brings as its evidence."""
        yield from (one["text"] for one in self.store.context("knowledge").list(filters=MADE))
        for kind in ("facts", "chain", "summaries", "turns"):
            for hit in self.memory.search(ASKED, user_id="ada", search_type=kind, evidence=True):
                yield hit.record.text
                yield from (quote.text for quote in hit.evidence if quote.text is not None)
        yield from (hit.record.text for hit in self.store.search(ASKED, limit=100))
        yield from (one["text"] for one in self._found())
        for id in [one.id for one in self.memory.list()]:
            yield from (quote.text for quote in self.memory.explain(id).quotes if quote.text)
        yield from self.store.sql("SELECT text FROM facts")["text"].to_pylist()
        sections = ProfileSection(), FactsSection(), RecallSection()
        for message in self.window(*sections).messages:
            yield from _lines(message)

    def _found(self):
        found = self.store.context("knowledge").search(ASKED, limit=100)
        return [one for one in found if one["kind"] != "job"]

    def window(self, *sections):
        return self.store.assemble(
            session_id="now",
            budget=8_000,
            messages=[Message.user(ASKED)],
            user_id="ada",
            sections=[*sections, HistorySection()],
        )

    def shown(self):
        """What every read shows of turns, as their ids."""
        for kind in ("facts", "chain", "summaries"):
            for hit in self.memory.search(ASKED, user_id="ada", search_type=kind, evidence=True):
                if hit.layer == "L2":
                    continue
                assert hit.evidence
                assert all(quote.is_verified for quote in hit.evidence)
                if hit.layer == "L1":
                    yield from hit.record.source_ids
        for record in self.store.context("knowledge").list(filters=MADE):
            # A summary is of the whole session, heard by a job or not.
            yield from record["source_ids"] if record["kind"] != "summary" else ()
            assert self.memory.explain(record["id"]).is_verified
        for one in self._found():
            yield from one["source_ids"] if one["kind"] != "summary" else ()
        for one in self.memory.profile(HOME, user_id="ada").fields.values():
            yield from one.fact.source_ids

    def current(self):
        """What each read that has all current facts says these are, as their ids, by its name."""
        known = self.store.context("knowledge").list(filters={"kind": "fact"})
        rows = self.store.sql("SELECT id, text, source_ids FROM facts").to_pylist()
        assert {one["id"]: (one["text"], one["source_ids"]) for one in rows} == {
            one["id"]: (one["text"], [*one["source_ids"]]) for one in known
        }
        found = self.memory.search(ASKED, user_id="ada", search_type="facts", limit=100)
        facts = FactsSection(limit=100)
        outcomes = self.window(facts).report.outcomes
        shown = [one for one in outcomes if one.section == facts.name]
        return {
            "context": {one["id"] for one in known},
            "SQL": {one["id"] for one in rows},
            "list": {one.id for one in self.memory.list(user_id="ada")},
            "get": {one["id"] for one in known if self.memory.get(one["id"]) is not None},
            "get_all": {one.id for one in ManagedMemory(self.store).get_all(user_id="ada")},
            "search": {hit.record.id for hit in found if hit.record.kind == "fact"},
            "window": {id for one in shown for id in one.ids},
        }


MADE = {"kind": {"$in": ["fact", "chunk", "summary"]}}


def _lines(message):
    """What a window quotes: lines that begin with a mark."""
    return [one for one in (message.text or "").splitlines() if one.startswith(("- ", "["))]


def _told(one):
    """A stored fact, as `folded` tells it."""
    fact = one["metadata"]["fact"]
    since, until = (
        None if moment is None else (datetime.fromisoformat(moment) - START).days
        for moment in (fact["valid_from"], fact["valid_to"])
    )
    is_against = bool(one["metadata"].get("conflicts"))
    is_current = one["superseded_by_id"] is None
    until = None if is_against else until
    return one["text"], frozenset(one["source_ids"]), since, until, is_against, is_current


def folded(turns, corrected=()):
    """What is known by these turns, made of nothing else.

    `corrected` has the texts that a person gave some turns, by their ids. Each fact says its text,
    the turns that say so, since when and until when, whether it is against another one, and whether
    it is current.
    """
    corrected = {**dict(corrected)}
    statements = {}
    for day, _, text, id in turns:
        if not text.startswith("home"):
            _, ids, said = statements.setdefault(text, (day, set(), []))
            ids.add(id)
            said += [corrected[id]] if id in corrected else []
    facts = {
        (said[0] if said else text, frozenset(ids), since, None, False, True)
        for text, (since, ids, said) in statements.items()
    }
    homes = [
        (day, session, corrected.get(id, text), id)
        for day, session, text, id in turns
        if text.startswith("home")
    ]
    first = next((n for n, one in enumerate(homes) if one[-1] in corrected), len(homes))
    before = _of_homes(homes[:first])
    return facts | (_held(before, homes[:first], homes[first:]) if homes[first:] else before)


def _of_homes(homes):
    """The values that turns say which no person has corrected."""
    facts = set()
    days = sorted({day for day, _, _, _ in homes})
    # What the first session says of a day counts; what others say then is against it.
    first = {day: next(text for when, _, text, _ in homes if when == day) for day in days}
    for n, day in enumerate(days):
        is_last = day == days[-1]
        for text in {text for when, _, text, _ in homes if when == day} - {first[day]}:
            ids = {id for when, _, said, id in homes if (when, said) == (day, text)}
            facts.add((text, frozenset(ids), day, None, True, is_last))
        if n and first[days[n - 1]] == first[day]:
            continue
        later = [when for when in days[n:] if first[when] != first[day]]
        until = min(later, default=None)
        ids = {
            id
            for when, _, text, id in homes
            if text == first[day] and day <= when and (until is None or when < until)
        }
        facts.add((first[day], frozenset(ids), day, until, False, until is None))
    return facts


def _held(before, former, rest):
    """The values from a corrected one on: it stays current, and all else is against it."""
    day, session, held, _ = rest[0]
    facts, since, ids, asides = set(), day, set(), {}
    last = (None, session)
    for text, of, start, until, is_against, is_current in before:
        if not is_current:
            facts.add((text, of, start, until, is_against, is_current))
        elif is_against and text != held:
            asides[text] = start, {*of}
        elif is_against:
            facts.add((text, of, start, None, True, False))
        elif text == held:
            since, ids = start, {*of}
            last = max((when, where) for when, where, _, id in former if id in of)
        else:
            facts.add((text, of, start, max(day, start), False, False))
    if not ids:  # It replaces the value before and all against that.
        facts |= {
            (text, frozenset(of), one, None, True, False) for text, (one, of) in asides.items()
        }
        asides = {}
    for day, session, text, id in rest:
        if text != held:
            asides.setdefault(text, (day, set()))[1].add(id)
            continue
        ids.add(id)
        if day != last[0] or session == last[1]:
            facts |= {(one, frozenset(of), n, None, True, False) for one, (n, of) in asides.items()}
            asides = {}
        last = day, session
    facts.add((held, frozenset(ids), since, None, False, True))
    return facts | {(one, frozenset(of), n, None, True, True) for one, (n, of) in asides.items()}


def check(life):
    counted = life.counted()
    stored = life.stored()
    assert {*stored} == folded(counted, life.corrected)
    assert len(stored) == len({*stored})
    stretches = sorted(
        (since, until)
        for text, _, since, until, is_against, _ in stored
        if text.startswith("home") and not is_against
    )
    for (_, until), (since, _) in pairwise(stretches):
        assert until is not None
        assert until <= since
    # A chunk says what its turn says, whatever a person says of the fact.
    assert {*life.shown()} <= {id for *_, id in counted} | life.retracted
    for read, ids in (current := life.current()).items():
        assert (read, ids) == (read, current["context"])
    there = {(one.session_id, one.id) for one in _messages(life.store)}
    assert there <= life.there()
    now = {
        text for text, _, _, _, is_against, is_current in stored if is_current and not is_against
    }
    homes = [text.partition(" ")[2] for text in now if text.startswith("home ")]
    assert [*life.memory.profile(HOME, user_id="ada").values.values()] == homes


def _messages(store):
    """The turns that a search of the store finds, and those that its window recalls."""
    return [hit.record for hit in store.search(ASKED, limit=100) if hit.record.kind == "message"]


def check_texts(life):
    """No read shows words that only turns say which are gone: by the clock alone, too."""
    left = {life.said[id][2] for _, id in life.there()} | {*life.corrected.values()}
    gone = {text for *_, text in life.said.values()} - left - {"home"}
    for text in life.texts():
        assert not [one for one in gone if one in text]


SESSIONS = st.sampled_from(["a", "b", "c"])
SAID = st.sampled_from(["home Oslo", "home Bergen", "home Rome", "home", "likes tea", "has a dog"])
TELL = st.tuples(st.just("tell"), SESSIONS, st.integers(0, 5), SAID)
HAPPENS = st.one_of(
    TELL,
    TELL,
    TELL,
    st.tuples(st.sampled_from(["note", "aside"]), SESSIONS, st.integers(0, 5), SAID),
    st.tuples(st.sampled_from(["undo", "undo", "replay", "erase", "retract"]), st.integers(0, 9)),
    st.tuples(st.just("correct"), st.integers(0, 9), st.sampled_from(["Oslo", "Rome", "a cat"])),
    st.tuples(st.sampled_from(["clear", "pop", "expire", "age", "archive", "unarchive"]), SESSIONS),
    st.tuples(st.sampled_from(["distill", "propose", "merge", "join"])),
)


def test_a_value_that_has_ended_is_none_and_is_one_again_once_that_is_undone(store):
    memory = store.knowledge.using(extractor=Plain())
    for n, text in enumerate(("home Oslo", "home")):
        turn = {"role": "user", "content": text, "created_at": START + timedelta(days=n)}
        added = memory.add([turn], session_id=f"s{n}", user_id="ada")
    assert memory.profile(HOME, user_id="ada").missing == ("home",)
    then = memory.profile(HOME, user_id="ada", valid_at=START + timedelta(hours=1))
    assert then.values == {"home": "Oslo"}
    memory.undo(added.job_id)
    assert memory.profile(HOME, user_id="ada").values == {"home": "Oslo"}


def test_what_an_older_release_kept_in_one_record_is_folded_by_its_turns(store):
    """It kept what several turns say in the record of the first, and nothing of the others."""
    memory = store.knowledge.using(extractor=Plain())

    def tell(text, day):
        turn = Message.user(text, created_at=START + timedelta(days=day))
        return memory.add([turn], session_id=f"s{day}", user_id="ada")

    first, again = tell("home Oslo", 0), tell("home Oslo", 100)
    made = store.context("knowledge")
    (lead,) = made.list(filters={"kind": "fact"})
    (other,) = made.list(filters={"kind": "fact", "retired_reason": "merged"}, include_retired=True)
    metadata = {name: one for name, one in lead["metadata"].items() if name != "observed"}
    made.update(id=lead["id"], metadata=metadata)
    made.delete(id=other["id"])
    tell("home Rome", 50)
    home = memory.profile(HOME, user_id="ada").fields["home"]
    assert [one.text for one in home.history] == ["Oslo", "Rome", "Oslo"]
    memory.undo(again.job_id)
    assert memory.profile(HOME, user_id="ada").values == {"home": "Rome"}
    memory.undo(first.job_id)
    (field,) = memory.profile(HOME, user_id="ada").fields.values()
    assert [one.text for one in field.history] == ["Rome"]


@pytest.mark.parametrize("how", ["clear", "pop", "replace_tail", "rewrite", "touch", "session"])
def test_what_is_said_in_turns_that_are_gone_is_known_no_more_and_what_it_replaced_is(store, how):
    memory = store.knowledge.using(extractor=Plain())
    scoped = store.scope(user_id="ada")
    for n, text in enumerate(("home Oslo", "home Rome")):
        turn = Message.user(text, id=f"t{n}", created_at=START + timedelta(days=n))
        memory.add([turn], session_id=f"s{n}", user_id="ada")
    there = {"session_id": "s1"}
    {
        "clear": lambda: scoped.history.clear("", **there),
        "pop": lambda: scoped.history.pop("", **there),
        "replace_tail": lambda: scoped.history.replace_tail("", [], after=None, **there),
        "rewrite": lambda: scoped.history.rewrite("", Message.user("hello", id="t1"), **there),
        "touch": lambda: scoped.history.touch("", expires_at=START, **there),
        "session": lambda: scoped.sessions.delete("s1"),
    }[how]()
    assert memory.profile(HOME, user_id="ada").values == {"home": "Oslo"}
    found = store.context("knowledge").list(filters={"kind": {"$ne": "job"}})
    assert {one["session_id"] for one in found} == {"s0"}


def test_what_was_cleared_while_it_was_archived_does_not_come_back(store):
    memory = store.knowledge.using(extractor=Plain())
    memory.add([Message.user("home Oslo", id="t")], session_id="s", user_id="ada")
    memory.add([Message.user("likes tea", id="u")], session_id="s", user_id="ada")
    memory.archive("s")
    store.scope(user_id="ada").history.clear("", session_id="s", filter={"id": "t"})
    memory.unarchive("s")
    (known,) = store.context("knowledge").list(filters={"kind": "fact"})
    assert known["text"] == "likes tea"


def test_what_was_cleared_and_is_said_again_is_heard_again(store):
    memory = store.knowledge.using(extractor=Plain())
    turn = Message.user("home Oslo", id="t", created_at=START)
    memory.add([turn], session_id="s", user_id="ada")
    store.scope(user_id="ada").history.clear("", session_id="s")
    assert memory.profile(HOME, user_id="ada").missing == ("home",)
    memory.add([turn], session_id="s", user_id="ada")
    assert memory.profile(HOME, user_id="ada").values == {"home": "Oslo"}


@pytest.mark.parametrize("before", [0, 1, 2])
def test_what_a_person_has_pinned_stays_current_however_late_others_arrive(store, before):
    memory = store.knowledge.using(extractor=Plain())
    told = [("home Oslo", 1), ("home Rome", 2), ("home Oslo", 0)]
    for n, (text, day) in enumerate(told):
        if n == before:
            for one in store.context("knowledge").list(filters={"kind": "fact"}):
                memory.pin(one["id"])
        turn = Message.user(text, created_at=START + timedelta(days=day))
        memory.add([turn], session_id=f"s{n}", user_id="ada")
    values = memory.profile(HOME, user_id="ada").values
    assert values == {"home": "Oslo" if before == 1 else "Rome"}


def test_a_branch_that_is_merged_brings_what_was_said_and_it_is_one_history(store):
    memory = store.knowledge.using(extractor=Plain())
    draft = store.create_branch("draft")
    sides = [(memory, "home Oslo", 0), (draft.knowledge, "home Rome", 1), (memory, "home Oslo", 2)]
    for n, (side, text, day) in enumerate(sides):
        turn = Message.user(text, created_at=START + timedelta(days=day))
        side.using(extractor=Plain()).add([turn], session_id=f"s{n}", user_id="ada")
    store.merge("draft")
    home = memory.profile(HOME, user_id="ada").fields["home"]
    assert [one.text for one in home.history] == ["Oslo", "Rome", "Oslo"]
    assert [one.valid_to for one in home.history] == [
        *(START + timedelta(days=day) for day in (1, 2)),
        None,
    ]


def live(events, *places):
    with Life(*places) as life:
        for n, (what, *more) in enumerate(events):
            life.turn_to(n)
            life.clock.advance(seconds=1)  # What is later takes precedence where branches meet.
            if what == "note":
                life.tell(*more, is_heard=False)
            else:
                getattr(life, what)(*more)
        check_texts(life)
        life.join()
        life.store.maintain()  # What rests on what has expired by the clock alone is folded then.
        for n in range(len(life.stores)):
            life.turn_to(n)
            check(life)


OSLO, BERGEN, AGAIN = (
    ("tell", "a", 0, "home Oslo"),
    ("tell", "b", 1, "home Bergen"),
    ("tell", "c", 2, "home Oslo"),
)
TEA = ("tell", "a", 0, "likes tea")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::lance_context_core.errors.ElsewhereWarning")
@settings(max_examples=max(2, settings.default.max_examples // 3))
@given(st.lists(HAPPENS, max_size=12))
@example([OSLO, AGAIN, BERGEN])
@example([OSLO, BERGEN, AGAIN, ("undo", 1)])
@example([OSLO, BERGEN, AGAIN, ("undo", 1), ("undo", 3), ("undo", 4)])
@example([OSLO, AGAIN, ("undo", 0), BERGEN, ("undo", 3)])
@example([OSLO, AGAIN, BERGEN, ("clear", "a"), ("pop", "c")])
@example([OSLO, AGAIN, BERGEN, ("erase", 2), ("expire", "b")])
@example([OSLO, ("note", "b", 1, "home Bergen"), ("propose",), ("clear", "b"), ("merge",)])
@example([OSLO, AGAIN, BERGEN, ("archive", "c"), ("undo", 1), ("unarchive", "c")])
@example([OSLO, AGAIN, ("retract", 0), BERGEN, ("undo", 0)])
@example([OSLO, ("correct", 0, "Rome"), BERGEN, AGAIN, ("undo", 0)])
@example([BERGEN, TEA, ("correct", 0, "a cat"), ("correct", 1, "a cat"), AGAIN, ("undo", 2)])
@example([OSLO, AGAIN, ("note", "b", 1, "home"), ("propose",), ("undo", 0), ("merge",)])
@example([OSLO, BERGEN, ("replay", 0), ("undo", 1), ("undo", 0)])
@example([("tell", "a", 0, "has a dog"), ("note", "a", 1, "home Oslo"), ("propose",), ("erase", 0)])
@example([("note", "a", 0, "home Oslo"), BERGEN, ("propose",), ("erase", 1), ("distill",)])
@example([("tell", "c", 2, "home Rome"), ("tell", "a", 2, "home")])
@example([OSLO, AGAIN, ("expire", "c")])
@example([OSLO, AGAIN, ("age", "a")])
@example([("tell", "a", 2, "home Rome"), ("aside", "a", 4, "likes tea"), ("pop", "a")])
@example([("tell", "a", 2, "home Rome"), ("aside", "a", 4, "likes tea"), ("erase", 0)])
@example([BERGEN, ("aside", "a", 3, "home Oslo"), ("archive", "b")])
@example([BERGEN, ("aside", "a", 3, "home Oslo"), ("archive", "b"), ("join",), ("unarchive", "b")])
@example([TEA, ("aside", "b", 1, "has a dog"), ("undo", 0), ("aside", "c", 2, "likes tea")])
def test_what_is_stored_is_the_fold_of_what_counts_whatever_happened(events):
    live(events)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::lance_context_core.errors.ElsewhereWarning")
@settings(max_examples=max(2, settings.default.max_examples // 10))
@given(st.lists(HAPPENS, max_size=8))
@example([OSLO, AGAIN, BERGEN, ("archive", "c"), ("undo", 1), ("unarchive", "c")])
@example([OSLO, ("aside", "b", 1, "home Bergen"), AGAIN, ("clear", "a"), ("join",)])
def test_so_it_is_in_two_handles_that_take_turns(events):
    """Each has what it holds in memory of its own, as two processes have."""
    with TemporaryDirectory() as place:
        live(events, place, place)
