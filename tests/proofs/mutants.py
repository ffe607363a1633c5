"""Breaks of one line that some test has to notice: `python -m proofs.mutants [--n 200] [--seed 1]`.

So many places of the storage, of the index in memory and of the tail of a conversation are drawn by a
seed; at each, one thing is changed: a comparison, a bound, a constant, `and` for `or`, a condition
turned round, a statement left out, an answer lost, two arguments changed over. In a copy of the
checkout the random calls are made with the break in place, then the tests of the folder are run, then
those of behaviour, and the first failure ends that; what never ends counts as noticed. What no test
noticed is printed.

What cannot change what a caller sees is not drawn: docstrings, annotations, errors and their texts,
`__repr__`, logging, and constants of patience. Verdicts are appended to `--record`; a second run with
it goes on where the first one ended.
"""

import argparse
import ast
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import SimpleQueue
from random import Random
from threading import Lock

ROOT = Path(__file__).parents[2]
CORE = "lance_context_core"
PLACES = ("engine", "storage", "hot", "memory_index")
"""The folders that are broken, by their names today or after the next move; those that are there."""
TAILS = ("**/history*.py", "**/*_tail*.py", "_recent.py")
COPIED = (CORE, "tests", "benchmarks", "docs", "pyproject.toml", "README.md")
BEHAVIOUR = (
    "tests/core/test_same_reads.py",
    "tests/core/test_every_handle.py",
    "tests/core/test_state_machine.py",
    "tests/core/conformance",
    "tests/core/stores",
    "tests/core/search",
    "tests/core/reliability",
    "tests/core/versioning",
    "tests/core/erasure",
)
"""What is run for each break, one after the other: the first, then the tests of its own folder, the rest."""
PYTEST = ("-m", "pytest", "-q", "-x", "--effort", "test", "-p", "no:cacheprovider")
QUIET = {"__repr__", "__str__", "__rich_repr__"}
SILENT_CALLS = ("log", "warn", "debug", "info")
TUNING = ("SECONDS", "PATIENCE", "PAUSE", "MAX_BYTES", "LIMIT")
SWAPS: dict[type, type] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
}


@dataclass(frozen=True)
class Mutant:
    """One break: what stands in a line from one column to another, and what is put in its place."""

    file: str
    line: int
    begin: int
    end: int
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.before}  ->  {self.after}"


def breaks(file: Path, root: Path = ROOT) -> list[Mutant]:
    """All the breaks of a file."""
    lines = file.read_bytes().splitlines()
    found = []
    for node, changed in _changes(ast.parse(file.read_bytes())):
        if node.lineno != node.end_lineno:
            continue
        span = node.col_offset, node.end_col_offset or 0
        before = lines[node.lineno - 1][slice(*span)].decode()
        after = ast.unparse(ast.fix_missing_locations(changed))
        if isinstance(changed, ast.expr) and not isinstance(changed, ast.Constant | ast.Call):
            after = f"({after})"
        if before != after and "\n" not in after:
            name = str(file.relative_to(root))
            found.append(Mutant(name, node.lineno, *span, before, after))
    return found


def _changes(node: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, ast.AST]]:
    """Each place below a node that can be changed, and what it becomes."""
    for child in _children(node):
        if isinstance(child, ast.expr | ast.stmt) and not _is_tuning(child):
            yield from ((child, one) for one in _changed(child))
        if not _is_tuning(child):
            yield from _changes(child)


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """What is below a node and may be broken."""
    for name, value in ast.iter_fields(node):
        if name in {"annotation", "returns", "decorator_list", "bases"}:
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not _is_quiet(child):
                yield child


def _is_quiet(node: ast.AST) -> bool:
    """Whether nothing below it changes what is answered, or what has no place in its line."""
    if isinstance(node, ast.Raise | ast.Assert | ast.Import | ast.ImportFrom | ast.JoinedStr):
        return True
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return node.name in QUIET
    if isinstance(node, ast.If):
        return isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant) or _called(node.value).startswith(SILENT_CALLS)
    return isinstance(node, ast.Call) and _called(node).endswith(("Error", "TypeVar", "field"))


def _called(node: ast.AST) -> str:
    node = node.value if isinstance(node, ast.Await) else node
    return ast.unparse(node.func).rpartition(".")[2] if isinstance(node, ast.Call) else ""


def _is_tuning(node: ast.AST) -> bool:
    """Whether it gives a name to how long is waited, or to how much is kept."""
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return isinstance(node, ast.Assign | ast.AnnAssign) and any(
        isinstance(one, ast.Name) and one.id.isupper() and one.id.endswith(TUNING)
        for one in targets
    )


def _changed(node: ast.AST) -> Iterator[ast.AST]:
    """What a node may become."""
    match node:
        case ast.Compare(ops=[operator]) | ast.Compare(ops=[operator, _]) if (
            type(operator) in SWAPS
        ):
            yield _with(node, ops=[SWAPS[type(operator)](), *node.ops[1:]])
        case ast.BoolOp(op=operator) | ast.BinOp(op=operator) if type(operator) in SWAPS:
            yield _with(node, op=SWAPS[type(operator)]())
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value)):
            yield ast.Constant(value + 1)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield operand
        case ast.IfExp(test=test):
            yield _with(node, test=ast.UnaryOp(ast.Not(), test))
        case ast.Subscript(slice=ast.Slice(lower=ast.expr(), upper=upper)):
            yield _with(node, slice=ast.Slice(None, upper))
        case ast.Subscript(slice=ast.Slice(lower=None, upper=ast.expr())):
            yield _with(node, slice=ast.Slice())
        case ast.Call(args=[ast.Name() as one, ast.Name() as two, *rest]):
            yield _with(node, args=[two, one, *rest])
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            yield ast.Return(ast.Constant(None))
        case ast.Expr(value=ast.Call() | ast.Await()) | ast.AugAssign():
            yield ast.Pass()


def _with(node: ast.AST, **fields: object) -> ast.AST:
    changed = deepcopy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


def drawn(seed: int, n: int, root: Path = ROOT) -> list[Mutant]:
    """So many breaks, each of another line."""
    core = root / CORE
    files = [one for place in PLACES for one in core.glob(f"{place}/**/*.py")]
    files += [one for pattern in TAILS for one in core.glob(pattern)]
    by_line: dict[tuple[str, int], list[Mutant]] = {}
    for one in (one for file in sorted(set(files)) for one in breaks(file, root)):
        by_line.setdefault((one.file, one.line), []).append(one)
    rng = Random(seed)
    return [rng.choice(by_line[line]) for line in rng.sample(sorted(by_line), min(n, len(by_line)))]


class Copy:
    """A copy of the checkout in which one thing at a time is broken."""

    def __init__(self, timeout: float) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="mutants-"))
        self._timeout = timeout
        for name in COPIED:
            source = ROOT / name
            if source.is_dir():
                skipped = shutil.ignore_patterns("__pycache__")
                shutil.copytree(source, self.root / name, ignore=skipped)
            else:
                shutil.copy(source, self.root / name)

    def verdict(self, mutant: Mutant) -> str:
        """Which tests noticed it; empty if none did."""
        file = self.root / mutant.file
        whole = file.read_bytes()
        lines = whole.splitlines(keepends=True)
        line = lines[mutant.line - 1]
        lines[mutant.line - 1] = line[: mutant.begin] + mutant.after.encode() + line[mutant.end :]
        file.write_bytes(b"".join(lines))
        try:
            return next((one for one in self._tests(mutant) if self._notices(one)), "")
        finally:
            file.write_bytes(whole)

    def _tests(self, mutant: Mutant) -> list[str]:
        """The folder or file that mirrors the one that is broken, then those of behaviour."""
        below = Path(mutant.file).relative_to(CORE)
        mirrors = [Path("tests/core", below.parent, f"test_{below.stem}.py")]
        mirrors += [Path("tests/core", one) for one in below.parents if one != Path()]
        near = [str(one) for one in mirrors if (self.root / one).exists()]
        others = [one for one in BEHAVIOUR if (self.root / one).exists()]
        return list(dict.fromkeys([*others[:1], *near, *others]))

    def _notices(self, tests: str) -> bool:
        environment = os.environ | {"PYTHONPATH": f"{self.root}:{self.root / 'tests'}"}
        command = [sys.executable, *PYTEST, tests]
        quiet = subprocess.DEVNULL
        with subprocess.Popen(
            command,
            cwd=self.root,
            env=environment,
            stdout=quiet,
            stderr=quiet,
            start_new_session=True,
        ) as process:
            try:
                return process.wait(self._timeout) not in {0, 5}
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                return True

    def require_passing(self) -> None:
        """Raise unless the copy is what is imported and its tests pass as they are."""
        there = subprocess.run(
            [sys.executable, "-c", f"import {CORE}; print({CORE}.__file__)"],
            cwd=self.root, capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        if not there.startswith(str(self.root)) or self._notices(BEHAVIOUR[0]):
            sys.exit(f"{self.root} is not imported, or its tests fail before anything is broken")


def main(arguments: Sequence[str]) -> int:
    """Break, run, and print what no test noticed."""
    parser = argparse.ArgumentParser(prog="proofs.mutants")
    parser.add_argument("--n", type=int, default=200, help="how many breaks")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("-j", type=int, default=1, help="so many at a time")
    parser.add_argument(
        "--timeout", type=float, default=600, help="seconds for one folder of tests"
    )
    parser.add_argument("--record", type=Path, default=ROOT / ".mutants.jsonl")
    parser.add_argument("--list", action="store_true", help="only print what would be broken")
    asked = parser.parse_args(arguments)
    mutants = drawn(asked.seed, asked.n)
    if asked.list:
        print(*mutants, sep="\n")
        return 0
    rows = asked.record.read_text("utf-8").splitlines() if asked.record.exists() else []
    known = {str(Mutant(**row["mutant"])): row["noticed_by"] for row in map(json.loads, rows)}
    copies: SimpleQueue[Copy] = SimpleQueue()
    writing = Lock()
    for _ in range(asked.j):
        copies.put(Copy(asked.timeout))
    try:
        first = copies.get()
        first.require_passing()
        copies.put(first)

        def judge(mutant: Mutant) -> None:
            copy = copies.get()
            try:
                noticed_by = copy.verdict(mutant)
            finally:
                copies.put(copy)
            with writing, asked.record.open("a", encoding="utf-8") as record:
                known[str(mutant)] = noticed_by
                print(json.dumps({"mutant": asdict(mutant), "noticed_by": noticed_by}), file=record)
                print("noticed " if noticed_by else "SURVIVED", mutant, noticed_by, flush=True)

        with ThreadPoolExecutor(asked.j) as pool:
            list(pool.map(judge, [one for one in mutants if str(one) not in known]))
    finally:
        while not copies.empty():
            shutil.rmtree(copies.get().root, ignore_errors=True)
    survivors = [one for one in mutants if not known[str(one)]]
    print(*(["", "What no test noticed:", *survivors] if survivors else []), sep="\n")
    n, n_noticed = len(mutants), len(mutants) - len(survivors)
    print(
        f"{n_noticed} of {n} breaks were noticed ({100 * n_noticed / n:.0f} %), seed {asked.seed}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
