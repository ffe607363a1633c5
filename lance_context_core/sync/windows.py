"""The windows that were kept, from synchronous code."""

from lance_context_core.sync._blocking import Blocking, blocking
from lance_context_core.sync.knowledge import Jobs
from lance_context_core.window.compaction.summarising import MAX_INPUT_TOKENS, Summariser
from lance_context_core.window.windows import AsyncWindows


class Windows(Blocking[AsyncWindows]):
    """The windows that agents were shown; `AsyncWindows` is the asynchronous one."""

    keep = blocking(AsyncWindows.keep)
    get = blocking(AsyncWindows.get)
    cite = blocking(AsyncWindows.cite)
    list = blocking(AsyncWindows.list)

    def jobs(
        self,
        summariser: Summariser,
        *,
        timeout_seconds: float = 60.0,
        max_input_tokens: int = MAX_INPUT_TOKENS,
    ) -> Jobs:
        """The jobs of the store, with a summariser. See `AsyncWindows.jobs`."""
        return Jobs(
            self._aio.jobs(
                summariser, timeout_seconds=timeout_seconds, max_input_tokens=max_input_tokens
            )
        )
