"""Trying again: as often as was said, on what was said, and with the last error."""

import pytest

from lance_context_core._util.retry import Attempts, retried
from lance_context_core.errors import ConflictError, StorageError


class Work:
    """Fails as it was told to, one error after the other, and then succeeds."""

    def __init__(self, *errors):
        self.errors, self.n_tried = list(errors), 0

    async def __call__(self):
        self.n_tried += 1
        if self.errors:
            raise self.errors.pop(0)
        return "done"


async def test_what_is_prevented_is_tried_again():
    work = Work(ConflictError("1"), StorageError("2"))
    assert await retried(work, on=(ConflictError, StorageError)) == "done"
    assert work.n_tried == 3


async def test_what_the_last_attempt_raises_is_raised():
    work = Work(*(ConflictError(f"{n}") for n in range(1, 10)))
    with pytest.raises(ConflictError, match="3"):
        await retried(work, on=ConflictError, attempts=3)
    assert work.n_tried == 3


async def test_what_is_of_another_kind_is_not_tried_again():
    work = Work(StorageError("full"))
    with pytest.raises(StorageError, match="full"):
        await retried(work, on=ConflictError)
    assert work.n_tried == 1


async def test_between_two_attempts_one_looks_at_the_error_and_may_give_up():
    seen = []

    async def between(error):
        seen.append(str(error))
        if len(seen) == 2:
            raise error

    work = Work(*(ConflictError(f"{n}") for n in range(1, 10)))
    with pytest.raises(ConflictError, match="2"):
        await retried(work, on=ConflictError, between=between)
    assert (seen, work.n_tried) == (["1", "2"], 2)


async def test_nobody_looks_at_the_error_of_the_last_attempt():
    seen = []

    async def between(error):
        seen.append(str(error))

    with pytest.raises(ConflictError, match="2"):
        await retried(
            Work(ConflictError("1"), ConflictError("2")),
            on=ConflictError,
            attempts=2,
            between=between,
        )
    assert seen == ["1"]


async def test_what_an_error_means_is_looked_at_and_raised_in_its_place():
    seen = []

    async def between(error):
        seen.append(type(error))

    def meant(error):
        return ConflictError("ours") if isinstance(error, OSError) else error

    work = Work(OSError("theirs"), OSError("theirs"))
    with pytest.raises(ConflictError, match="ours") as raised:
        await retried(work, on=ConflictError, attempts=2, between=between, meant=meant)
    assert seen == [ConflictError]
    assert str(raised.value.__cause__) == "theirs"
    with pytest.raises(KeyError):
        await retried(Work(KeyError("k")), on=ConflictError, meant=meant)


def test_a_loop_that_is_never_done_ends_with_the_problem_and_a_way_out():
    attempts = Attempts("the rows kept being changed by others", 3)
    for _ in range(3):
        attempts.begin()
    with pytest.raises(ConflictError, match=r"^the rows kept being changed by others: try again$"):
        attempts.begin()
