"""One statement, run: by a database of its own that sees the views, and nothing else."""

import asyncio
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from lance_context_core._resources import Resources
from lance_context_core._util.checks import shown
from lance_context_core._util.extras import importing
from lance_context_core.errors import InternalError, InvalidRequestError
from lance_context_core.scope import Scope
from lance_context_core.sql_views import statements
from lance_context_core.sql_views.dataset import View, ViewDataset
from lance_context_core.sql_views.views import NAMES, Views
from lance_context_core.storage.lance.versions import Ref

Parameters = Sequence[Any] | Mapping[str, Any]

_CLOSED = {
    "enable_external_access": "false",
    "python_enable_replacements": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "temp_directory": "",
    "memory_limit": "1GiB",
    "threads": "2",
}
"""What a statement may not do, and may not change: it reads the views, in memory, for so long."""


async def query(
    resources: Resources,
    scope: Scope,
    text: str,
    *,
    parameters: Parameters | None,
    at: Ref | None,
    timeout_seconds: float | None,
    max_rows: int | None,
) -> pa.Table:
    """What `ContextStore.sql` returns."""
    _check_limits(timeout_seconds, max_rows)
    with importing("duckdb", extra="sql", by="sql()"):
        import duckdb
    views = Views(resources if at is None else await resources.shown_at(at), scope)
    running = await asyncio.to_thread(_Running, duckdb)
    timer = threading.Timer(timeout_seconds or 0, running.stop)
    timer.daemon = True
    with _explaining(duckdb, text, timeout_seconds):
        try:
            statement = await asyncio.to_thread(running.read, text)
            for name, source in statement.sources.items():
                running.views[name] = await views.view(source, statement.columns)
        except BaseException:
            running.close()
            raise
        try:
            if timeout_seconds is not None:
                timer.start()
            return await asyncio.to_thread(running.run, statement.text, parameters, max_rows)
        except asyncio.CancelledError:
            running.stop()
            raise
        finally:
            timer.cancel()


def _check_limits(timeout_seconds: Any, max_rows: object) -> None:
    is_number = isinstance(timeout_seconds, int | float) and timeout_seconds is not True
    if timeout_seconds is not None and not (
        is_number and 0 < timeout_seconds <= threading.TIMEOUT_MAX
    ):
        raise InvalidRequestError(
            f"timeout_seconds={shown(timeout_seconds)}: give a number of seconds above 0, or None "
            "for as long as it takes"
        )
    if max_rows is not None and (type(max_rows) is not int or max_rows < 0):
        raise InvalidRequestError(f"max_rows={shown(max_rows)}: give a whole number, 0 or more")


@contextmanager
def _explaining(duckdb: Any, text: str, timeout_seconds: float | None) -> Iterator[None]:
    """Say what was wrong with the statement in an error of ours."""
    try:
        yield
    except duckdb.InterruptException as error:
        raise InvalidRequestError(
            f"query={shown(text)} was not done in timeout_seconds={timeout_seconds}: "
            "ask for less, or give it more time"
        ) from error
    except (duckdb.IOException, duckdb.InternalException) as error:
        raise InternalError(f"query={shown(text)}: {error}") from error
    except duckdb.Error as error:
        raise InvalidRequestError(f"query={shown(text)}: {error}") from error


class _Running:
    """A statement at work, which another thread may stop."""

    def __init__(self, duckdb: Any) -> None:
        self._connection = duckdb.connect(config=_CLOSED)
        self._connection.execute("SET TimeZone = 'UTC'; SET lock_configuration = true")
        self.views: dict[str, View] = {}
        """What it sees, by the names that the statement has for it."""

    def read(self, text: str) -> statements.Statement:
        """What the statement asks for. Raises InvalidRequestError for what may not be asked."""
        return statements.read(text, self._ask, NAMES)

    def run(self, text: str, parameters: Parameters | None, max_rows: int | None) -> pa.Table:
        """The rows that the statement finds, at most so many."""
        datasets = {name: ViewDataset(view) for name, view in self.views.items()}
        try:
            for name, dataset in datasets.items():
                self._connection.register(name, dataset)
            found = self._connection.sql(text, params=parameters or None)
            if found is None:
                return pa.table({})
            if max_rows is not None:
                found = found.limit(max_rows)
            return found.to_arrow_table()
        except Exception as error:
            for failure in (one for dataset in datasets.values() for one in dataset.failures):
                raise failure from error
            raise
        finally:  # Here, since who waited for it may have been cancelled long ago.
            self.close()

    def stop(self) -> None:
        """End it; what it has done so far is lost."""
        self._connection.interrupt()

    def close(self) -> None:
        """Let go of all that it read from."""
        for view in self.views.values():
            view.close()
        self._connection.close()

    def _ask(self, query: str, parameter: str) -> str:
        [(answer,)] = self._connection.execute(query, [parameter]).fetchall()
        return str(answer)
