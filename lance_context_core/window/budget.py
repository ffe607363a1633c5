"""What a window may take of a model's context, and what of it a section may take."""

import math

from lance_context_core._util.checks import shown
from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.errors import InvalidRequestError


@frozen_by_name
class Budget:
    """The tokens of a model's context, and what of them is not for the window.

    Raises InvalidRequestError for numbers that leave no room.
    """

    total: int
    """What the model takes, its answer included."""
    reserve_output: int = 0
    """What is kept for the answer, and for what else is sent, such as tools."""
    margin: float = 0.05
    """In [0, 1): the share of the rest that is kept for what an estimate misses."""

    def __post_init__(self) -> None:
        for name in ("total", "reserve_output"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise InvalidRequestError(f"{name}={shown(value)}: give a number of tokens")
        margin = self.margin
        if isinstance(margin, bool) or not isinstance(margin, int | float) or not 0 <= margin < 1:
            raise InvalidRequestError(f"margin={shown(margin)}: give a number from 0 to below 1")
        if self.room < 1:
            raise InvalidRequestError(
                f"total={self.total} leaves no room: reserve_output={self.reserve_output} and "
                f"margin={self.margin} take it all"
            )

    @property
    def room(self) -> int:
        """The tokens that a window may have."""
        return math.floor((self.total - self.reserve_output) * (1 - self.margin))


def as_budget(given: "Budget | int") -> Budget:
    """The budget that `given` is; a number is the total, of which an answer is not taken."""
    if isinstance(given, Budget):
        return given
    if isinstance(given, bool) or not isinstance(given, int):
        raise InvalidRequestError(f"budget={shown(given)}: give a Budget, or a number of tokens")
    return Budget(total=given)
