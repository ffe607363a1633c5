"""What a property graph answers in Cypher, and to a retriever whose model writes it."""

import pytest
from llama_index.core.graph_stores.types import ChunkNode, EntityNode, Relation
from llama_index.core.indices.property_graph import CypherTemplateRetriever, TextToCypherRetriever
from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata
from llama_index.core.schema import QueryBundle
from llama_index_lance_context import LanceContextPropertyGraphStore
from pydantic import BaseModel

from lance_context_core.errors import InvalidRequestError
from lance_context_core.graph import Entity

WHO_LIKES = "MATCH (a:person)-[:LIKES]->(b:drink) WHERE b.name = $name RETURN a.name AS who"


@pytest.fixture
def graph(store):
    made = LanceContextPropertyGraphStore(store)
    made.upsert_nodes(
        [
            EntityNode(name="Ada", label="person", properties={"born": 1815}),
            EntityNode(name="tea", label="drink"),
            ChunkNode(text="Ada likes tea", id_="c1"),
        ]
    )
    made.upsert_relations([Relation(label="LIKES", source_id="Ada", target_id="tea")])
    return made


class Writer(CustomLLM):
    """Writes one query, and keeps what it was asked."""

    query: str
    asked: list

    @property
    def metadata(self):
        return LLMMetadata()

    def complete(self, prompt, *given, **named):
        self.asked.append(prompt)
        return CompletionResponse(text=self.query)

    def stream_complete(self, prompt, *given, **named):
        raise NotImplementedError


async def test_a_query_is_answered_by_rows(graph):
    assert graph.supports_structured_queries
    assert graph.structured_query(WHO_LIKES, {"name": "tea"}) == [{"who": "Ada"}]
    assert await graph.astructured_query(WHO_LIKES, {"name": "cake"}) == []
    assert graph.structured_query("MATCH (a:Entity) RETURN count(*) AS n") == [{"n": 2}]


def test_a_query_finds_what_others_wrote_into_the_graph_of_the_store_and_no_other_scope(
    graph, store
):
    store.graph.add_entities([Entity(name="Ben", type="person")])
    scoped = LanceContextPropertyGraphStore(store.scope(user_id="eve"))
    persons = "MATCH (a:person) RETURN a.name AS who ORDER BY who"
    assert graph.structured_query(persons) == [{"who": "Ada"}, {"who": "Ben"}]
    assert scoped.structured_query(persons) == []


@pytest.mark.parametrize(
    "query", ["CREATE (a:person) RETURN a", "MATCH (a) WITH a RETURN a", "which?"]
)
def test_what_writes_or_cannot_be_answered_is_refused(graph, query):
    with pytest.raises(InvalidRequestError, match="query"):
        graph.structured_query(query)


async def test_the_schema_names_labels_types_and_what_leads_where(graph):
    schema = graph.get_schema()
    assert list(schema["node_props"]) == ["drink", "person"]
    assert list(schema["rel_props"]) == ["LIKES"]
    assert schema["relationships"] == [{"start": "person", "type": "LIKES", "end": "drink"}]
    for kind in ("node_props", "rel_props"):
        for label, properties in schema[kind].items():
            names = ", ".join(f"x.{one['property']}" for one in properties)
            pattern = (
                f"(x:{label})" if kind == "node_props" else f"(:Entity)-[x:{label}]->(:Entity)"
            )
            (row,) = graph.structured_query(f"MATCH {pattern} RETURN {names}")
            assert list(row) == names.split(", ")
    assert await graph.aget_schema(refresh=True) == schema
    text = graph.get_schema_str()
    assert await graph.aget_schema_str() == text
    assert "(:person)-[:LIKES]->(:drink)" in text


def test_an_empty_graph_has_an_empty_schema(store):
    graph = LanceContextPropertyGraphStore(store)
    assert set(map(len, graph.get_schema().values())) == {0}


def test_a_model_that_writes_cypher_reads_the_schema_and_finds_what_it_asks_for(graph):
    query = WHO_LIKES.replace("$name", "'tea'")
    model = Writer(query=query, asked=[])
    retriever = TextToCypherRetriever(graph, llm=model, response_template="{response}")
    (found,) = retriever.retrieve_from_graph(QueryBundle("Who likes tea?"))
    assert found.text == "[{'who': 'Ada'}]"
    assert graph.get_schema_str() in model.asked[0]


def test_a_template_is_filled_in(graph):
    class Named(BaseModel):
        """What somebody likes."""

        name: str

    class Filler(Writer):
        def structured_predict(self, *_, **__):
            return Named(name="tea")

    retriever = CypherTemplateRetriever(graph, Named, WHO_LIKES, llm=Filler(query="", asked=[]))
    (found,) = retriever.retrieve_from_graph(QueryBundle("Who likes tea?"))
    assert "Ada" in found.text
