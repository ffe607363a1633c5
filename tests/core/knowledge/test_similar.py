"""Facts that say nearly the same become one, with the evidence of both; those that differ in a word do not."""

import numpy as np
import pytest
from core.knowledge.living import facts, opened

from lance_context_core import InvalidRequestError
from lance_context_core.knowledge import NoteExtractor, SimilarConsolidator

SAME = [
    ("I love hiking in the mountains.", "I really love hiking in the mountains!"),
    ("I am allergic to peanuts.", "I'm allergic to peanuts."),
    ("I have two cats.", "I've got two cats."),
    ("I want to learn the piano.", "I'd like to learn the piano."),
    ("I play the piano every evening.", "Every evening I play the piano."),
    ("I enjoy cooking Italian food.", "I like to cook Italian food."),
]
DIFFERENT = [
    ("I like tea.", "I don't like tea."),
    ("I like tea.", "I like no tea."),
    ("I can swim.", "I can't swim."),
    ("I always eat breakfast.", "I never eat breakfast."),
    ("I have two cats.", "I have three cats."),
    ("I have 2 cats.", "I have 3 cats."),
    ("I met Anna at the library.", "I met Anne at the library."),
    ("Anna gave me a book.", "Ben gave me a book."),
    ("I am planning a trip to Japan in May.", "I am planning a trip to Japan in June."),
    ("I moved to the new flat yesterday.", "I moved out of the new flat yesterday."),
    ("My left knee hurts.", "My right knee hurts."),
    ("I used to smoke.", "I smoke."),
    ("I ran before breakfast.", "I ran after breakfast."),
]


class Near:
    """An embedder to which all that is said is nearly the same."""

    model, dimension = "near", 2

    def embed_documents(self, texts):
        return np.array([[1.0, len(text) / 1e6] for text in texts], dtype=np.float32)

    def embed_query(self, text):
        return self.embed_documents([text])[0]


class AsyncNear(Near):
    """The same, to be awaited."""

    async def aembed_documents(self, texts):
        return Near.embed_documents(self, texts)

    async def aembed_query(self, text):
        return Near.embed_query(self, text)

    embed_documents = embed_query = None


def remembering(store, **options):
    return store.knowledge.using(
        extractor=NoteExtractor(), consolidator=SimilarConsolidator(**options)
    )


def told(store, sentences, **options):
    """What is known once each has been said in a session of its own."""
    memory = remembering(store, **options)
    return [memory.add(one, session_id=f"s{n}", user_id="ada") for n, one in enumerate(sentences)]


@pytest.mark.parametrize("pair", [pytest.param(one, id=one[1]) for one in SAME])
def test_what_is_said_again_in_nearly_the_same_words_is_one_fact_with_both_evidences(store, pair):
    first, second = told(store, pair)
    assert second.decisions == {"merge": 1}
    (known,) = store.context("knowledge").list(filters={"kind": "fact"})
    assert (known["text"], known["source_ids"]) == (pair[0], [*first.ids, *second.ids])
    store.knowledge.undo(second.job_id)
    (known,) = store.context("knowledge").list(filters={"kind": "fact"})
    assert known["source_ids"] == [*first.ids]


@pytest.mark.parametrize("pair", [pytest.param(one, id=one[1]) for one in DIFFERENT])
def test_what_differs_in_a_name_a_number_or_a_no_stays_two_facts_however_near(store, pair):
    told(store, pair, embedder=Near())
    assert sorted(facts(store)) == sorted(pair)


def test_what_is_less_near_than_the_threshold_stays_two_facts(store):
    told(store, ("I love hiking.", "I love the opera."))
    assert len(facts(store)) == 2


def test_an_embedder_may_be_one_to_be_awaited(store):
    told(store, ("I love hiking.", "I adore hiking."), embedder=AsyncNear())
    assert facts(store) == ["I love hiking."]


def test_without_such_a_consolidator_nothing_is_merged_that_is_not_said_in_the_same_words(store):
    memory = store.knowledge.using(extractor=NoteExtractor())
    for n, one in enumerate(SAME[0]):
        memory.add(one, session_id=f"s{n}", user_id="ada")
    assert sorted(facts(store)) == sorted(SAME[0])


def test_several_facts_of_one_call_are_merged_into_one_known_fact(store):
    memory = remembering(store)
    memory.add("I have two cats.", session_id="s0", user_id="ada")
    again = ["I've got two cats.", "I have got two cats!"]
    added = memory.add(again, session_id="s1", user_id="ada")
    assert (added.decisions, added.faults) == ({"merge": 2}, {})
    assert facts(store) == ["I have two cats."]


def test_facts_of_another_user_or_about_another_person_are_not_merged(tmp_path, clock):
    with opened(tmp_path, clock) as store:
        memory = remembering(store, embedder=Near())
        for user, name in (("ada", "Ann"), ("ada", "Ben"), ("bob", "Ann")):
            turn = {"role": "user", "name": name, "content": f"I {'really ' * len(user)}like tea."}
            memory.add([turn], session_id=f"{user}-{name}", user_id=user)
        assert len(facts(store)) == 3


@pytest.mark.parametrize("threshold", [0, 1.5, True, "high"])
def test_a_threshold_that_is_no_cosine_is_refused(threshold):
    with pytest.raises(InvalidRequestError, match="threshold"):
        SimilarConsolidator(threshold=threshold)
