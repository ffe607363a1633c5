"""Notes of a small project: who and what they speak of, and where they contradict each other.

`python examples/graph.py [DRAWING.svg]`
"""

import sys
from pathlib import Path

from lance_context_core import ContextStore
from lance_context_core.graph import Relation, SourceText, Statement, draw
from lance_context_core.results import Graph

NOTES = {
    "minutes.md": "Present: Ada Lovelace and Bob Noyce. Apollo ships in June. Apollo runs on Fuji.",
    "mail.txt": "Hello Bob Noyce, the Apollo deadline moved to May. Please tell Ada Lovelace.",
    "chat.log": "so Fuji is down again, and Ada says that Apollo waits for it #outage",
}


def main(drawing: Path | None = None) -> None:
    """Read the notes, relate what they speak of, and show what they do not agree on."""
    with ContextStore.open("memory://") as store:
        graph = store.graph
        graph.extract([SourceText(id=name, text=text) for name, text in NOTES.items()])
        apollo, fuji, ada = (graph.find(name)[0] for name in ("Apollo", "Fuji", "Ada Lovelace"))
        graph.add_relations(
            [
                Relation(source_id=apollo.id or "", target_id=fuji.id or "", type="runs_on"),
                Relation(source_id=ada.id or "", target_id=apollo.id or "", type="leads"),
            ]
        )
        merger = graph.merge(
            graph.find("Ada")[0].id or "",
            into=ada.id or "",
            reason="who else?",
            source_ids=["chat.log"],
        )
        print(f"{merger.entity.name} is {ada.name}: {graph.aliases(ada.id or '')}")
        reached = [one.entity.name for one in graph.impact(fuji.id or "")]
        print(f"If {fuji.name} fails, it reaches {', '.join(reached)}.")
        graph.statements.add(
            [
                Statement(
                    subject_id=apollo.id or "",
                    predicate="deadline",
                    object=month,
                    source_ids=(note,),
                )
                for month, note in (("June", "minutes.md"), ("May", "mail.txt"))
            ]
        )
        show_contradictions(graph)
        graph.statements.resolve(
            lambda both: next(
                one.id for one in (both.earlier, both.later) if "mail.txt" in one.source_ids
            ),
            reason="the mail came after the meeting",
        )
        show_contradictions(graph)
        if drawing is not None:
            draw_graph(graph, drawing)
            print(f"The graph is drawn in {drawing.name}.")


def show_contradictions(graph: Graph) -> None:
    """Say what contradicts what, and which of both holds."""
    for one in graph.statements.contradictions():
        sides = " or ".join(
            sorted(
                f"{side.object} ({', '.join(side.source_ids)})" for side in (one.earlier, one.later)
            )
        )
        stays = {one.earlier.id: one.earlier, one.later.id: one.later}.get(one.stays)
        held = f"{stays.object}, since {one.reason}" if stays else f"open, since {one.reason}"
        print(f"{one.predicate} of {one.subject.name}: {sides}? {held}.")


def draw_graph(graph: Graph, drawing: Path) -> None:
    """Draw what there is, up to 300 entities."""
    drawing.write_text(draw(graph.subgraph(limit=300)), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
