"""What a source said of an entity or a relation goes with it, and what another said stays."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from lance_context_core import ContextStore, Message
from lance_context_core.graph import Entity, Relation, SourceText

SOURCES = ("a", "b", "c")

said = st.fixed_dictionaries(
    {},
    optional={"x": st.sampled_from([1, True, None, {"y": 1}]), "z": st.sampled_from([0, "w"])},
)
added = st.tuples(
    st.just("add"),
    st.lists(st.sampled_from(SOURCES), max_size=2, unique=True),
    said,
    st.sampled_from([None, 0.0, 0.5, 2.0]),
)
forgotten = st.tuples(st.just("forget"), st.lists(st.sampled_from(SOURCES), min_size=1, max_size=2))
extracted = st.tuples(st.just("extract"), st.sampled_from(SOURCES))


class Model:
    """What is left of a thing, by walking through all that was ever said of it."""

    def __init__(self) -> None:
        self.log: list[tuple[str | None, dict[str, Any], float | None]] = []
        self.sources: set[str] = set()
        self.is_there = False

    def add(self, sources: list[str], properties: dict[str, Any], weight: float | None) -> None:
        self.is_there = True
        self.sources |= set(sources)
        for source in sources or [None]:
            self.log = [one for one in self.log if one[0] != source]
            self.log.append((source, properties, weight))

    def forget(self, sources: list[str]) -> None:
        if not self.sources & set(sources):
            return
        self.sources -= set(sources)
        self.log = [one for one in self.log if one[0] not in sources]
        if not self.sources:
            self.is_there, self.log = False, []

    @property
    def properties(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for _, properties, _ in self.log:
            found.update(properties)
        return found

    @property
    def weight(self) -> float | None:
        return next((one for _, _, one in reversed(self.log) if one is not None), None)


@given(st.lists(added | forgotten | extracted, max_size=8))
def test_properties_and_weights_are_those_of_the_sources_that_are_left(calls: Any) -> None:
    with ContextStore.open("memory://") as store:
        graph, entity, relation = store.graph, Model(), Model()
        ends = graph.add_entities([Entity(id="from", name="from"), Entity(id="to", name="to")])
        assert len(ends) == 2
        for what, *told in calls:
            if what == "add":
                sources, properties, weight = told
                more = {"source_ids": tuple(sources), "properties": properties}
                graph.add(
                    [Entity(name="Ada", type="name", **more)],
                    [Relation(source_id="from", target_id="to", weight=weight, **more)],
                )
                entity.add(sources, properties, None)
                relation.add(sources, properties, weight)
            elif what == "extract":
                (source,) = told
                graph.extract([SourceText(id=source, text="so Ada said")])
                if entity.is_there:
                    entity.sources.add(source)
                else:
                    entity.add([source], {}, None)
                relation.forget([source])  # the text, read again, says nothing of it
            else:
                (sources,) = told
                graph.forget(sources)
                entity.forget(sources)
                relation.forget(sources)
            found = graph.find("Ada")
            assert bool(found) == entity.is_there
            for one in found:
                assert _exact(one.properties) == _exact(entity.properties)
                assert set(one.source_ids) == entity.sources
            links = graph.relations()
            assert bool(links) == relation.is_there
            for link in links:
                assert _exact(link.properties) == _exact(relation.properties)
                assert link.weight == relation.weight
                assert graph.neighbours("from").relations == (link,)


def _exact(properties: Any) -> dict[str, str]:
    """Values by name, in which 1 and True differ."""
    return {name: repr(one) for name, one in properties.items()}


def test_an_erased_record_takes_its_properties_out_of_every_file(tmp_path: Any) -> None:
    with ContextStore.open(tmp_path) as store:
        said, other = (
            store.history.append("helper", Message.user(text), session_id="1")
            for text in ("Ada is zq77vx", "Ada is tall")
        )
        store.graph.add_entities(
            [Entity(name="Ada", properties={"is": "tall"}, source_ids=(other,))]
        )
        store.graph.add_entities(
            [Entity(name="Ada", properties={"is": "zq77vx", "so": "zq77vx"}, source_ids=(said,))]
        )
        assert store.graph.find("Ada")[0].properties == {"is": "zq77vx", "so": "zq77vx"}
        store.erase(ids=[said])
        assert store.graph.find("Ada")[0].properties == {"is": "tall"}
        files = [one for one in tmp_path.rglob("*") if one.is_file()]
        assert [one.name for one in files if b"zq77vx" in one.read_bytes()] == []
