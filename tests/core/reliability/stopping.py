"""A process that stops at a step of a fold, or of a commit beside the journal.

`stopped` starts it: it says that it is there, and sends itself the signal.
"""

import asyncio
import multiprocessing
import os
import signal
import threading
import warnings
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from lance_context_core.storage.flush import Flushing
from lance_context_core.storage.wal import sqlite
from lance_context_core.storage.wal.table_log import TableLog
from lance_context_core.storage.wal.transactions import Transactions
from lance_context_core.store.store import AsyncContextStore

PATIENCE_SECONDS = 120
"""How long it may take to its step, on however busy a machine."""

# The server that forks the processes has loaded the engine, but never run it.
warnings.filterwarnings("ignore", message="lancedb fork support is experimental")


@contextmanager
def stopped(uri, step, action, *, table="records", is_killed=True):
    """The process `action` stopped at the `step`; one that is not killed goes on in the end."""
    context = multiprocessing.get_context("forkserver")
    # Older Pythons do not tell the server the path on which this module is.
    context.set_forkserver_preload(["lance_context_core.store.store", __name__])
    heard, said = context.Pipe(duplex=False)
    how = signal.SIGKILL if is_killed else signal.SIGSTOP
    process = context.Process(target=_act, args=(uri, step, action, table, how, said), daemon=True)
    process.start()
    said.close()
    try:
        assert heard.poll(PATIENCE_SECONDS), f"{step!r} was not reached"
        assert heard.recv() == "there"
        if is_killed:
            process.join(PATIENCE_SECONDS)
            assert process.exitcode == -signal.SIGKILL
        yield process
    finally:
        if process.exitcode is None:
            os.kill(process.pid, signal.SIGCONT)
        process.join(PATIENCE_SECONDS)
        process.kill()
    assert is_killed or process.exitcode == 0


def go_on(process):
    """Let a process that was stopped end what it is at."""
    os.kill(process.pid, signal.SIGCONT)
    process.join(PATIENCE_SECONDS)


def _act(uri, step, action, table, how, said):
    def stop():
        said.send("there")
        # One for the whole process would reach another thread first, and this one would go on.
        signal.pthread_kill(threading.get_ident(), how)

    STEPS[step](stop, lambda ledger: (ledger.part.name == "records") == (table == "records"))
    asyncio.run(_done(uri, action))


async def _done(uri, action):
    async with await AsyncContextStore.open(uri) as store:
        await action(store)


# The steps: each has the process stop there, where the table is the one that is meant.


def _locked(stop, is_meant):
    folding = TableLog.folding

    @asynccontextmanager
    async def folded(self):
        async with folding(self):
            if is_meant(self):
                stop()
            yield

    TableLog.folding = folded


def _before_commit(stop, is_meant):
    commit = Flushing._commit

    async def commit_late(self, *args, **options):
        if is_meant(self._ledger):
            stop()
        return await commit(self, *args, **options)

    Flushing._commit = commit_late


def _after_commit(stop, is_meant):
    commit = Flushing._commit

    async def commit_first(self, *args, **options):
        done = await commit(self, *args, **options)
        if is_meant(self._ledger):
            stop()
        return done

    Flushing._commit = commit_first


def _in_transaction(stop, is_meant):
    forget, do = TableLog.forget, Transactions.transact

    def unfinished(self, done):
        work = do(self, done)

        def stop_behind_it(connection):
            work(connection)
            stop()

        return stop_behind_it

    async def begin_to_forget(self, *args, **more):
        if is_meant(self):
            Transactions.transact = unfinished
        await forget(self, *args, **more)
        Transactions.transact = do

    TableLog.forget = begin_to_forget


def _forgotten(stop, is_meant):
    forget = TableLog.forget

    async def forget_first(self, *args, **more):
        await forget(self, *args, **more)
        if is_meant(self):
            stop()

    TableLog.forget = forget_first


def _in_doubt(stop, is_meant):
    doubt = TableLog.doubt

    async def doubt_first(self):
        before = await doubt(self)
        if is_meant(self):
            stop()
        return before

    TableLog.doubt = doubt_first


def _before_note(stop, is_meant):
    note = TableLog.note

    async def note_late(self, *args, **options):
        if is_meant(self):
            stop()
        await note(self, *args, **options)

    TableLog.note = note_late


def _made(stop, _):
    replace = Path.replace

    def replace_late(self, target):
        if Path(target).name == sqlite.NAME:
            stop()
        return replace(self, target)

    Path.replace = replace_late


STEPS = {
    "has the lock": _locked,
    "is about to commit": _before_commit,
    "has committed": _after_commit,
    "is about to have forgotten": _in_transaction,
    "has forgotten": _forgotten,
    "is about to commit directly": _in_doubt,
    "has committed directly": _before_note,
    "is making the journal": _made,
}
