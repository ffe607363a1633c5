"""The matrix itself: it sees a fault, and tells it.

That the frameworks pass is seen where they are, by `make matrix`.
"""

import asyncio

import pytest
from proofs.matrix.judging import WorkerError, judged
from proofs.matrix.limits import ASPECTS
from proofs.matrix.page import printed
from proofs.matrix.participant_core import Participant
from proofs.matrix.script import embedder
from proofs.matrix.worker import Worker

from lance_context_core import AsyncContextStore


class Here:
    """The core as a worker that needs no process, and that may be made to fail."""

    def __init__(self, place, fault=None):
        self._worker = Worker(Participant(AsyncContextStore.open(place, embedder=embedder())))
        self._fault = fault

    def __call__(self, verb, *arguments):
        found = asyncio.run(self._worker.answer(verb, arguments))
        return self._fault(verb, arguments, found) if self._fault else found


def outcome(place, fault=None):
    made = judged({"core": Here(place, fault)})
    return made, made["core", "core"]


def test_the_core_reads_what_it_wrote(tmp_path):
    made, core = outcome(tmp_path)
    assert core.problems == dict.fromkeys(ASPECTS)
    assert printed(made).endswith("12 of 12 checks hold, of 1 pairs.")


def loses_the_last_line(verb, arguments, found):
    return found[:-1] if verb == "lines" and arguments[1] == "trip" else found


def finds_what_is_another_s(verb, arguments, found):
    return [*found, "Ada is allergic to nuts"] if verb == "recall" else found


def ignores_filters(verb, arguments, found):
    return ["Ginger tea takes five minutes"] if verb == "find_documents" else found


def raises(verb, arguments, found):
    if verb == "search_said":
        raise WorkerError("no such table")
    return found


@pytest.mark.parametrize(
    ("fault", "broken"),
    [
        (loses_the_last_line, {"history", "user", "forget"}),
        (finds_what_is_another_s, {"user", "memory, words", "memory, meaning", "forget memories"}),
        (ignores_filters, {"documents", "delete"}),
        (raises, {"said, words", "said, meaning", "session", "user"}),
    ],
)
def test_a_fault_is_seen_and_told(tmp_path, fault, broken):
    made, core = outcome(tmp_path, fault)
    assert core.broken.keys() == broken
    told = printed(made)
    assert f"{12 - len(broken)} ✗{len(broken)}" in told
    for aspect in broken:
        assert f"✗ core → core, {aspect}: " in told
