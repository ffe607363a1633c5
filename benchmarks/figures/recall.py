"""Evidence recall: whether a search in a conversation finds the turns that answer a question."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import feather

from benchmarks.bench import SIDES, STORE, Bench
from benchmarks.embedding import embed
from benchmarks.processes import Side, SideError
from benchmarks.registry import Row, Target, figure

_K = 10


@figure("recall", "Evidence recall in conversations, R@10")
def evidence_recall(bench: Bench) -> list[Row]:
    """The mean over questions of the share of their evidence that the first ten turns hold."""
    what = "R@10 with the local embedder, vs. LanceDB's default hybrid search"
    target = Target(at_least=0.82)
    paths = sorted(bench.conversations.glob("*.json")) if bench.conversations else []
    if not paths:
        note = "not run: pass --conversations DIR, a folder of conversations in JSON"
        return [Row(what=what, unit="share", target=target, notes=(note,))]
    shares: dict[str, list[float]] = {}
    notes = [f"{len(paths)} conversations"]
    for name in SIDES:
        try:
            side = bench.start(name)
            shares[name] = [
                share
                for number, path in enumerate(paths)
                for share in _one(bench, name, side, path, called=f"c{number}")
            ]
        except SideError as error:
            shares.pop(name, None)
            notes.append(bench.failed(name, error))
    values = {name: sum(given) / len(given) for name, given in shares.items()}
    asked = {len(given) for given in shares.values()}
    notes += [f"{count:,} questions with evidence" for count in asked]
    return [
        Row(
            what=what,
            unit="share",
            values=values,
            judged=values.get(STORE),
            target=target,
            notes=tuple(notes),
        )
    ]


def _one(bench: Bench, name: str, side: Side, path: Path, *, called: str) -> list[float]:
    """The share of its evidence that is found, for each question that has any."""
    data = json.loads(path.read_text(encoding="utf-8"))
    turns: Sequence[Mapping[str, Any]] = data["turns"]
    known = {turn["id"] for turn in turns}
    asked = [
        (question["question"], evidence)
        for question in data["questions"]
        if (evidence := set(question["evidence"]) & known)
    ]
    uri = str(bench.folder / f"conversations-{name}")
    if name == STORE:
        side.ask("conversation", uri=uri, name=called, turns=turns)
        vectors: list[list[float]] = [[] for _ in asked]
    else:
        texts = str(_table(bench, called, turns))
        side.ask("conversation", uri=uri, name=called, texts=texts)
        vectors = embed([text for text, _ in asked]).tolist()
    shares = []
    for (text, evidence), vector in zip(asked, vectors, strict=True):
        found = side.ask("recall", name=called, text=text, vector=vector, limit=_K)
        shares.append(len(evidence & set(found)) / len(evidence))
    return shares


def _table(bench: Bench, name: str, turns: Sequence[Mapping[str, Any]]) -> Path:
    """The turns as somebody would store them by hand: date, speaker, text and caption in one."""
    texts = [_composed(turn) for turn in turns]
    vectors = embed(texts)
    table = pa.table(
        {
            "id": [turn["id"] for turn in turns],
            "text": texts,
            "vector": pa.FixedSizeListArray.from_arrays(
                pa.array(vectors.ravel()), vectors.shape[1]
            ),
        }
    )
    path = bench.folder / f"{name}.feather"
    feather.write_feather(table, path, compression="uncompressed")
    return path


def _composed(turn: Mapping[str, Any]) -> str:
    moment = datetime.fromisoformat(turn["session_time"])
    caption = f" ({turn['image_caption']})" if turn["image_caption"] else ""
    return f"[{moment.day} {moment:%B %Y}] {turn['speaker']}: {turn['text']}{caption}"
