"""What a soak came to, as a table."""

from collections import Counter
from dataclasses import fields

from proofs.soak.fates import Faults

_COLUMNS = ("process", "kills", "batches", "messages", "in doubt", "repeated", "reads", "errors")

_MAX_REPEATED = 20


def printed(place, members, journals, verdict):
    """The table of one soak, what was checked, and what is wrong."""
    rows = [_row(one, journals[one.name]) for one in members]
    lines = [
        f"## {place.title}: {len(members)} processes, {_seconds(journals):.0f} s",
        "",
        f"| {' | '.join(_COLUMNS)} |",
        f"|---|{'---:|' * (len(_COLUMNS) - 1)}",
        *(f"| {' | '.join(row)} |" for row in rows),
        "",
    ]
    if place.proxy is not None:
        lines += [_fates(place.proxy.counts), ""]
    checked = ", ".join(f"{n:,} {what}" for what, n in verdict.checked.items())
    lines.append(f"Checked: {checked}.")
    kinds = Counter(
        f"{name}: {one['kind']}" for name in journals for one in journals[name] if "kind" in one
    )
    lines += [f"- {kind}, {n} times" for kind, n in sorted(kinds.items())]
    lines += [f"✗ {problem}" for problem in verdict.problems]
    lines += ["", _counted(len(verdict.problems))]
    return "\n".join(lines)


def summed_up(problems):
    """What is wrong in several places, once more: of a long output the end is what is kept.

    `problems`: (place, problem).
    """
    lines = [f"✗ {place}: {problem}".splitlines()[0] for place, problem in problems]
    if (n_more := len(lines) - _MAX_REPEATED) > 0:
        lines = [*lines[:_MAX_REPEATED], f"✗ and {n_more} more: see above"]
    return "\n".join(["", f"In all places: {_counted(len(problems))}", *lines])


def _counted(n):
    return f"{n} problem{'s' if n > 1 else ''}." if n else "Nothing is lost."


def _row(member, notes):
    what = Counter(one["what"] for one in notes)
    begun = [one["batch"] for one in notes if one["what"] == "begun"]
    sizes = {one["batch"]: one["size"] for one in notes if one["what"] == "begun"}
    done = {one["batch"] for one in notes if one["what"] == "done"}
    failed = Counter(one["batch"] for one in notes if one["what"] == "failed")
    repeated = len(begun) - len(sizes) + sum(n - (name not in done) for name, n in failed.items())
    if member.role == "maintainer":
        did = f"{what['maintained']} rounds"
        return [member.name, f"{member.n_kills}", did, "", "", "", "", f"{_errors(notes)}"]
    numbers = [
        *(member.n_kills, len(done), sum(sizes[name] for name in done)),
        *(len(sizes) - len(done), repeated, what["read"], _errors(notes)),
    ]
    return [member.name, *(f"{number:,}" for number in numbers)]


def _seconds(journals):
    """From the first note to the last one."""
    times = [one["at"] for notes in journals.values() for one in notes]
    return max(times) - min(times)


def _errors(notes):
    return sum("error" in one for one in notes)


def _fates(counts):
    fates = ", ".join(f"{counts[one.name]:,} {one.name}" for one in fields(Faults))
    return f"Of {counts['requests']:,} requests: {fates}."
