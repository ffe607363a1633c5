"""Knowledge with evidence, without a model: what is known of somebody, what changed, and an undo.

python examples/knowledge.py
"""

import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from lance_context_core import ContextStore, Knowledge, Message

DIARY = [
    (datetime(2025, 3, 1, tzinfo=UTC), "Hi! My name is Ingrid. I live in Oslo."),
    (datetime(2025, 3, 9, tzinfo=UTC), "I work at Nordlys. I love skiing, by the way."),
    (datetime(2025, 3, 17, tzinfo=UTC), "My dog is called Balto. I'm allergic to nuts."),
    (datetime(2025, 3, 30, tzinfo=UTC), "We moved to Bergen yesterday! I just joined Havfisk."),
]


def told(store: ContextStore) -> None:
    """A month of turns, as any framework would write them."""
    for moment, text in DIARY:
        store.scope(user_id="ingrid").history.append(
            "assistant", Message.user(text, created_at=moment), session_id=f"{moment:%d %B}"
        )


def known(memory: Knowledge, question: str) -> None:
    """What is known, with what proves it."""
    print(f"\n? {question}")
    for hit in memory.search(question, user_id="ingrid", top_k=2, evidence=True):
        proofs = ", ".join(f"{one.said_at:%d %B}" for one in hit.evidence if one.said_at)
        print(f"  {hit.record.text}  ({hit.record.kind}, said on {proofs})")


def main(directory: Path) -> None:
    """Tell a story."""
    with ContextStore.open(directory) as store:
        told(store)
        memory = store.knowledge

        proposal = memory.distill()
        print(f"Proposed on {proposal.branch}: {dict(proposal.report)}")
        for record in proposal.diff.added:
            if record.kind == "fact" and record.superseded_by_id is None:
                print(f"  + {record.text}")
        memory.merge(proposal.job_id)

        known(memory, "where does she live, Oslo or Bergen?")
        known(memory, "where does she work?")

        ingrid = store.scope(user_id="ingrid", agent_id="assistant").knowledge
        wrong = ingrid.add("I moved to Rome. Just kidding!")
        known(memory, "where has she moved?")
        undone = memory.undo(wrong.job_id or "")
        print(
            f"\nUndone: {len(undone.retired)} things hidden, {len(undone.revived)} current again."
        )
        known(memory, "where has she moved?")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary))
