"""The soak itself: its oracle sees each thing that may go wrong, and its processes leave what it needs.

That nothing goes wrong is seen by `make soak`.
"""

import json
from itertools import count

import pytest
from proofs.soak.journal import Journal, notes
from proofs.soak.judging import judged
from proofs.soak.page import printed, summed_up
from proofs.soak.places import Place
from proofs.soak.talk import Batch, TornError, batches, digests, embedder, vector_of

from lance_context_core import ContextStore, Message


class Story:
    """What two processes noted and what is read in the end: nothing is wrong, until it is spoilt."""

    def __init__(self):
        self._clock = count()
        self.journals = {"core": [], "langchain": []}
        self.there = []
        for name in ("a", "b", "c", "d"):
            self.write("core" if name in "ac" else "langchain", Batch(f"{name}x0", 2))
        self.texts = {reader: {} for reader in self.journals}
        self.show_all()
        self.samples = [("s", "bx0", 2)]
        self.found = {"text": Batch("bx0", 2).texts, "vector": Batch("bx0", 2).texts[:1]}

    def note(self, who, what, **about):
        self.journals[who].append({"what": what, "at": next(self._clock), **about})

    def write(self, who, batch, *, is_done=True, is_there=True):
        self.note(who, "begun", batch=batch.name, size=batch.size, session="s", writer=who)
        if is_done:
            self.note(who, "done", batch=batch.name, session="s", writer=who)
        if is_there:
            self.there.append(batch)

    def read(self, who, names):
        *_, digest = digests(names)
        began = next(self._clock)
        self.note(who, "read", session="s", began=began, n=len(names), digest=digest)

    def show(self, texts):
        """Let all readers see these texts."""
        for seen in self.texts.values():
            seen["s"] = texts
        self.rows = [(text, vector_of(text)) for text in texts]

    def show_all(self):
        self.show([text for batch in self.there for text in batch.texts])

    @property
    def verdict(self):
        seen = {name: {"texts": texts, "found": {}} for name, texts in self.texts.items()}
        seen["langchain"]["found"] = {"bx0": self.found}
        return judged(self.journals, [*self.texts["core"]], self.rows, self.samples, seen)


def in_doubt(story):
    story.write("core", Batch("ex0", 3), is_done=False, is_there=False)


def in_doubt_and_there(story):
    story.write("core", Batch("ex0", 3), is_done=False)
    story.show_all()


def refused_and_written_again(story):
    about = {"batch": "ex0", "session": "s", "writer": "core"}
    story.note("core", "begun", **about, size=1)
    story.note("core", "failed", **about, error="", kind="StorageError", is_ours=True)
    story.note("core", "done", **about)
    story.there.append(Batch("ex0", 1))
    story.show_all()


def read_meanwhile(story):
    story.read("langchain", ["ax0", "bx0", "cx0", "dx0"])


@pytest.mark.parametrize(
    "more",
    [lambda story: None, in_doubt, in_doubt_and_there, refused_and_written_again, read_meanwhile],
)
def test_nothing_is_wrong_where_nothing_is(more):
    story = Story()
    more(story)
    assert story.verdict.problems == []


def test_what_was_checked_is_counted():
    story = Story()
    in_doubt_and_there(story)
    read_meanwhile(story)
    assert story.verdict.checked == {
        "sessions read": 2,
        "acknowledged batches": 4,
        "acknowledged messages": 8,
        "batches in doubt": 1,
        "of these there": 1,
        "vectors": 11,
        "places in order": 5,
        "reads meanwhile": 1,
        "searches": 2,
    }


A, B, C, D = (Batch(f"{name}x0", 2).texts for name in "abcd")


def lost(story):
    story.show([*A, *C, *D])


def noted_before_it_was_acknowledged(story):
    story.write("core", Batch("ex0", 1), is_there=False)


def doubled(story):
    story.show([*A, *B, *C, *D, *B])


def torn(story):
    story.show([*A, B[0], *C, B[1], *D])


def half(story):
    story.show([*A, *B, *C, D[0]])


def invented(story):
    story.show([*A, *B, *C, *D, *Batch("zx0", 1).texts])


def in_the_wrong_order(story):
    story.show([*A, *C, *B, *D])


def hidden(story):
    story.rows.append(("what nobody says", None))


def dropped_by_a_reader(story):
    story.texts["langchain"]["s"] = [*A, *B, *C]


def without_a_session(story):
    for seen in story.texts.values():
        seen.clear()


def read_too_early(story):
    story.read("core", ["ax0", "bx0"])


def read_otherwise(story):
    story.read("core", ["ax0", "cx0", "bx0", "dx0"])


def read_torn(story):
    story.note("core", "torn", session="s", problem="ax0 is torn")


def raised_by_python(story):
    story.note("core", "unread", error="KeyError: 'x'", kind="KeyError", is_ours=False)


def raised_unknown(story):
    story.note("core", "failed", batch="", error="?", kind="InternalError", is_ours=True)


def not_found_by_words(story):
    story.found["text"] = B[:1]


def found_another_by_meaning(story):
    story.found["vector"] = A[:1]


def without_a_vector(story):
    story.rows[2] = (B[0], None)


def with_the_vector_of_another(story):
    story.rows[2] = (B[0], vector_of(C[1]))


def with_a_vector_of_nothing(story):
    story.rows[2] = (B[0], [1.0])


def neither_found_by_meaning_nor_with_a_vector(story):
    found_another_by_meaning(story)
    without_a_vector(story)


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lost, "s: bx0 was acknowledged, and is lost"),
        (noted_before_it_was_acknowledged, "s: ex0 was acknowledged, and is lost"),
        (doubled, "bx0 is there 2 times"),
        (torn, "s: bx0 is torn"),
        (half, "s: dx0 is torn"),
        (invented, "s: nobody wrote zx0, which is there"),
        (in_the_wrong_order, "s: cx0 stands before bx0, and began after it"),
        (hidden, "the table holds 9 records, the sessions 8"),
        (dropped_by_a_reader, "s: langchain reads 6 messages, and not the 8 of the core"),
        (without_a_session, "the store does not tell of the sessions ['s']"),
        (read_too_early, "core read 2 batches of s when 4 were acknowledged"),
        (read_otherwise, "core read 4 batches of s, not the first 4"),
        (read_torn, "core read s: ax0 is torn"),
        (raised_by_python, "core, unread: KeyError: 'x'"),
        (raised_unknown, "core, failed: ?"),
        (not_found_by_words, "langchain searches bx0 by words"),
        (
            found_another_by_meaning,
            "langchain searches bx0 by meaning: ['ax0 says 0 of 2']; the table has it with its vector",
        ),
        (without_a_vector, "bx0 says 0 of 2: the table has no vector of it"),
        (
            with_the_vector_of_another,
            "bx0 says 0 of 2: the table has it with a vector of ['cx0 says 1 of 2']",
        ),
        (with_a_vector_of_nothing, "bx0 says 0 of 2: the table has it with a vector of nothing"),
        (
            neither_found_by_meaning_nor_with_a_vector,
            "langchain searches bx0 by meaning: ['ax0 says 0 of 2']; the table has no vector of it",
        ),
    ],
)
def test_what_is_wrong_is_told(spoil, told):
    story = Story()
    spoil(story)
    problems = story.verdict.problems
    assert any(one.startswith(told) for one in problems), problems


def test_the_table_says_what_each_process_did_and_what_was_lost():
    story = Story()
    lost(story)
    refused_and_written_again(story)
    story.show([*A, *C, *D, *Batch("ex0", 1).texts])
    place = Place(title="here", store={}, under_fire={}, pace_seconds=0, kill_seconds=0)
    page = printed(
        place, [Killed("core", 3), Killed("langchain", 0)], story.journals, story.verdict
    )
    assert "| core | 3 | 3 | 5 | 0 | 1 | 0 | 1 |" in page
    assert "| langchain | 0 | 2 | 4 | 0 | 0 | 0 | 0 |" in page
    assert "✗ s: bx0 was acknowledged, and is lost" in page
    assert page.endswith("1 problem.")


def test_what_is_wrong_in_several_places_is_told_once_more_in_the_end():
    problems = [("local", "bx0 is there 2 times"), ("s3", "core has failed; it said:\nmuch")]
    assert summed_up(problems).splitlines() == [
        "",
        "In all places: 2 problems.",
        "✗ local: bx0 is there 2 times",
        "✗ s3: core has failed; it said:",
    ]
    *_, last, more = summed_up([("s3", f"{n}") for n in range(30)]).splitlines()
    assert (last, more) == ("✗ s3: 19", "✗ and 10 more: see above")
    assert summed_up([]).endswith("Nothing is lost.")


class Killed:
    """A process, as the table knows it."""

    role = "writer"

    def __init__(self, name, n_kills):
        self.name = name
        self.n_kills = n_kills


def test_a_journal_goes_on_where_its_predecessor_was_killed(tmp_path):
    for name in ("first", "second"):
        Journal(tmp_path / "journal").note("begun", batch=name)
    assert [one["batch"] for one in notes(tmp_path / "journal")] == ["first", "second"]


@pytest.mark.slow
def test_each_message_is_the_nearest_to_itself_whatever_its_neighbours_are_lent():
    said = [
        Batch(f"{name}x{n}", 1 + n % 4)
        for n in range(30)
        for name in ("llamaindex0", "llamaindex1")
    ]
    with ContextStore.open("memory://", embedder=embedder()) as store:
        for batch in said:
            messages = [Message.user(text, id=id) for id, text in batch.messages.items()]
            store.history.append_many("", messages, session_id="s")
        for batch in said:
            best, _ = store.history.search(batch.texts[0], mode="vector", session_id="s", limit=2)
            assert best.record.text == batch.texts[0]


def test_a_history_is_read_as_batches_or_not_at_all():
    assert batches([*A, *B]) == ["ax0", "bx0"]
    for texts in ([A[1]], [A[0], B[0]], [*A, "something else"]):
        with pytest.raises(TornError):
            batches(texts)
    assert json.dumps(batches([])) == "[]"
