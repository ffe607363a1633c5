"""A filter is applied before the best are taken: who matches is found, whoever else is better."""

import pytest
from core.conformance.doubles import WordVectors
from core.filters.oracle import holds
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_context_core import ContextStore, Document, Message
from lance_context_core.settings import IndexPolicy, SearchOptions

MODES = ("hybrid", "vector", "text")
BETTER = 2_000
"""Rows that answer the question word for word, and that no filter of these tests lets through."""

QUESTION = "blue vase"
ROWS = [
    {"id": f"r{n}", "metadata": {"colour": "red'\"; --" if n % 2 else "green", "n": n % 5}}
    for n in range(30)
]
"""What filters choose among: each holds one of the question's words, and much else."""

CONDITIONS = st.sampled_from(
    [
        {"colour": "green"},
        {"colour": "red'\"; --"},
        {"colour": {"$ne": "blue"}},
        {"colour": {"$in": ["green", "none"]}},
        {"n": {"$lt": 3}},
        {"n": {"$gte": 4}},
        {"n": {"$exists": True}},
        {"$not": {"colour": {"$eq": "blue"}}},
    ]
)
FILTERS = st.lists(CONDITIONS, min_size=1, max_size=2).flatmap(
    lambda some: st.sampled_from([{"$and": some}, {"$or": some}])
)
BLUE = {"colour": "blue"}


def text_of(row):
    return f"a vase that {row['id']} bought long ago together with many other things"


class Lookups:
    """Texts of few words cost little to embed again and again."""

    def __init__(self):
        self._model = WordVectors()
        self._known = {}
        self.model, self.dimension = self._model.model, self._model.dimension

    def embed_query(self, text):
        if text not in self._known:
            self._known[text] = self._model.embed_query(text)
        return self._known[text]

    def embed_documents(self, texts):
        return [self.embed_query(text) for text in texts]


@pytest.fixture(scope="module", params=["no index", "indexes"])
def store(request):
    with ContextStore.open("memory://", embedder=Lookups()) as store:
        better = [QUESTION] * BETTER
        store.memory.add(better, user_id="u", metadata=BLUE)
        store.vectors("docs").add([Document(text=text, metadata=BLUE) for text in better])
        messages = [Message.user(text, metadata=BLUE) for text in better]
        store.history.append_many("", messages, session_id="s")
        rows = [Message.user(text_of(r), id=r["id"], metadata=r["metadata"]) for r in ROWS]
        store.history.append_many("", rows, session_id="s")
        store.memory.add(rows, user_id="u")
        store.vectors("docs").add(
            [Document(id=r["id"], text=text_of(r), metadata=r["metadata"]) for r in ROWS]
        )
        if request.param == "indexes":
            store.maintain(policy=IndexPolicy(vector_rows=1_000, scalar_rows=1_000))
        yield store


@settings(max_examples=settings.default.max_examples // 2)
@given(
    filter=FILTERS,
    mode=st.sampled_from(MODES),
    limit=st.integers(1, 40),
    options=st.sampled_from(
        [None, SearchOptions(neighbours=0.0), SearchOptions(n_candidates=1, mmr_lambda=0.7)]
    ),
)
def test_a_filtered_search_returns_k_when_k_rows_match(store, filter, mode, limit, options):
    matching = {row["id"] for row in ROWS if holds(filter, row)}
    asked = {"mode": mode, "filter": filter, "limit": limit, "options": options}
    for hits in (
        store.history.search(QUESTION, **asked),
        store.memory.search(QUESTION, user_id="u", **asked),
        store.vectors("docs").search(QUESTION, **asked),
    ):
        found = [hit.record.id for hit in hits]
        assert len(found) == len(set(found)) == min(limit, len(matching))
        assert set(found) <= matching


@pytest.mark.parametrize("mode", MODES)
def test_without_the_filter_the_better_rows_win(store, mode):
    alone = SearchOptions(neighbours=0.0)
    for room in (store.history, store.vectors("docs")):
        hits = room.search(QUESTION, mode=mode, limit=10, options=alone)
        assert {hit.record.text for hit in hits} == {QUESTION}


@pytest.mark.parametrize("mode", MODES)
def test_a_session_of_its_own_is_searched_as_if_there_were_no_other(store, mode):
    store.history.append_many("", [Message.user("one vase")], session_id="lonely")
    hits = store.history.search(QUESTION, session_id="lonely", mode=mode)
    assert [hit.record.text for hit in hits] == ["one vase"]
    store.history.clear("", session_id="lonely")
