"""Entities found in texts: by rules, by a model, by whoever is given; and drawn."""

import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_context_core import Message
from lance_context_core.errors import InvalidRequestError, NotFoundError
from lance_context_core.graph import (
    Entity,
    Extracted,
    FoundEntity,
    FoundRelation,
    FoundStatement,
    ModelEntityExtractor,
    Relation,
    RuleEntityExtractor,
    SourceText,
    SubGraph,
    draw,
)
from lance_context_core.models import FunctionModel


def found(text):
    made = RuleEntityExtractor().extract(SourceText(id="r", text=text)).entities
    assert all(text[one.start : one.end].strip("`") == one.name for one in made)
    return {(one.name, one.type) for one in made}


# Rules


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("write to ada.l+x@mail.example.org.", {("ada.l+x@mail.example.org", "email")}, id="e-mail"),
        pytest.param("see https://a.example/b?c=(1), or", {("https://a.example/b?c=(1", "url")}, id="url"),
        pytest.param("due 2026-05-01 or 3 May 2026, not May 7", {("2026-05-01", "date"), ("3 May 2026", "date"), ("May 7", "date")}, id="dates"),
        pytest.param("am 3. März 2026, le 14 juillet 1789, 2026年5月1日", {("3. März 2026", "date"), ("14 juillet 1789", "date"), ("2026年5月1日", "date")}, id="dates elsewhere"),
        pytest.param("it cost $1,200.50 and 30 EUR, up 5%", {("$1,200.50", "amount"), ("30 EUR", "amount"), ("5%", "amount")}, id="amounts"),
        pytest.param("tagged #früh and #東京, not a#b", {("#früh", "hashtag"), ("#東京", "hashtag")}, id="hashtags"),
        pytest.param("call `rm -rf`, read_csv, os.path.join() or HttpServer", {("rm -rf", "code"), ("read_csv", "code"), ("os.path.join()", "code"), ("HttpServer", "code")}, id="code"),
        pytest.param("yesterday Ada Lovelace met Bob in Oslo", {("Ada Lovelace", "name"), ("Bob", "name"), ("Oslo", "name")}, id="names"),
        pytest.param("Вчера Анна Каренина была в Москве", {("Анна Каренина", "name"), ("Москве", "name")}, id="Russian names"),
        pytest.param("Χθες η Μαρία είδε τον Νίκο", {("Μαρία", "name"), ("Νίκο", "name")}, id="Greek names"),
        pytest.param("昨日、田中さんは『雪国』を読んだ", {("田中", "person"), ("雪国", "title")}, id="Japanese"),
        pytest.param("Weather is fine. Nothing happened.", set(), id="no names"),
        pytest.param("Fuji is down. Nobody knows why Fuji stopped.", {("Fuji", "name")}, id="a name that begins a sentence"),
        pytest.param("The Apollo Project starts", {("Apollo Project", "name")}, id="an article before a name"),
        pytest.param("", set(), id="nothing"),
    ],
)  # fmt: skip
def test_what_is_known_by_how_it_is_written_is_found(text, expected):
    assert found(text) == expected


@given(st.text(max_size=300))
def test_what_is_found_stands_in_the_text_whatever_that_is(text):
    found(text)


# Into the graph


async def test_the_messages_of_a_session_are_read_into_the_graph(store, graph):
    ids = [
        await store.history.append("a", Message.user(one), session_id="s")
        for one in ("yesterday Ada met Bob", "then Ada left")
    ]
    report = await graph.extract(session_id="s")
    assert (report.sources, report.mentions) == (2, 3)
    (ada,) = await graph.find("Ada")
    assert ada.source_ids == tuple(ids)
    places = [(one.source_id, one.text, one.start) for one in await graph.mentions(ada.id)]
    assert places == [(ids[0], "Ada", 10), (ids[1], "Ada", 5)]
    assert {one.name for one in (await graph.subgraph(session_id="s")).entities} == {"Ada", "Bob"}
    await store.erase(ids=[ids[0]])
    assert [one.name for one in await graph.entities()] == ["Ada"]
    assert (await graph.get(ada.id)).source_ids == (ids[1],)


async def test_the_passages_of_a_document_are_read_into_the_graph(store, graph):
    document = await store.documents.add(b"In Oslo lives Ada.", name="a.txt")
    await graph.extract(document_id=document.id)
    (mention,) = await graph.mentions((await graph.find("Oslo"))[0].id, document_id=document.id)
    assert mention.source_id == (await store.documents.chunks(document.id))[0].id
    with pytest.raises(NotFoundError):
        await graph.extract(document_id="none")


async def test_a_text_that_is_read_again_replaces_what_was_found_in_it(graph):
    await graph.extract(
        [SourceText(id="r", text="here Ada met Bob"), SourceText(id="q", text="so Bob")]
    )
    await graph.extract([SourceText(id="r", text="here Cy met Ada")])
    assert {one.name: one.source_ids for one in await graph.entities()} == {
        "Ada": ("r",),
        "Bob": ("q",),
        "Cy": ("r",),
    }
    assert (await graph.count())["mentions"] == 3


async def test_what_is_there_stays_as_it_says_itself(graph):
    await graph.add_entities([Entity(name="Ada", type="name", properties={"born": 1815})])
    await graph.extract([SourceText(id="r", text="here ADA, and Ada")])
    (ada,) = [one for one in await graph.find("ada") if one.type == "name"]
    assert (ada.name, ada.properties, ada.source_ids) == ("Ada", {"born": 1815}, ("r",))


class Given:
    """An extractor that finds what it is given."""

    name = "given"

    def __init__(self, extracted):
        self.extracted = extracted

    def extract(self, source):
        return self.extracted


async def test_relations_and_statements_lead_to_what_was_found_with_them(graph):
    both = [FoundEntity(name=one, type="t", start=0, end=1) for one in ("Ada", "Acme")]
    extracted = Extracted(
        entities=both,
        relations=[
            FoundRelation(source="ada", target="ACME", type="works_at"),
            FoundRelation(source="Ada", target="nobody", type="knows"),
        ],
        statements=[FoundStatement(subject="Ada", predicate="employer", object="acme")],
    )
    report = await graph.extract([SourceText(id="r", text="..")], extractor=Given(extracted))
    assert (report.entities, report.relations, report.statements) == (2, 1, 1)
    (relation,) = await graph.relations()
    (said,) = await graph.statements.list()
    assert (relation.type, relation.target_id) == ("works_at", said.object_id)


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(None, id="nothing"),
        pytest.param(
            Extracted(entities=[FoundEntity(name="a", type="t", start=0, end=99)]),
            id="outside of the text",
        ),
        pytest.param(
            Extracted(entities=[FoundEntity(name=" ", type="t", start=0, end=1)]), id="a blank name"
        ),
    ],
)
async def test_what_an_extractor_may_not_find_is_refused_and_nothing_is_written(graph, wrong):
    with pytest.raises(InvalidRequestError):
        await graph.extract([SourceText(id="r", text="a")], extractor=Given(wrong))
    assert (await graph.count())["entities"] == 0


async def test_one_of_three_says_what_is_read(graph):
    for arguments in ({}, {"session_id": "s", "document_id": "d"}):
        with pytest.raises(InvalidRequestError, match="pass one of"):
            await graph.extract(**arguments)


# A model


async def test_of_a_model_only_what_the_text_says_is_taken(graph):
    answer = {
        "entities": [
            {"name": "Ada Lovelace", "type": "person", "quote": "Ada"},
            {"name": "Acme", "type": "organisation", "quote": "acme"},
            {"name": "Bob", "type": "person", "quote": "Bob"},
            {"name": "", "type": "person", "quote": "Ada"},
        ],
        "relations": [
            {"source": "Ada Lovelace", "type": "works_at", "target": "Acme"},
            {"source": "Ada Lovelace", "type": "knows", "target": "Bob"},
        ],
        "statements": [
            {
                "subject": "Acme",
                "predicate": "founded",
                "object": "2020",
                "valid_from": "2020-01-01",
            },
            {"subject": "Acme", "predicate": "size", "object": "9", "valid_from": "soon"},
        ],
    }
    asked = []

    def model(prompt):
        asked.append(prompt)
        return answer

    text = "Ada works at Acme, founded in 2020."
    report = await graph.extract(
        [SourceText(id="r", text=text)], extractor=ModelEntityExtractor(FunctionModel(model))
    )
    assert len(asked) == 1
    assert text in asked[0]
    assert (report.entities, report.relations, report.statements) == (2, 1, 2)
    assert report.faults == {"not_said": 1, "wrong_schema": 1, "unknown_entity": 1, "no_date": 1}
    assert report.usage["calls"] == 1
    assert {one.text for one in await graph.mentions()} == {"Ada", "Acme"}


# Drawing


def test_a_graph_is_drawn_as_an_image_whatever_its_names_are():
    names = ["<script>&\"'", "\x00\x08\ufffe", "日本語", "x" * 500]
    graph = SubGraph(
        entities=tuple(Entity(name=name, type=name, id=name) for name in names),
        relations=(
            Relation(source_id=names[0], target_id=names[1], type="]]>"),
            Relation(source_id=names[2], target_id=names[2]),
        ),
    )
    picture = draw(graph)
    root = ET.fromstring(picture)  # noqa: S314 - our own
    assert len(root.findall(".//{*}line")) == 1
    assert "<script>" not in picture
    assert picture == draw(graph)


@pytest.mark.parametrize("n", [0, 1, 2])
def test_a_small_graph_is_drawn_within_the_picture(n):
    graph = SubGraph(entities=tuple(Entity(name=f"{k}", id=f"{k}") for k in range(n)))
    root = ET.fromstring(draw(graph, width=300, height=300))  # noqa: S314 - our own
    places = [
        (float(one.get("cx")), float(one.get("cy"))) for one in root.findall(".//{*}circle[@r='9']")
    ]
    assert len(places) == n
    assert all(0 <= x <= 300 and 0 <= y <= 300 for x, y in places)


def test_what_relates_two_entities_is_one_line_with_a_head_at_each_end_that_it_leads_to():
    graph = SubGraph(
        entities=tuple(Entity(name=name, id=name) for name in "abc"),
        relations=(
            Relation(source_id="a", target_id="b", type="knows"),
            Relation(source_id="b", target_id="a", type="likes"),
            Relation(source_id="b", target_id="a", type="knows"),
            Relation(source_id="c", target_id="a", type="pays"),
        ),
    )
    root = ET.fromstring(draw(graph))  # noqa: S314 - our own
    heads = [(one.get("marker-start"), one.get("marker-end")) for one in root.findall(".//{*}line")]
    assert heads == [("url(#to)", "url(#to)"), (None, "url(#to)")]
    types = [one.text for one in root.findall(".//{*}text[@class='type']")]
    assert types == ["knows, likes", "pays"]


def test_a_long_name_at_the_edge_is_in_the_picture():
    graph = SubGraph(entities=tuple(Entity(name="W" * 28 + f"{k}", id=f"{k}") for k in range(9)))
    root = ET.fromstring(draw(graph, width=400, height=300))  # noqa: S314 - our own
    middles = [float(one.get("x")) for one in root.findall(".//{*}text[@class='name']")]
    assert len(middles) == 9
    assert all(100 <= one <= 300 for one in middles)


def test_more_than_can_be_told_apart_is_not_drawn():
    graph = SubGraph(entities=tuple(Entity(name=f"{k}", id=f"{k}") for k in range(301)))
    with pytest.raises(InvalidRequestError, match="301"):
        draw(graph)


async def test_a_refused_text_is_counted_and_the_others_are_read(graph):
    def answer(prompt):
        if "Oslo" in str(prompt):
            return "no JSON"
        return {
            "entities": [{"name": "Ada", "type": "person", "quote": "Ada"}],
            "relations": [],
            "statements": [],
        }

    texts = [
        SourceText(id="1", text="Ada said"),
        SourceText(id="2", text="in Oslo"),
        SourceText(id="3", text=" \n"),
        SourceText(id="4", text="so Ada"),
    ]
    done = await graph.extract(texts, extractor=ModelEntityExtractor(FunctionModel(answer)))
    assert (done.sources, done.refused, done.mentions) == (4, 2, 2)
    assert sum(done.faults.values()) >= 2
    assert done.faults["empty_text"] == 1
    (ada,) = await graph.entities()
    assert ada.source_ids == ("1", "4")


async def test_a_text_with_an_unusable_answer_keeps_its_earlier_extraction(graph):
    text = SourceText(id="1", text="yesterday Ada met Bob")
    await graph.extract([text])
    before = await graph.mentions()
    model = ModelEntityExtractor(FunctionModel(lambda _: "no JSON"))
    assert (await graph.extract([text], extractor=model)).refused == 1
    assert await graph.mentions() == before != []
