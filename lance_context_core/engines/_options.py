"""Which engine searches which channel."""

from datetime import timedelta

from lance_context_core._util.checks import check_count, shown
from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.engines._protocol import EngineChannel, SearchEngine
from lance_context_core.errors import InvalidRequestError


@frozen_by_name
class SearchEngines:
    """The engines that search instead of LanceDB.

    Raises InvalidRequestError for an engine that cannot search a channel, and for invalid values.
    """

    text: SearchEngine | None = None
    """Searches by words; None: LanceDB does."""
    vector: SearchEngine | None = None
    """Searches by meaning; None: LanceDB does."""
    max_behind: int = 1_000
    """How many changes an engine may be behind: a search adds them from the log. If it is further
    behind, LanceDB searches. At most 2,000."""
    timeout: timedelta = timedelta(seconds=2)
    """How long a search waits for an engine before LanceDB searches."""
    pause: timedelta = timedelta(seconds=5)
    """How long no search asks an engine that failed."""

    def __post_init__(self) -> None:
        for channel in ("text", "vector"):
            _check_engine(channel, getattr(self, channel))
        if check_count(self.max_behind, "max_behind", least=0) > _MOST_BEHIND:
            raise InvalidRequestError(f"max_behind={self.max_behind!r}: at most {_MOST_BEHIND}")
        for name in ("timeout", "pause"):
            value = getattr(self, name)
            if not isinstance(value, timedelta) or value < timedelta(0):
                raise InvalidRequestError(f"{name}={shown(value)}: give a timedelta, 0 or more")
        if not self.timeout:
            raise InvalidRequestError("timeout=0: give a timedelta above 0")
        if len({one.name for one in self.distinct}) < len(self.distinct):
            raise InvalidRequestError(
                f"text and vector are two engines with the name {self.distinct[0].name!r}: give "
                "each a name of its own"
            )

    @property
    def distinct(self) -> "tuple[SearchEngine, ...]":
        """The engines, each once."""
        given = [one for one in (self.text, self.vector) if one is not None]
        return tuple(given[:1] if len(given) == 2 and given[0] is given[1] else given)


_MOST_BEHIND = 2_000
"""Of so many flushed changes the log still has the rows in memory."""


def _check_engine(channel: EngineChannel | str, engine: object) -> None:
    if engine is None:
        return
    if not isinstance(engine, SearchEngine):
        raise InvalidRequestError(f"{channel}={shown(engine)}: give a SearchEngine, or None")
    if channel not in engine.channels:
        raise InvalidRequestError(
            f"{channel}={engine.name!r}: this engine searches {', '.join(sorted(engine.channels))} "
            "only: give another one, or None"
        )
