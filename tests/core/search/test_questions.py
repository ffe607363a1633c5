"""Turns that ask rank lower, and hybrid searches weigh vectors by the embedder's own numbers."""

import numpy as np
import pytest

from lance_context_core import ContextStore, Message
from lance_context_core.settings import Convex, SearchOptions

ALONE = {"neighbours": 0, "speaker": 0}


def told(*messages):
    store = ContextStore.open("memory://")
    store.history.append_many("", messages, session_id="s")
    return store


def found(store, query, **options):
    hits = store.history.search(query, options=SearchOptions(**ALONE, **options))
    return {hit.record.id: hit for hit in hits}


def bm25(hit):
    """The score by words of a search by words alone, from bm25 / (bm25 + 10)."""
    return 10 * hit.score / (1 - hit.score)


@pytest.mark.parametrize("mark", ["?", " ? ", "\uff1f", "\u061f"])
def test_a_turn_that_asks_loses_a_quarter_of_its_score(mark):
    asked = Message.user(f"Which museum{mark}", id="asked", name="Ann")
    said = Message.user("A museum of trains.", id="said", name="Ben")
    with told(asked, said) as store:
        usual, without = found(store, "museum"), found(store, "museum", questions=0)
        more = found(store, "museum", questions=0.5)
    assert list(without) == ["asked", "said"]
    assert list(usual) == ["said", "asked"]
    assert bm25(usual["asked"]) == pytest.approx(0.75 * bm25(without["asked"]), rel=1e-4)
    assert bm25(more["asked"]) == pytest.approx(0.5 * bm25(without["asked"]), rel=1e-4)
    assert usual["said"].score == without["said"].score
    for hit in usual.values():
        assert sum(hit.why.values()) == pytest.approx(hit.score)


def test_a_request_of_a_user_without_a_name_keeps_its_score_and_an_assistants_question_does_not():
    messages = [
        Message.user("Which museum?", id="user"),
        Message.assistant("Which museum?", id="assistant"),
    ]
    with told(*messages) as store:
        usual, without = found(store, "museum"), found(store, "museum", questions=0)
    assert usual["user"].score == without["user"].score
    assert usual["assistant"].score < without["assistant"].score


def test_memories_are_not_demoted():
    with ContextStore.open("memory://") as store:
        store.memory.add(["Which museum?"])
        usual = store.memory.search("museum")[0].score
        assert usual == store.memory.search("museum", options=SearchOptions(questions=0))[0].score


@pytest.mark.parametrize("mode", ["vector", "hybrid"])
def test_questions_are_demoted_on_the_scale_of_each_mode(mode):
    texts = {"asked": "x?", "said": "x.", "other": "y."}
    vectors = {"asked": [1, 0], "said": [1, 0.1], "other": [0, 1]}
    with ContextStore.open("memory://", embedder=Points(vectors, texts)) as store:
        for id, text in texts.items():
            store.history.append("", Message.user(text, id=id, name="Ann"), session_id=id)
        options = SearchOptions(**ALONE, questions=0.5)
        hits = store.history.search("x?", mode=mode, options=options)
    assert [hit.record.id for hit in hits][:2] == ["said", "asked"]
    assert all(0 <= hit.score <= 1 for hit in hits)


class Points:
    """Known vectors, by the text within a composed one."""

    model, dimension = "points", 2

    def __init__(self, vectors, texts, **attributes):
        self.vectors = {texts[id]: vector for id, vector in vectors.items()}
        vars(self).update(attributes)

    def embed_documents(self, texts):
        return np.array([self.embed_query(text) for text in texts], np.float32)

    def embed_query(self, text):
        return np.array(next(v for known, v in self.vectors.items() if known in text), np.float32)


TEXTS = {
    "near": "zebra",
    "worded": "kite kite kite",
    "both": "kite lamp",
    "low": "kite " + "sea " * 40,
}
VECTORS = {"near": [1, 0], "worded": [0, 1], "both": [1, 0.1], "low": [0, 1]}


def ranked(options=None, **attributes):
    points = Points({**VECTORS, "asked": [1, 0]}, {**TEXTS, "asked": "kite."}, **attributes)
    with ContextStore.open("memory://", embedder=points) as store:
        for id, text in TEXTS.items():
            store.history.append("", Message.user(text, id=id), session_id=id)
        hits = store.history.search("kite.", options=options)
    return [(hit.record.id, round(hit.score, 6)) for hit in hits]


def test_a_hybrid_search_weighs_vectors_as_their_embedder_says():
    assert ranked(vector_weight=0.9) == ranked(SearchOptions(fusion=Convex(vector_weight=0.9)))
    assert ranked(vector_weight=0.9) != ranked()
    mine = SearchOptions(fusion=Convex(vector_weight=0.2))
    assert ranked(mine, vector_weight=0.9) == ranked(mine)


def test_a_search_looks_at_as_many_candidates_as_the_embedder_says():
    assert first(n_candidates=1) == first(SearchOptions(n_candidates=1)) == "worded"
    assert first() == first(SearchOptions(n_candidates=20), n_candidates=1) == "both"


def first(options=None, **attributes):
    points = Points({**VECTORS, "asked": [1, 0]}, {**TEXTS, "asked": "kite."}, **attributes)
    with ContextStore.open("memory://", embedder=points) as store:
        for id, text in TEXTS.items():
            store.history.append("", Message.user(text, id=id), session_id=id)
        return store.history.search("kite.", options=options, limit=1)[0].record.id
