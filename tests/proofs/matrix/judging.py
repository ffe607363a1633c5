"""What every pair of frameworks is asked to do, and whether it does it."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from proofs.matrix import script
from proofs.matrix.limits import ASPECTS, is_left_out, translated

ROOM = {"agentscope1": "doc_id"}
"""The metadata key that says of a document in which room it belongs; AgentScope 1.x knows no other."""


@dataclass(slots=True)
class Outcome:
    """What came of one pair: a problem for each aspect, or None where all is well."""

    problems: dict = field(default_factory=dict)

    @property
    def broken(self):
        return {aspect: problem for aspect, problem in self.problems.items() if problem}


def judged(workers):
    """The outcome of each pair, by writer and reader; `workers` by the names of the frameworks."""
    matrix = Matrix(workers)
    for step in (matrix.write, matrix.read_all, matrix.go_on, matrix.forget):
        with ThreadPoolExecutor(len(workers)) as pool:
            list(pool.map(step, workers))
    with ThreadPoolExecutor(len(workers)) as pool:
        list(pool.map(matrix.miss, workers))
    matrix.complete()
    return matrix.outcomes


class Matrix:
    """The frameworks over one store. A step is taken by all of them at once."""

    def __init__(self, workers):
        self._workers = workers
        self.outcomes = {(writer, reader): Outcome() for writer in workers for reader in workers}

    # The steps

    def write(self, writer):
        """Conversations, memories and documents for everybody."""
        try:
            self._write(writer, self._workers[writer])
        except WorkerError as error:
            for reader in self._workers:
                self._note("history", writer, reader, f"it could not be written: {error}")

    def _write(self, writer, ask):
        lacking = ask("lacks")
        if set(lacking) != _verbs_left_out(writer):
            raise WorkerError(
                f"the limits say that there is no {_verbs_left_out(writer)}: {lacking}"
            )
        if not is_left_out("history", writer, "core"):
            ask("say", _ada(writer), "trip", script.TRIP)
            ask("say", _ada(writer), "kitchen", script.KITCHEN)
            ask("say", _ben(writer), "trip", script.OF_BEN)
            ask("say", _ada(writer), "begun", script.BEGUN)
            for reader in self._workers:
                ask("say", _ada(writer), f"gone-{reader}", script.GONE)
        if "remember" not in lacking:
            ask("remember", _ada(writer), script.MEMORIES)
            ask("remember", _ben(writer), script.MEMORIES_OF_BEN)
            for reader in self._workers:
                ask("remember", _eve(writer, reader), script.MEMORIES)
        if "add_documents" not in lacking:
            ask("add_documents", f"rooms-{writer}", script.DOCUMENTS)
            for reader in self._workers:
                ask("add_documents", f"rooms-{writer}-{reader}", script.DOCUMENTS)

    def read_all(self, reader):
        """Whatever was written."""
        for writer in self._workers:
            self._try("history", writer, reader, self._history)
            self._try("session", writer, reader, self._session)
            self._try("user", writer, reader, self._user)
            self._try("said, words", writer, reader, self._said("summit", "text", script.TRIP[8]))
            self._try(
                "said, meaning", writer, reader, self._said("beverage", "vector", script.TRIP[11])
            )
            self._try("memory, words", writer, reader, self._memory("allergic", "text", 0))
            self._try("memory, meaning", writer, reader, self._memory("locomotive", "vector", 1))
            self._try("documents", writer, reader, self._documents)

    def go_on(self, writer):
        """Everybody goes on, one after the other, with what the writer has begun."""
        for reader in self._workers:
            self._try("goes on", writer, reader, self._goes_on)
        others = (one for one in self._workers if one != writer)
        said = [script.went_on(one) for one in others if not is_left_out("goes on", writer, one)]
        for reader in self._workers:
            self._try("goes on", writer, reader, self._goes_on_with(said))

    def forget(self, reader):
        """A conversation, memories and a document of every writer."""
        ask = self._workers[reader]
        for writer in self._workers:
            key = ROOM.get(writer, "room")
            for aspect, verb, *arguments in (
                ("forget", "forget", _ada(writer), f"gone-{reader}"),
                ("forget memories", "forget_memories", _eve(writer, reader)),
                (
                    *("delete", "delete_documents", f"rooms-{writer}-{reader}"),
                    *("beverage", {key: "cellar"}),
                ),
            ):
                self._try(aspect, writer, reader, lambda *_, a=(verb, *arguments): ask(*a))

    def miss(self, reader):
        """What was forgotten, and nothing else."""
        for writer in self._workers:
            self._try("forget", writer, reader, self._forgotten)
            self._try("forget memories", writer, reader, self._memories_forgotten)
            self._try("delete", writer, reader, self._deleted)

    def complete(self):
        """That nothing was left out but what the limits say."""
        for (writer, reader), outcome in self.outcomes.items():
            for aspect in ASPECTS:
                is_asked = aspect in outcome.problems
                if is_asked == is_left_out(aspect, writer, reader):
                    self._note(aspect, writer, reader, "it was not asked, or is left out")

    # The aspects

    def _history(self, writer, reader):
        found = self._workers[reader]("lines", _ada(writer), "trip")
        problem = _difference(found, translated(script.TRIP, writer, reader))
        if writer == reader:
            problem = problem or self._workers[writer]("altered", _ada(writer), "trip")
        return problem

    def _session(self, writer, reader):
        ask = self._workers[reader]
        found = ask("lines", _ada(writer), "kitchen")
        problem = _difference(found, script.KITCHEN)
        if is_left_out("said, words", writer, reader):
            return problem
        in_kitchen = ask("search_said", _ada(writer), "please", "text", "kitchen")
        anywhere = ask("search_said", _ada(writer), "please", "text", None)
        in_both = [script.TRIP[9]["text"], script.KITCHEN[0]["text"]]
        return (
            problem
            or _difference(in_kitchen, in_both[1:])
            or _difference(sorted(anywhere), sorted(in_both))
        )

    def _user(self, writer, reader):
        ask = self._workers[reader]
        problem = None
        if not is_left_out("history", writer, reader):
            problem = _difference(ask("lines", _ben(writer), "trip"), script.OF_BEN)
        if not is_left_out("said, words", writer, reader):
            found = ask("search_said", _ben(writer), "summit", "text", None)
            problem = problem or _difference(found, [script.OF_BEN[0]["text"]])
        if not is_left_out("memory, words", writer, reader):
            for mode, question in (("text", "allergic"), ("vector", "illness")):
                found = ask("recall", _ben(writer), question, mode)
                problem = problem or _difference(found, script.MEMORIES_OF_BEN)
        return problem

    def _said(self, question, mode, line):
        def ask(writer, reader):
            found = self._workers[reader]("search_said", _ada(writer), question, mode, "trip")
            # The message may hold more than the line.
            return None if line["text"] in found[0] else f"{found!r} instead of {line['text']!r}"

        return ask

    def _memory(self, question, mode, number):
        def ask(writer, reader):
            found = self._workers[reader]("recall", _ada(writer), question, mode)
            return _difference(found, [script.MEMORIES[number]])

        return ask

    def _documents(self, writer, reader):
        ask = self._workers[reader]
        for room, text in script.DOCUMENTS.items():
            where = {ROOM.get(writer, "room"): room}
            # What is nearest to the question stands in another room twice.
            found = ask("find_documents", f"rooms-{writer}", "beverage", where)
            if problem := _difference(found, [text]):
                return problem
        return None

    def _goes_on(self, writer, reader):
        """The writer finds what the reader has added, and its own messages as they were."""
        if reader != writer:
            line = script.went_on(reader)
            self._workers[reader]("say", _ada(writer), "begun", [line])
            found = self._workers[writer]("lines", _ada(writer), "begun")
            if problem := _difference(found[-1:], [line]):
                return problem
        return self._workers[writer]("altered", _ada(writer), "begun")

    def _goes_on_with(self, said):
        """In the end everybody reads what everybody has added."""

        def ask(writer, reader):
            found = self._workers[reader]("lines", _ada(writer), "begun")
            return _difference(found, translated(script.BEGUN, writer, reader) + said)

        return ask

    def _forgotten(self, writer, reader):
        problem = None
        for one in (writer, reader, "core"):
            found = self._workers[one]("lines", _ada(writer), f"gone-{reader}")
            problem = problem or _difference(found, [])
        return problem or self._history(writer, reader)

    def _memories_forgotten(self, writer, reader):
        problem = None
        for one in (writer, reader, "core"):
            found = self._workers[one]("recall", _eve(writer, reader), "allergic", "text")
            problem = problem or _difference(found, [])
        return problem or self._memory("allergic", "text", 0)(writer, reader)

    def _deleted(self, writer, reader):
        key = ROOM.get(writer, "room")
        collection = f"rooms-{writer}-{reader}"
        problem = None
        for one in (writer, reader, "core"):
            for room, text in script.DOCUMENTS.items():
                found = self._workers[one]("find_documents", collection, "beverage", {key: room})
                expected = [] if room == "cellar" else [text]
                problem = problem or _difference(found, expected)
        return problem

    # Notes

    def _try(self, aspect, writer, reader, ask):
        if is_left_out(aspect, writer, reader):
            return
        try:
            problem = ask(writer, reader)
        except WorkerError as error:
            problem = str(error)
        self._note(aspect, writer, reader, problem)

    def _note(self, aspect, writer, reader, problem):
        problems = self.outcomes[writer, reader].problems
        problems[aspect] = problems.get(aspect) or problem


class WorkerError(Exception):
    """A framework raised an exception; the message has the traceback."""


def _verbs_left_out(name):
    """What the limits say that a framework has no word for, as a writer and as a reader."""
    written = {"remember": "memory, words", "add_documents": "documents"}
    read = {
        "forget": "forget",
        "search_said": "said, words",
        "forget_memories": "forget memories",
        "find_documents": "documents",
        "delete_documents": "delete",
    }
    return {verb for verb, aspect in written.items() if is_left_out(aspect, name, "core")} | {
        verb for verb, aspect in read.items() if is_left_out(aspect, "core", name)
    }


def _ada(writer):
    return f"ada of {writer}"


def _ben(writer):
    return f"ben of {writer}"


def _eve(writer, reader):
    return f"eve of {writer}, whom {reader} forgets"


def _difference(found, expected):
    """What is wrong with what was found; None if nothing is."""
    if found == expected:
        return None
    for number, (one, other) in enumerate(zip(found, expected, strict=False)):
        if one != other:
            return f"number {number} is {one!r}, not {other!r}"
    return f"{len(found)} found, not {len(expected)}: {found!r:.300}"
