"""Boards of tasks, from synchronous code."""

from lance_context_core.coordination.tasks import AsyncTaskBoard, AsyncTaskStore
from lance_context_core.sync._blocking import Blocking, Named, blocking, giving


class TaskBoard(Named[AsyncTaskBoard]):
    """Tasks that belong together; `AsyncTaskBoard` is the asynchronous one."""

    # What is done on the store's loop

    get = blocking(AsyncTaskBoard.get)
    list = blocking(AsyncTaskBoard.list)
    ready = blocking(AsyncTaskBoard.ready)
    waits_for = blocking(AsyncTaskBoard.waits_for)
    progress = blocking(AsyncTaskBoard.progress)
    stats = blocking(AsyncTaskBoard.stats)
    tree = blocking(AsyncTaskBoard.tree)
    history = blocking(AsyncTaskBoard.history)
    add = blocking(AsyncTaskBoard.add)
    add_many = blocking(AsyncTaskBoard.add_many)
    depend = blocking(AsyncTaskBoard.depend)
    heartbeat = blocking(AsyncTaskBoard.heartbeat)
    complete_many = blocking(AsyncTaskBoard.complete_many)
    fail = blocking(AsyncTaskBoard.fail)
    release = blocking(AsyncTaskBoard.release)
    skip = blocking(AsyncTaskBoard.skip)
    retry = blocking(AsyncTaskBoard.retry)
    delete = blocking(AsyncTaskBoard.delete)
    settle = blocking(AsyncTaskBoard.settle)

    # What may be done in the caller's thread

    claim = blocking(AsyncTaskBoard.claim, at_once=AsyncTaskBoard._claim_at_once)  # noqa: SLF001
    claim_many = blocking(
        AsyncTaskBoard.claim_many,
        at_once=AsyncTaskBoard._claim_many_at_once,  # noqa: SLF001
    )
    complete = blocking(AsyncTaskBoard.complete, at_once=AsyncTaskBoard._complete_at_once)  # noqa: SLF001


class TaskStore(Blocking[AsyncTaskStore]):
    """The boards of a store; `AsyncTaskStore` is the asynchronous one."""

    board = giving(AsyncTaskStore.board, TaskBoard)
    here = giving(AsyncTaskStore.here, TaskBoard)
    boards = blocking(AsyncTaskStore.boards)
    delete_board = blocking(AsyncTaskStore.delete_board)
