"""Thirty days of a life: facts by rules and by a model, their changes, an undo.

python examples/knowledge.py [DIR]

No model is called: a script answers in its place, with typical mistakes.
"""

import json
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lance_context_core import ContextStore, Knowledge, Message
from lance_context_core.knowledge import ModelExtractor, RuleExtractor
from lance_context_core.models import FunctionModel

LIFE = json.loads((Path(__file__).parent / "data" / "thirty_days.json").read_text(encoding="utf-8"))
WHO = LIFE["user"]


@dataclass
class Person:
    """The profile's schema."""

    name: str
    residence: str
    employer: str | None = None
    choir_day: str | None = None
    shoe_size: int | None = None


FAULTS = {
    "instruction": "refused, since it is an order to whoever reads it, and no fact",
    "mended_fenced": "taken, once the fence around its JSON was off",
    "not_said": "refused, since it quotes what nobody has said",
}
"""Descriptions of faults in the model's answer, by name."""

RULES = RuleExtractor(fields={"shoe_size": r"[Mm]y shoe size is (?P<value>\d+)"})


def scripted(prompt: str) -> str:
    """The answer of a model: the facts of the given turns, in a fence."""
    turns = [json.loads(line) for line in prompt.splitlines() if line.startswith('{"turn"')]
    found = [_fact(fact, turn) for turn in turns for fact in LIFE["facts"] if _says(turn, fact)]
    return f"```json\n{json.dumps({'facts': found})}\n```"


def _says(turn: Mapping[str, Any], fact: Mapping[str, Any]) -> bool:
    return fact["quote"] in turn["text"]


def _fact(fact: Mapping[str, Any], turn: Mapping[str, Any]) -> dict[str, Any]:
    told = {name: fact[name] for name in ("text", "slot", "value") if name in fact}
    return {**told, "turn": turn["turn"], "quote": fact.get("wrong_quote", fact["quote"])}


def live(store: ContextStore, days: range) -> None:
    """Some days of turns, as any framework would write them: a session a week."""
    history = store.scope(user_id=WHO).history
    for day, text in LIFE["turns"]:
        if day in days:
            said = Message.user(text, created_at=datetime(2025, 4, day, 9, tzinfo=UTC))
            history.append("assistant", said, session_id=f"week {1 + (day - 1) // 7}")


def profile(memory: Knowledge) -> None:
    """The profile by field, with evidence and earlier values."""
    known = memory.profile(Person, user_id=WHO)
    print("\n== Profile")
    for name, field in known.fields.items():
        was = " → ".join(one.text for one in field.history)
        proof = field.evidence[0]
        print(f"  {name:10} {was}   “{proof.text}”, {proof.said_at:%d %B}")
    print(f"  not known: {', '.join(known.missing) or 'nothing'}")


def propose(memory: Knowledge, whose: str) -> str:
    """A distillation on a branch, read before it counts."""
    proposal = memory.distill()
    n_turns = proposal.report["turns"]
    print(f"\n== Proposed by {whose}: of {n_turns} turns {_told(proposal.report)}")
    for line in _changes(proposal.diff):
        print(f"  {line}")
    return proposal.job_id


def _told(decisions: Mapping[str, int]) -> str:
    """How many facts are new, and of how many earlier ones something else is true now."""
    n_ended = decisions.get("supersede", 0)
    verb = "is" if n_ended == 1 else "are"
    ended = f"; {n_ended} earlier {verb} true no more" if n_ended else ""
    return f"{decisions.get('add', 0)} new facts{ended}"


def _changes(diff: Any) -> Iterator[str]:
    facts = [one for one in diff.added if one.kind == "fact" and one.superseded_by_id is None]
    yield from (f"+ {one.text}" for one in facts)
    for change in diff.changed:
        if change.after.kind == "fact" and change.after.superseded_by_id is not None:
            yield f"- {change.after.text}"


def ask(memory: Knowledge, question: str) -> None:
    """The hits with their evidence."""
    print(f"\n? {question}")
    hits = memory.search(
        question, user_id=WHO, top_k=1, search_type="facts", filter={"kind": "fact"}, evidence=True
    )
    for hit in hits:
        proof = hit.evidence[0]
        print(f"  {hit.record.text}   “{proof.text}”, {proof.said_at:%d %B}")
    if not hits:
        print("  nothing is known")


def main(directory: Path) -> None:
    """Tell a story."""
    with ContextStore.open(directory) as store:
        by_rules = store.knowledge.using(extractor=RULES)
        live(store, range(1, 15))
        by_rules.merge(propose(by_rules, "rules, without a model, after two weeks"))
        live(store, range(15, 31))
        by_rules.merge(propose(by_rules, "rules, after thirty days"))
        profile(by_rules)

        model = FunctionModel(scripted, name="script")
        by_model = store.knowledge.using(extractor=ModelExtractor(model, profile=Person))
        print("\n== A model reads the thirty days again, in one more session")
        told = [
            Message.user(text, created_at=datetime(2025, 4, day, 10, tzinfo=UTC))
            for day, text in LIFE["turns"]
        ]
        added = by_model.add(told, user_id=WHO, session_id="told again")
        print(f"  {_told(added.decisions)}")
        for name, n in sorted(added.faults.items()):
            print(f"  {n} x {name}: {FAULTS[name]}")
        ask(by_model, "When does she sing in a choir?")
        profile(by_model)

        undone = by_model.undo(added.job_id or "")
        n_hidden = len(undone.retired)
        print(
            f"\n== Undone: {n_hidden} facts, chunks and a summary that the model's job made are hidden"
        )
        print("  Only the facts by rules remain")
        ask(by_model, "When does she sing in a choir?")

        gone = store.scope(user_id=WHO).erase()
        print(f"\n== Forgotten: {gone.records} records are in no file any more")
        ask(by_model, "Where does she live?")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary))
