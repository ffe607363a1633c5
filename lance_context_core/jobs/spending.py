"""What a run of jobs may ask of models, and what it has asked."""

from contextvars import ContextVar
from dataclasses import dataclass, field

from lance_context_core.errors import ContextStoreError
from lance_context_core.jobs.values import JobBudget

_CHARACTERS_A_TOKEN = 4


class OverBudget(ContextStoreError):  # noqa: N818 - no error: the run ends, and the job waits
    """A job would ask more of a model than is left for this run."""


class Stopped(Exception):  # noqa: N818 - no error of the job: it waits to be gone on with
    """Whoever runs a job wants it to end here: what they raised is the cause."""


@dataclass(slots=True)
class Spending:
    """What has been spent of a budget."""

    budget: JobBudget = field(default_factory=JobBudget)
    calls: int = 0
    tokens: int = 0

    def spend(self, *, calls: int, tokens: int) -> None:
        """Note what is about to be asked. Raises OverBudget, and notes nothing, if that is too much."""
        for name, more in (("calls", calls), ("tokens", tokens)):
            most = getattr(self.budget, name)
            if most is not None and getattr(self, name) + more > most:
                raise OverBudget(
                    f"it needs {more} more {name} than {getattr(self, name)} of {most}"
                )
        self.calls += calls
        self.tokens += tokens


SPENDING: ContextVar[Spending | None] = ContextVar("lance_context_spending", default=None)
"""That of the run that is under way."""


def spend(*, calls: int, tokens: int) -> None:
    """Note what a job is about to ask of a model. Raises OverBudget if the run may not."""
    if (spending := SPENDING.get()) is not None:
        spending.spend(calls=calls, tokens=tokens)


def tokens_of(characters: int) -> int:
    """About how many tokens so many characters are, if a model does not say it."""
    return -(-characters // _CHARACTERS_A_TOKEN)
