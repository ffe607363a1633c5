"""What is found, why, and what happened."""

import json
from functools import partial
from pathlib import Path

import pytest
from core.knowledge.living import BERGEN, OSLO, day, facts, said

from lance_context_core import ContextStore, InvalidRequestError, Message, NotFoundError
from lance_context_core.knowledge import FactCandidate, NoteExtractor, search
from lance_context_core.messages import ToolCallPart
from lance_context_core.models import FunctionModel
from lance_context_core.storage import changes
from lance_context_core.storage.table import Table

SAMPLE = Path(__file__).parents[3] / "examples" / "data" / "conversation.json"


def test_facts_come_before_chunks_whatever_answers_better(memory):
    memory.add(["The garden by the river, the garden by the river!", "I love the old garden."])
    hits = memory.search("garden by the river", search_type="facts")
    assert [hit.record.kind for hit in hits] == ["fact", "chunk"]
    assert [hit.record.kind for hit in memory.search("river", search_type="facts", limit=1)] == [
        "chunk"
    ]


RESOLVED = [
    ("She is allergic to nuts, so no cake for her.", "Ada's sister Enna is allergic to nuts."),
    ("It was back in March that we signed it.", "Ada signed the lease of the shop in March."),
    ("yes, the red one", "Ada wants the red bicycle."),
]


@pytest.mark.parametrize("search_type", ["facts", "chain"])
@pytest.mark.parametrize(("turn", "fact"), RESOLVED)
def test_a_fact_in_other_words_is_found_by_the_words_of_its_turn(
    store, memory, turn, fact, search_type
):
    def model(prompt):
        found = [{"text": fact, "turn": 1, "quote": turn.rstrip(".")}]
        return json.dumps({"facts": found} if '"facts"' in prompt else {"decisions": []})

    memory.using(model=FunctionModel(model, name="m")).add(turn, user_id="ada")
    hits = memory.search(turn, user_id="ada", search_type=search_type)
    assert fact in [hit.record.text for hit in hits]
    if search_type == "facts":
        assert hits[0].record.text == fact


def test_the_first_hits_are_not_one_text_again_and_again(memory):
    for n in range(8):
        memory.add("What a day!", session_id=f"s{n}", user_id="ada")
    memory.add("What a day it was in the garden!", session_id="s", user_id="ada")
    for search_type in ("chain", "facts", "turns"):
        hits = memory.search("what a day", limit=5, user_id="ada", search_type=search_type)
        texts = sorted(hit.record.text for hit in hits)
        assert texts == ["What a day it was in the garden!", "What a day!"], search_type


def test_one_text_of_two_speakers_or_users_is_two_hits(memory):
    memory.add([said("I love tea.", name="Ann"), said("I love tea.", name="Ben")], user_id="x")
    memory.add("I love tea.", user_id="y")
    hits = memory.search("tea")
    assert {(hit.record.user_id, hit.record.name) for hit in hits} == {
        ("x", "Ann"),
        ("x", "Ben"),
        ("y", None),
    }


def test_a_turn_that_repeats_what_was_recalled_is_not_recalled(memory):
    memory.add("I love the sea at night.", user_id="ada")
    told = "You told me that you love the sea at night."
    memory.add([said(told, role="assistant", metadata={"recalled_ids": ["fact-1"]})], user_id="ada")
    for search_type in ("chain", "facts", "turns"):
        hits = memory.search("the sea at night", user_id="ada", search_type=search_type)
        assert [hit.record.text for hit in hits] == ["I love the sea at night."], search_type


@pytest.fixture
def none_found_among_chunks(monkeypatch):
    """What is made of turns is found by the turns alone, as where many others answer better."""

    async def nothing(*given):
        return []

    monkeypatch.setattr(search, "_made", nothing)


@pytest.mark.usefixtures("none_found_among_chunks")
def test_a_long_turn_is_shown_by_the_piece_that_answers(memory):
    pieces = [f"{word} ".capitalize() * 150 + "." for word in ("apples", "bridges", "candles")]
    memory.add(" ".join(pieces), session_id="long")
    for query, piece in zip(("apples", "bridges", "candles"), pieces, strict=True):
        (hit,) = memory.search(query, top_k=1)
        assert hit.layer == "L1"
        assert piece.split()[0] in hit.record.text
        assert len(hit.record.text) < len(" ".join(pieces))


@pytest.mark.usefixtures("none_found_among_chunks")
def test_a_turn_that_says_something_else_by_now_is_shown_in_its_new_words(store, memory):
    memory.add([{**OSLO, "id": "m1"}], session_id="s")
    store.history.rewrite("", Message.user("I live in Rome.", id="m1"), session_id="s")
    (hit,) = memory.search("Rome")
    assert (hit.layer, hit.record.text) == ("L2", "I live in Rome.")


@pytest.mark.usefixtures("none_found_among_chunks")
def test_nobody_is_shown_what_was_made_of_a_turn_of_the_same_id_of_another(store, memory):
    memory.add([{**OSLO, "id": "m1"}], session_id="s", user_id="ada")
    memory.add([{**OSLO, "id": "m1"}], session_id="s", user_id="bob", infer="never")
    hits = memory.search("Oslo")
    assert {(one.layer, one.record.user_id) for one in hits} == {("L2", "ada"), ("L2", "bob")}


def test_what_is_known_of_a_turn_takes_its_place_and_that_of_no_other(store, memory):
    for n in range(6):
        memory.add([said(f"I met Ann in town {n}. I love town {n}.")], session_id=f"s{n}")
    for query in ("Ann town 3", "love town", "met Ann"):
        turns = memory.search(query, top_k=3, search_type="turns")
        chain = memory.search(query, top_k=6)
        found = [one.record.source_ids[0] for one in chain]
        assert list(dict.fromkeys(found))[:3] == [one.record.id for one in turns]


def test_a_turn_that_no_job_has_read_yet_comes_before_facts_that_answer_less(memory):
    for n in range(4):
        memory.add(f"I love the garden in town {n}.", session_id=f"s{n}")
    new = memory.add("The spare key is under the garden stone.", session_id="n", infer="never")
    (hit, _) = memory.search("Where is the spare key in the garden?", top_k=2)
    assert (hit.layer, hit.record.id) == ("L2", new.ids[0])


def test_what_no_job_has_read_yet_is_found_in_the_turns(memory):
    memory.add("I live in Oslo.", infer="never")
    (hit,) = memory.search("live Oslo")
    assert (hit.layer, hit.record.kind) == ("L2", "message")


@pytest.mark.parametrize(
    ("search_type", "layer", "kinds"),
    [
        pytest.param("summaries", "L0", {"summary"}, id="summaries"),
        pytest.param("facts", "L1", {"fact", "chunk"}, id="facts"),
        pytest.param("turns", "L2", {"message"}, id="turns"),
    ],
)
def test_each_layer_can_be_searched_alone(memory, search_type, layer, kinds):
    memory.add("I live in Oslo. I have a dog there.", session_id="s")
    hits = memory.search("live Oslo dog", search_type=search_type)
    assert hits
    assert {one.layer for one in hits} == {layer}
    assert {one.record.kind for one in hits} <= kinds


def test_what_holds_no_more_is_not_offered_and_marked_where_it_is_asked_for(memory):
    memory.add([OSLO], session_id="s1", user_id="ada")
    (old,) = memory.list(user_id="ada")
    memory.add([BERGEN], session_id="s2", user_id="ada")
    for search_type in ("chain", "facts"):
        asked = {"user_id": "ada", "search_type": search_type}
        assert [one.record.text for one in memory.search("live in Oslo", **asked)] == [
            BERGEN["content"]
        ]
        now, then = memory.search("live in Oslo", include_outdated=True, **asked)
        assert (now.record.text, now.outdated) == (BERGEN["content"], ())
        assert (then.record.text, then.outdated) == (OSLO["content"], (old.id,))


def test_after_many_moves_the_hits_are_what_is_true_now(memory):
    towns = ["Oslo", "Bergen", "Rome", "Paris", "London", "Madrid", "Vienna", "Prague"]
    for n, town in enumerate(towns):
        memory.add([said(f"I live in {town}.", day(2024, n + 1))], session_id=town, user_id="ada")
    (hit,) = memory.search("where do I live in?", user_id="ada")
    assert hit.record.text == "I live in Prague."


def test_a_turn_of_which_a_part_still_holds_is_offered_with_a_mark(memory):
    both = "I live in Oslo. The ferry from the harbour to the island takes an hour in winter."
    memory.add([said(both, day(2024))], session_id="s1", user_id="ada")
    memory.add([BERGEN], session_id="s2", user_id="ada")
    hits = memory.search("ferry to the island", user_id="ada")
    (hit,) = [one for one in hits if one.record.text == both]
    assert len(hit.outdated) == 1


def test_a_fact_that_a_person_has_hidden_is_not_found_in_its_chunk_or_turn(memory):
    memory.add([OSLO], session_id="s1", user_id="ada")
    (fact,) = memory.list(user_id="ada")
    memory.invalidate(fact.id, reason="a joke")
    for search_type in ("chain", "facts"):
        assert memory.search("live in Oslo", user_id="ada", search_type=search_type) == []


def test_a_search_of_the_knowledge_scans_no_table(store, memory, monkeypatch):
    memory.add([OSLO, said("The ferry takes an hour.")], session_id="s1", user_id="ada")
    memory.add([BERGEN], session_id="s2", user_id="ada")
    ask = partial(memory.search, "ferry from Bergen", limit=2, user_id="ada", evidence=True)
    ask(), ask()
    scans = []
    for name in ("find", "select", "slice"):
        real = getattr(Table, name)

        def noted(self, *given, name=name, real=real, **more):
            scans.append(name)
            return real(self, *given, **more)

        monkeypatch.setattr(Table, name, noted)
    assert len(ask()) == 2
    assert scans == []


@pytest.mark.parametrize("search_type", ["chain", "facts"])
def test_the_first_search_of_a_handle_tells_what_holds_instead(tmp_path, search_type):
    with ContextStore.open(tmp_path / "memory") as store:
        oslo = said("I live in Oslo. I like rye bread.", day(2024))
        store.knowledge.add([oslo], session_id="s1", user_id="ada")
        bergen = said("I moved to Bergen.", day(2025))
        store.knowledge.add([bergen], session_id="s2", user_id="ada")
    with ContextStore.open(tmp_path / "memory") as store:
        ask = partial(store.knowledge.search, "Oslo", user_id="ada", search_type=search_type)
        first, then = ([hit.record.text for hit in ask()] for _ in range(2))
    assert "I moved to Bergen." in first
    assert first == then


@pytest.mark.parametrize("search_type", ["chain", "facts"])
def test_a_search_looks_once_at_the_table(memory, monkeypatch, search_type):
    memory.add([OSLO, said("The ferry takes an hour.")], session_id="s1", user_id="ada")
    memory.add([BERGEN], session_id="s2", user_id="ada")
    ask = partial(memory.search, "Oslo ferry", limit=1, user_id="ada", search_type=search_type)
    ask(), ask()
    looks, real = [], changes.since

    def noted(*given):
        looks.append(given)
        return real(*given)

    monkeypatch.setattr(changes, "since", noted)
    assert len(ask()) == 1
    assert len(looks) == 1


def test_where_many_hits_say_the_same_the_others_are_found_behind_them(memory):
    for n in range(12):
        memory.add("What a day!", session_id=f"s{n}", user_id="ada")
    memory.add("What a day it was in the garden!", session_id="s", user_id="ada")
    for search_type in ("chain", "facts", "turns"):
        hits = memory.search("what a day", limit=2, user_id="ada", search_type=search_type)
        texts = sorted(hit.record.text for hit in hits)
        assert texts == ["What a day it was in the garden!", "What a day!"], search_type


@pytest.mark.parametrize("top_k", [-1, True, "all"])
def test_a_number_of_hits_that_is_none_is_refused_by_its_name(memory, top_k):
    with pytest.raises(InvalidRequestError, match="top_k="):
        memory.search("x", top_k=top_k)


def test_an_unknown_search_type_is_refused(memory):
    with pytest.raises(InvalidRequestError, match="chain"):
        memory.search("x", search_type="all")
    with pytest.raises(InvalidRequestError, match="valid_at"):
        memory.search("x", search_type="turns", valid_at=day(2024))


@pytest.mark.slow
def test_every_fact_of_a_conversation_ends_in_turns_that_still_say_so(store, memory):
    for n, turn in enumerate(json.loads(SAMPLE.read_text(encoding="utf-8"))["turns"][:40]):
        message = Message(role="user", name=turn["speaker"], parts=turn["text"], id=f"t{n}")
        store.history.append("a", message, session_id="s")
    memory.distill(apply="merge")
    found = store.context("knowledge").list(filters={"kind": {"$in": ["fact", "summary", "chunk"]}})
    assert {one["kind"] for one in found} == {"fact", "chunk", "summary"}
    for one in found:
        assert memory.explain(one["id"]).is_verified


def test_once_a_turn_says_something_else_what_it_said_is_known_no_more(store, memory):
    memory.add([{**OSLO, "id": "m1"}], session_id="s")
    (hit,) = memory.search("live Oslo", search_type="facts")
    store.history.rewrite("", Message.user("I live in Rome.", id="m1"), session_id="s")
    assert memory.search("live Oslo", search_type="facts") == []
    with pytest.raises(NotFoundError):
        memory.explain(hit.record.id)
    memory.distill(apply="merge")
    assert facts(store) == ["I live in Rome."]


def test_an_explanation_shows_what_took_the_place_of_what_and_who_did_it(store, memory):
    memory.add([OSLO], session_id="s1", user_id="ada")
    added = memory.add([BERGEN], session_id="s2", user_id="ada")
    (new,) = [one["id"] for one in store.context("knowledge").list(filters={"kind": "fact"})]
    explained = memory.explain(new)
    relations = {link.relation: link.target_id for link in explained.links if link.source_id == new}
    assert relations["made_by"] == added.job_id
    assert relations["evidence"] == added.ids[0]
    assert explained.records[relations["supersedes"]].text == "I live in Oslo."
    from_the_old = memory.explain(relations["supersedes"], depth=1).links
    assert [one.source_id for one in from_the_old if one.relation == "supersedes"] == [new]
    from_the_turn = memory.explain(added.ids[0], depth=1)
    assert new in from_the_turn.records


def test_a_trace_has_the_calls_of_tools_among_the_turns(store, memory):
    call = Message(
        role="assistant", parts=(ToolCallPart(name="weather", call_id="c1", arguments={}),)
    )
    store.history.append("", Message.user("I live in Oslo."), session_id="s")
    store.history.append("", call, session_id="s")
    store.history.append(
        "", Message.tool("Rain.", call_id="c1", tool_name="weather"), session_id="s"
    )
    memory.distill(apply="merge")
    events = memory.trace("s")
    assert [one.at for one in events] == sorted(one.at for one in events)
    kinds = [one.kind for one in events]
    assert kinds[:2] == ["turn", "tool_call"]
    assert {"tool_result", "fact", "chunk", "summary", "job"} <= {*kinds}


def test_an_answer_is_found_by_the_question_before_it(memory):
    memory.add([said("Which town is the best?", day(2024), name="Ann")], session_id="s")
    memory.add([said("Tromsø!", day(2024, 1, 2), name="Ben")], session_id="s")
    hits = memory.search("which town is the best", search_type="facts")
    assert [one.record.text for one in hits] == ["Tromsø!", "Which town is the best?"]


def test_what_was_said_is_found_by_who_said_it_and_when(memory):
    memory.add([said("It rained all day.", day(2024, 5, 8), name="Ann")], session_id="s1")
    memory.add([said("It rained all day.", day(2024, 6, 9), name="Ben")], session_id="s2")
    for query, name in (("What did Ann say?", "Ann"), ("9 June 2024", "Ben")):
        (hit, *_) = memory.search(query, search_type="facts")
        assert hit.record.name == name


class Both:
    """Finds two facts in what each turn says."""

    name = "both/1"

    def extract(self, turns):
        return [
            FactCandidate(
                text=f"{what} of {one.text}", source_id=one.id, start=0, end=len(one.text)
            )
            for one in turns
            for what in ("The colour", "The size")
        ]


def test_two_facts_of_one_turn_are_both_found(memory):
    memory.using(extractor=Both()).add("the boat: it is long and red", session_id="s")
    hits = memory.search("colour and size of the boat", search_type="facts")
    assert sorted(hit.record.text.split(" of ")[0] for hit in hits) == ["The colour", "The size"]


def test_a_chunk_says_no_more_than_a_fact_of_the_same_turn(memory):
    memory.add("I have a red boat.", session_id="s")
    assert [hit.record.kind for hit in memory.search("red boat", search_type="facts")] == ["fact"]


@pytest.mark.parametrize("search_type", ["chain", "facts"])
def test_what_was_said_twice_in_the_same_words_is_found_once_as_the_fact_that_it_is(
    store, memory, search_type
):
    noting = memory.using(extractor=NoteExtractor())
    ids = [
        id
        for text in ("Bea bakes on Sundays.", "The weather is fine.", "Bea bakes on Sundays.")
        for id in noting.add(text, session_id="notes", user_id="bea").ids
    ]
    hits = memory.search(
        "when does Bea bake?", user_id="bea", search_type=search_type, evidence=True
    )
    bakes = [hit for hit in hits if hit.record.text == "Bea bakes on Sundays."]
    assert [hit.record.kind for hit in bakes] == ["fact"]
    assert [one.evidence.source_id for one in bakes[0].evidence] == [ids[0], ids[2]]


@pytest.mark.parametrize("search_type", ["facts", "chain", "turns"])
def test_knowledge_is_filtered_by_the_metadata_of_the_turns_that_prove_it(memory, search_type):
    for session, topic, text in (
        ("s1", "home", "I live in Oslo."),
        ("s2", "pets", "I have a dog."),
        ("s3", "old pets", "I have a dog."),
    ):
        memory.add(text, session_id=session, user_id="ada", metadata={"topic": topic})

    def found(filters):
        ask = partial(memory.search, "Oslo dog", user_id="ada", search_type=search_type)
        texts = {hit.record.text for hit in ask(filters=filters)}
        if search_type == "facts":
            assert {one.text for one in memory.list(user_id="ada", filters=filters)} == texts
        return texts

    assert found({"topic": "home"}) == {"I live in Oslo."}
    # A fact that two turns prove is one of both.
    assert found({"topic": "old pets"}) == found({"topic": "pets"}) == {"I have a dog."}
    assert found({"NOT": {"topic": {"in": ["pets", "old pets"]}}}) == {"I live in Oslo."}
    assert found({"OR": [{"topic": "home"}, {"metadata.topic": "pets"}]}) == {
        "I live in Oslo.",
        "I have a dog.",
    }
    assert found({"topic": "work"}) == set()


@pytest.mark.parametrize("key", ["place", "tier", "importance", "pinned", "producer", "job_id"])
def test_a_filter_by_a_key_that_knowledge_uses_itself_is_one_of_the_turns(memory, key):
    for text, value in (("I live in Oslo.", "here"), ("I have a dog.", "there")):
        memory.add(text, user_id="ada", metadata={key: value})
    assert [one.text for one in memory.list(filter={key: "here"})] == ["I live in Oslo."]
    hits = memory.search("Oslo dog", user_id="ada", search_type="facts", filter={key: "there"})
    assert {hit.record.text for hit in hits} == {"I have a dog."}


def test_a_filter_by_what_a_fact_has_itself_begins_with_fact(memory):
    memory.add(["I live in Oslo.", "I like tea."], user_id="ada")
    (tea,) = memory.list(filter={"fact.slot": None, "fact.kind": "preference"})
    memory.pin(tea.id)
    (job,) = memory.jobs.list()
    for filter in ({"fact.pinned": True}, {"fact.importance": {"$lt": 0.8}}):
        assert [one.text for one in memory.list(filter=filter)] == ["I like tea."]
    assert len(memory.list(filter={"fact.job_id": job.id, "fact.tier": "hot"})) == 2


def test_facts_are_filtered_by_what_they_have_themselves(memory):
    memory.add(["I live in Oslo.", "I have a dog."], user_id="ada", metadata={"topic": "me"})
    both = {"AND": [{"topic": "me"}, {"fact.slot": "residence"}, {"kind": "fact"}]}
    (hit,) = memory.search("Oslo dog", user_id="ada", filters=both)
    assert hit.record.text == "I live in Oslo."


def test_a_number_of_hits_is_refused_by_the_name_that_the_caller_gave(memory):
    with pytest.raises(InvalidRequestError, match=r"^limit=-1"):
        memory.search("anything", limit=-1)
