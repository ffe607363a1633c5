"""Whether the journals of all processes, and what is read in the end, tell the same story."""

from bisect import bisect_left
from collections import Counter, defaultdict
from dataclasses import dataclass, field

from proofs.soak.talk import Batch, TornError, batches, digests, vector_of


@dataclass(slots=True)
class Written:
    """A batch, and what its writer noted of it."""

    batch: Batch
    session: str
    began: float
    """When its writing first began."""
    acknowledged: float = float("inf")


@dataclass(slots=True)
class Verdict:
    """What was checked, and what is wrong."""

    problems: list = field(default_factory=list)
    checked: Counter = field(default_factory=Counter)


def judged(journals, sessions, rows, samples, seen):
    """The verdict on one soak.

    `journals`: the notes of each process, by its name. `sessions`: those that the store tells of.
    `rows`: the text and the vector of each record in its table. `samples`: (session, batch, size) that
    were searched for. `seen`: by framework what it read and found in the end.
    """
    verdict = Verdict()
    written = _written(journals)
    wanted = {one.session for one in written.values() if one.acknowledged < float("inf")}
    if lost := wanted - set(sessions):
        verdict.problems.append(f"the store does not tell of the sessions {sorted(lost)}")
    orders = _orders(verdict, written, seen["core"]["texts"])
    _check_readers(verdict, seen)
    _check_records(verdict, written, orders, len(rows))
    texts = {text for one in written.values() for text in one.batch.texts}
    rows = [(text, vector) for text, vector in rows if text in texts]
    _check_vectors(verdict, rows)
    for session, names in orders.items():
        _check_session(verdict, written, session, names)
    for name, notes in journals.items():
        _check_reads(verdict, name, notes, written, orders)
        _check_errors(verdict, name, notes)
    _check_found(verdict, samples, seen, rows)
    return verdict


def _written(journals):
    written = {}
    for notes in journals.values():
        for one in notes:
            if one["what"] == "begun":
                batch = Batch(one["batch"], one["size"])
                written.setdefault(batch.name, Written(batch, one["session"], one["at"]))
            elif one["what"] == "done":
                written[one["batch"]].acknowledged = one["at"]
    return written


def _orders(verdict, written, texts):
    """The batches of each session, in order, as far as they are what somebody wrote."""
    orders = {}
    for session, told in texts.items():
        try:
            names = batches(told)
        except TornError as error:
            verdict.problems.append(f"{session}: {error}")
            continue
        orders[session] = [name for name in names if name in written]
        for name in names:
            if name not in written:
                verdict.problems.append(f"{session}: nobody wrote {name}, which is there")
            elif written[name].session != session:
                verdict.problems.append(f"{session}: {name} belongs to {written[name].session}")
    return orders


def _check_readers(verdict, seen):
    """Every framework sees the same."""
    for framework, one in seen.items():
        for session, texts in seen["core"]["texts"].items():
            verdict.checked["sessions read"] += 1
            if one["texts"].get(session) != texts:
                n = len(one["texts"].get(session, []))
                verdict.problems.append(
                    f"{session}: {framework} reads {n} messages, and not the {len(texts)} of the core"
                )


def _check_records(verdict, written, orders, n_rows):
    """What was acknowledged is there, once; nothing else is in the table."""
    there = Counter(name for names in orders.values() for name in names)
    for name, n in there.items():
        if n > 1:
            verdict.problems.append(f"{name} is there {n} times")
    for name, one in written.items():
        if one.acknowledged < float("inf"):
            verdict.checked["acknowledged batches"] += 1
            verdict.checked["acknowledged messages"] += one.batch.size
            if not there[name]:
                verdict.problems.append(f"{one.session}: {name} was acknowledged, and is lost")
        else:
            verdict.checked["batches in doubt"] += 1
            verdict.checked["of these there"] += there[name]
    n_messages = sum(written[name].batch.size * n for name, n in there.items())
    if n_rows != n_messages:
        verdict.problems.append(f"the table holds {n_rows} records, the sessions {n_messages}")


def _check_vectors(verdict, rows):
    """Each record has the vector of its text."""
    for text, vector in rows:
        verdict.checked["vectors"] += 1
        if vector != vector_of(text):
            verdict.problems.append(f"{text}: the table {_held(rows, text)}")


def _held(rows, text):
    """What of a text, and its vector, is in the table."""
    vectors = [vector for there, vector in rows if there == text]
    if not vectors:
        return "does not have it"
    if None in vectors:
        return "has no vector of it"
    if all(vector == vector_of(text) for vector in vectors):
        return "has it with its vector"
    texts = [there for there, _ in rows if vector_of(there) in vectors]
    return f"has it with a vector of {texts or 'nothing'}"


def _check_session(verdict, written, session, names):
    """No batch stands before one that was acknowledged before it began."""
    last_began, last = -float("inf"), None
    for name in names:
        verdict.checked["places in order"] += 1
        if written[name].acknowledged < last_began:
            verdict.problems.append(f"{session}: {last} stands before {name}, and began after it")
        if written[name].began > last_began:
            last_began, last = written[name].began, name


def _check_reads(verdict, reader, notes, written, orders):
    """Each read saw the beginning of what is there now, and all that had been acknowledged."""
    known = {session: list(digests(names)) for session, names in orders.items()}
    acknowledged = defaultdict(list)
    for session, names in orders.items():
        furthest = 0
        for at, place in sorted(
            (written[name].acknowledged, place) for place, name in enumerate(names, 1)
        ):
            furthest = max(furthest, place)
            acknowledged[session].append((at, furthest))
    for one in notes:
        if one["what"] == "torn":
            verdict.problems.append(f"{reader} read {one['session']}: {one['problem']}")
        if one["what"] != "read":
            continue
        verdict.checked["reads meanwhile"] += 1
        session, n = one["session"], one["n"]
        digest = known.get(session, [_NOTHING])
        if n >= len(digest) or digest[n] != one["digest"]:
            verdict.problems.append(f"{reader} read {n} batches of {session}, not the first {n}")
        before = bisect_left(acknowledged[session], (one["began"],))
        needed = acknowledged[session][before - 1][1] if before else 0
        if n < needed:
            verdict.problems.append(
                f"{reader} read {n} batches of {session} when {needed} were acknowledged"
            )


(_NOTHING,) = digests([])


def _check_errors(verdict, name, notes):
    """What was raised is of the store's tree, and says what it is."""
    for one in notes:
        if "error" not in one:
            continue
        verdict.checked["errors"] += 1
        if not one["is_ours"] or one["kind"] == "InternalError":
            verdict.problems.append(f"{name}, {one['what']}: {one['error']}")


def _check_found(verdict, samples, seen, rows):
    """Whoever searches finds, by words and by meaning, what is asked for."""
    for framework, one in seen.items():
        if not one["found"]:
            continue
        for _, name, size in samples:
            texts = Batch(name, size).texts
            by_words, by_meaning = (one["found"][name][mode] for mode in ("text", "vector"))
            verdict.checked["searches"] += 2
            if len(by_words) != min(len(texts), 2) or not set(by_words) <= set(texts):
                verdict.problems.append(f"{framework} searches {name} by words: {by_words}")
            if by_meaning[:1] != texts[:1]:
                verdict.problems.append(
                    f"{framework} searches {name} by meaning: {by_meaning}; "
                    f"the table {_held(rows, texts[0])}"
                )
