"""Where a store may be kept: a directory, the memory of the process, and an S3 server."""

import itertools
import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from core.storage.wal.log_in_memory import MemoryLog

from lance_context_core.storage.lance import connection
from lance_context_core.storage.wal.policy import JournalPolicy
from lance_context_core.store.store import AsyncContextStore
from lance_context_core.sync import ContextStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """One place for one store."""

    uri: str
    storage_options: Mapping[str, str] | None = None

    def open(self, **options: Any) -> AsyncContextStore:
        """A store there; another call opens the same one again, unless it is in memory."""
        return ContextStore.open(self.uri, storage_options=self.storage_options, **options).aio


class LogInMemory(Backend):
    """A directory whose log is the one that the tests keep in memory, for all stores of this process."""

    def open(self, **options: Any) -> AsyncContextStore:
        with patch.object(connection, "SqliteLog", MemoryLog):
            return super().open(**options)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogInPostgres(Backend):
    """A directory, or a place in an object store, whose log is in PostgreSQL."""

    address: str

    def open(self, **options: Any) -> AsyncContextStore:
        journal = options.pop("journal", JournalPolicy())
        policy = None if journal is None else replace(journal, address=self.address)
        return Backend.open(self, journal=policy, **options)


def local(directory: Path) -> Backend:
    return Backend(uri=str(directory))


def memory() -> Backend:
    return Backend(uri="memory://")


PROGRAM = Path(__file__).with_name("s3_server.py")


class S3Server:
    """moto's S3 server in a process of its own, at a free port of this machine, with one bucket."""

    BUCKET = "conformance"

    def __init__(self, *, pause_seconds=0.0):
        """So long it takes from looking for a key to putting it."""
        self._pause_seconds = pause_seconds

    def __enter__(self):
        self._process = subprocess.Popen(
            [sys.executable, str(PROGRAM), str(self._pause_seconds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.endpoint = f"http://127.0.0.1:{int(self._process.stdout.readline())}"
        self._prefixes = itertools.count()
        url = f"{self.endpoint}/{self.BUCKET}"
        bucket = urllib.request.Request(url, data=b"", method="PUT")  # noqa: S310 - our own
        with urllib.request.urlopen(bucket):  # noqa: S310
            return self

    def __exit__(self, *_):
        with self._process as process:
            process.terminate()

    def backend(self) -> Backend:
        """A place that nobody else has."""
        return Backend(
            uri=f"s3://{self.BUCKET}/store-{next(self._prefixes)}",
            storage_options={
                "aws_endpoint": self.endpoint,
                "aws_region": "us-east-1",
                "aws_access_key_id": "test",
                "aws_secret_access_key": "test",
                "allow_http": "true",
            },
        )
