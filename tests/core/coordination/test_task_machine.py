"""A board does what plain dictionaries do, of which all are looked at after each step."""

import asyncio
import tempfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_context_core.errors import ConflictError, InvalidRequestError, NotFoundError
from lance_context_core.settings import JournalPolicy
from lance_context_core.store.store import AsyncContextStore

IDS = [f"t{n}" for n in range(6)]
DONE = ("completed", "skipped")
an_id = st.sampled_from(IDS)
STEP = st.one_of(
    st.tuples(
        st.just("add"), an_id, st.none() | an_id, st.lists(an_id, max_size=2), st.integers(0, 3)
    ),
    st.tuples(st.just("claim")),
    st.tuples(st.just("claim")),
    st.tuples(st.just("finish")),
    st.tuples(st.just("finish")),
    st.tuples(st.sampled_from(["complete", "fail", "release", "skip", "retry", "delete"]), an_id),
    st.tuples(st.sampled_from(["complete", "fail"]), an_id, st.integers(1, 2)),
    st.tuples(st.just("depend"), an_id, an_id),
    st.tuples(st.sampled_from(["reload", "flush"])),
)


@st.composite
def some_tasks(draw):
    """Four tasks to begin with, each of which may depend on those before, or be a part of one."""
    steps = [("add", IDS[0], None, [], draw(st.integers(0, 3)))]
    for n in range(1, 4):
        before = st.sampled_from(IDS[:n])
        needs = draw(st.lists(before, max_size=2))
        steps.append(("add", IDS[n], draw(st.none() | before), needs, draw(st.integers(0, 3))))
    return steps


class RefusedError(Exception):
    """The model refuses a step; nothing has changed."""


class Model:
    """Tasks as dictionaries, in their order."""

    def __init__(self):
        self.tasks = {}
        self.order = 0

    def step(self, verb, *arguments):
        """What the step returns; raises RefusedError."""
        before = {id: dict(one) for id, one in self.tasks.items()}
        try:
            outcome = getattr(self, verb)(*arguments)
        except RefusedError:
            self.tasks = before
            raise
        self.settle()
        return outcome

    def require(self, condition):
        if not condition:
            raise RefusedError

    def parts(self, id):
        return [one for one, task in self.tasks.items() if task["parent"] == id]

    def waits(self, id):
        while id is not None:
            if any(self.tasks[one]["status"] not in DONE for one in self.tasks[id]["needs"]):
                return True
            id = self.tasks[id]["parent"]
        return False

    def settle(self):
        while True:
            before = {id: one["status"] for id, one in self.tasks.items()}
            for id, one in self.tasks.items():
                if one["status"] in ("pending", "blocked"):
                    one["status"] = "blocked" if self.waits(id) else "pending"
                    parts = self.parts(id)
                    if (
                        one["status"] == "pending"
                        and parts
                        and all(self.tasks[part]["status"] in DONE for part in parts)
                    ):
                        one["status"] = "completed"
            if before == {id: one["status"] for id, one in self.tasks.items()}:
                return

    def is_circular(self):
        """Whether some task has to be done before itself, by trying to put all in an order."""
        left = set(self.tasks)
        while left:
            free = {id for id in left if not left & self.before(id)}
            if not free:
                return True
            left -= free
        return False

    def before(self, id):
        found = set(self.parts(id))
        while id is not None:
            found |= set(self.tasks[id]["needs"])
            id = self.tasks[id]["parent"]
        return found

    def add(self, id, parent, needs, priority):
        self.require(id not in self.tasks)
        self.require(all(one in self.tasks for one in needs))
        if parent is not None:
            self.require(parent in self.tasks)
            status = self.tasks[parent]["status"]
            self.require(status in ("pending", "blocked"))
        self.tasks[id] = {
            "status": "pending",
            "parent": parent,
            "needs": list(dict.fromkeys(needs)),
            "priority": priority,
            "attempt": 0,
        }
        self.require(not self.is_circular())

    def depend(self, id, on):
        self.require(id in self.tasks and on in self.tasks and id != on)
        self.require(self.tasks[id]["status"] in ("pending", "blocked"))
        if on not in self.tasks[id]["needs"]:
            self.tasks[id]["needs"] = [*self.tasks[id]["needs"], on]
        self.require(not self.is_circular())

    def claim(self):
        ready = [
            id
            for id, one in self.tasks.items()
            if one["status"] == "pending" and not self.parts(id)
        ]
        if not ready:
            return None
        found = max(ready, key=lambda one: (self.tasks[one]["priority"], -[*self.tasks].index(one)))
        self.tasks[found]["status"] = "in_progress"
        self.tasks[found]["attempt"] += 1
        return found

    def finish(self):
        """The step that completes what was begun first; there may be nothing."""
        begun = [id for id, one in self.tasks.items() if one["status"] == "in_progress"]
        return ("complete", begun[0] if begun else IDS[0])

    def move(self, id, allowed, status, attempt=None):
        self.require(id in self.tasks and self.tasks[id]["status"] in allowed)
        self.require(attempt in (None, self.tasks[id]["attempt"]))
        self.tasks[id]["status"] = status

    def complete(self, id, attempt=None):
        self.move(id, ("in_progress",), "completed", attempt)

    def fail(self, id, attempt=None):
        self.move(id, ("in_progress",), "failed", attempt)

    def release(self, id):
        self.move(id, ("in_progress",), "pending")

    def skip(self, id):
        self.move(id, ("pending", "blocked", "in_progress", "failed"), "skipped")

    def retry(self, id):
        self.move(id, ("failed",), "pending")

    def delete(self, id):
        self.require(id in self.tasks)
        gone = [id]
        for one in gone:
            gone += self.parts(one)
        others = (task for other, task in self.tasks.items() if other not in gone)
        self.require(not any(set(gone) & set(task["needs"]) for task in others))
        for one in gone:
            del self.tasks[one]


async def do(board, verb, *arguments):
    """The same to the board; what is told of tasks alone."""
    if verb == "add":
        id, parent, needs, priority = arguments
        await board.add(id, id=id, parent_id=parent, depends_on=needs, priority=priority)
        return None
    if verb == "claim":
        task = await board.claim("ann")
        return None if task is None else task.id
    if len(arguments) == 2 and verb != "depend":
        await getattr(board, verb)(arguments[0], attempt=arguments[1])
    else:
        await getattr(board, verb)(*arguments)
    return None


@pytest.mark.slow
@given(
    some_tasks(),
    st.lists(STEP, max_size=25),
    st.sampled_from([JournalPolicy(), JournalPolicy(rows=4), None]),
)
@settings(deadline=None)
def test_a_board_is_what_plain_dictionaries_are_after_each_step(begin, steps, journal):
    async def run(directory):
        model, store = Model(), AsyncContextStore.open(directory, journal=journal)
        for drawn in [*begin, *steps]:
            step = drawn if drawn[0] != "finish" else model.finish()
            board = store.tasks.board("b")
            if step[0] == "reload":
                await store.close()
                store = AsyncContextStore.open(directory, journal=journal)
                continue
            if step[0] == "flush":
                await store.flush()
                continue
            try:
                expected = model.step(*step)
            except RefusedError:
                expected = RefusedError
            try:
                found = await do(board, *step)
            except (InvalidRequestError, NotFoundError, ConflictError):
                found = RefusedError
            assert found == expected, step
            kept = {one.id: (str(one.status), one.attempt) for one in await board.list()}
            assert kept == {
                id: (one["status"], one["attempt"]) for id, one in model.tasks.items()
            }, step
            assert list(kept) == list(model.tasks)
        await store.close()

    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(run(directory))
