"""The reference memory server's own tests of its graph, one to one, asked of this server.

They are those of `src/memory/__tests__/knowledge-graph.test.ts` of the protocol's reference servers, release
0.6.3. What these say of a file, such as that nothing of its lines is seen in an answer, is here said of the store.
"""

import pytest

pytestmark = pytest.mark.anyio

ALICE = {"name": "Alice", "entityType": "person", "observations": ["works at Acme Corp"]}
BOB = {"name": "Bob", "entityType": "person", "observations": ["likes programming"]}
KNOWS = {"from": "Alice", "to": "Bob", "relationType": "knows"}


def people(*names):
    return [{"name": name, "entityType": "person", "observations": []} for name in names]


def names(answer):
    return [one["name"] for one in answer["entities"]]


class TestCreateEntities:
    async def test_creates_new_entities(self, call):
        assert (await call("create_entities", entities=[ALICE, BOB]))["entities"] == [ALICE, BOB]
        assert names(await call("read_graph")) == ["Alice", "Bob"]

    async def test_does_not_create_duplicate_entities(self, call):
        await call("create_entities", entities=[ALICE])
        assert (await call("create_entities", entities=[ALICE]))["entities"] == []
        assert len((await call("read_graph"))["entities"]) == 1

    async def test_handles_empty_entity_arrays(self, call):
        assert (await call("create_entities", entities=[]))["entities"] == []


class TestCreateRelations:
    @pytest.fixture(autouse=True)
    async def both(self, call):
        await call("create_entities", entities=people("Alice", "Bob"))

    async def test_creates_new_relations(self, call):
        assert (await call("create_relations", relations=[KNOWS]))["relations"] == [KNOWS]
        assert (await call("read_graph"))["relations"] == [KNOWS]

    async def test_does_not_create_duplicate_relations(self, call):
        await call("create_relations", relations=[KNOWS])
        assert (await call("create_relations", relations=[KNOWS]))["relations"] == []
        assert (await call("read_graph"))["relations"] == [KNOWS]

    async def test_handles_empty_relation_arrays(self, call):
        assert (await call("create_relations", relations=[]))["relations"] == []


class TestAddObservations:
    async def test_adds_observations_to_existing_entities(self, call):
        await call("create_entities", entities=[ALICE])
        new = {"entityName": "Alice", "contents": ["likes coffee", "has a dog"]}
        (told,) = (await call("add_observations", observations=[new]))["results"]
        assert told == {"entityName": "Alice", "addedObservations": ["likes coffee", "has a dog"]}
        (alice,) = (await call("read_graph"))["entities"]
        assert alice["observations"] == ["works at Acme Corp", "likes coffee", "has a dog"]

    async def test_does_not_add_duplicate_observations(self, call):
        await call("create_entities", entities=[ALICE])
        first = {"entityName": "Alice", "contents": ["likes coffee"]}
        await call("add_observations", observations=[first])
        new = {"entityName": "Alice", "contents": ["likes coffee", "has a dog"]}
        (told,) = (await call("add_observations", observations=[new]))["results"]
        assert told["addedObservations"] == ["has a dog"]
        (alice,) = (await call("read_graph"))["entities"]
        assert len(alice["observations"]) == 3

    async def test_fails_for_a_non_existent_entity(self, call):
        new = {"entityName": "NonExistent", "contents": ["some observation"]}
        said = await call.error("add_observations", observations=[new])
        assert said == "Entity with name NonExistent not found"


class TestDeleteEntities:
    async def test_deletes_entities(self, call):
        await call("create_entities", entities=people("Alice", "Bob"))
        await call("delete_entities", entityNames=["Alice"])
        assert names(await call("read_graph")) == ["Bob"]

    async def test_cascades_to_relations(self, call):
        await call("create_entities", entities=people("Alice", "Bob", "Charlie"))
        on = {"from": "Bob", "to": "Charlie", "relationType": "knows"}
        await call("create_relations", relations=[KNOWS, on])
        await call("delete_entities", entityNames=["Bob"])
        graph = await call("read_graph")
        assert (names(graph), graph["relations"]) == (["Alice", "Charlie"], [])

    async def test_handles_deleting_non_existent_entities(self, call):
        told = await call("delete_entities", entityNames=["NonExistent"])
        assert told == {"success": True, "message": "Entities deleted successfully"}
        assert names(await call("read_graph")) == []


class TestDeleteObservations:
    async def test_deletes_observations_from_entities(self, call):
        both = {**ALICE, "observations": ["works at Acme Corp", "likes coffee"]}
        await call("create_entities", entities=[both])
        wrong = {"entityName": "Alice", "observations": ["likes coffee"]}
        await call("delete_observations", deletions=[wrong])
        (alice,) = (await call("read_graph"))["entities"]
        assert alice["observations"] == ["works at Acme Corp"]

    async def test_handles_deleting_from_non_existent_entities(self, call):
        wrong = {"entityName": "NonExistent", "observations": ["some observation"]}
        told = await call("delete_observations", deletions=[wrong])
        assert told == {"success": True, "message": "Observations deleted successfully"}
        assert names(await call("read_graph")) == []


class TestDeleteRelations:
    async def test_deletes_specific_relations(self, call):
        await call("create_entities", entities=people("Alice", "Bob"))
        works = {**KNOWS, "relationType": "works_with"}
        await call("create_relations", relations=[KNOWS, works])
        told = await call("delete_relations", relations=[KNOWS])
        assert told == {"success": True, "message": "Relations deleted successfully"}
        assert (await call("read_graph"))["relations"] == [works]


class TestReadGraph:
    async def test_is_empty_where_nothing_was_written(self, call):
        assert await call("read_graph") == {"entities": [], "relations": []}

    async def test_returns_the_complete_graph(self, call):
        alone = {"from": "Alice", "to": "Alice", "relationType": "self"}
        await call("create_entities", entities=[ALICE])
        await call("create_relations", relations=[alone])
        assert await call("read_graph") == {"entities": [ALICE], "relations": [alone]}


class TestSearchNodes:
    @pytest.fixture(autouse=True)
    async def working(self, call):
        await call(
            "create_entities",
            entities=[
                {**ALICE, "observations": ["works at Acme Corp", "likes programming"]},
                {**BOB, "observations": ["works at TechCo"]},
                {"name": "Acme Corp", "entityType": "company", "observations": ["tech company"]},
            ],
        )
        await call(
            "create_relations",
            relations=[
                {"from": "Alice", "to": "Acme Corp", "relationType": "works_at"},
                {"from": "Bob", "to": "Acme Corp", "relationType": "competitor"},
            ],
        )

    @pytest.mark.parametrize(
        ("query", "found"),
        [
            pytest.param("Alice", ["Alice"], id="by the name"),
            pytest.param("company", ["Acme Corp"], id="by the type"),
            pytest.param("programming", ["Alice"], id="by an observation"),
            pytest.param("ALICE", ["Alice"], id="in any case"),
            pytest.param("NonExistent", [], id="nothing"),
        ],
    )
    async def test_searches(self, call, query, found):
        assert names(await call("search_nodes", query=query)) == found

    async def test_includes_relations_where_at_least_one_endpoint_matches(self, call):
        answer = await call("search_nodes", query="Acme")
        assert names(answer) == ["Alice", "Acme Corp"]
        assert len(answer["relations"]) == 2

    async def test_includes_outgoing_relations_to_unmatched_entities(self, call):
        answer = await call("search_nodes", query="Alice")
        (relation,) = answer["relations"]
        assert (relation["from"], relation["to"]) == ("Alice", "Acme Corp")

    async def test_returns_an_empty_graph_for_no_matches(self, call):
        answer = await call("search_nodes", query="NonExistent")
        assert answer == {"entities": [], "relations": []}


class TestOpenNodes:
    @pytest.fixture(autouse=True)
    async def chain(self, call):
        await call("create_entities", entities=people("Alice", "Bob", "Charlie"))
        on = {"from": "Bob", "to": "Charlie", "relationType": "knows"}
        await call("create_relations", relations=[KNOWS, on])

    @pytest.mark.parametrize(
        ("wanted", "found", "ends"),
        [
            pytest.param(
                ["Alice", "Bob"], ["Alice", "Bob"], ["AB", "BC"], id="all that are connected"
            ),
            pytest.param(["Bob"], ["Bob"], ["AB", "BC"], id="both sides of one"),
            pytest.param(["Alice"], ["Alice"], ["AB"], id="outgoing to what is not opened"),
            pytest.param(["Charlie"], ["Charlie"], ["BC"], id="incoming from what is not opened"),
            pytest.param(["NonExistent"], [], [], id="what is not there"),
            pytest.param([], [], [], id="none"),
        ],
    )
    async def test_opens(self, call, wanted, found, ends):
        answer = await call("open_nodes", names=wanted)
        assert names(answer) == found
        assert [one["from"][0] + one["to"][0] for one in answer["relations"]] == ends


class TestPersistence:
    async def test_persists_across_servers(self, call, serving, store):
        await call("create_entities", entities=[{**ALICE, "observations": ["persistent data"]}])
        async with serving(store) as another:
            assert names(await another("read_graph")) == ["Alice"]

    @pytest.mark.parametrize(
        ("tool", "arguments"),
        [
            pytest.param("read_graph", {}, id="read"),
            pytest.param("search_nodes", {"query": "Alice"}, id="search"),
            pytest.param("open_nodes", {"names": ["Alice", "Bob"]}, id="open"),
        ],
    )
    async def test_shows_nothing_of_how_it_is_kept(self, call, tool, arguments):
        await call("create_entities", entities=[ALICE])
        await call("create_relations", relations=[{**KNOWS, "to": "Alice"}])
        answer = await call(tool, **arguments)
        assert [*answer["entities"][0]] == ["name", "entityType", "observations"]
        assert [*answer["relations"][0]] == ["from", "to", "relationType"]
