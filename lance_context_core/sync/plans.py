"""Plans, from synchronous code."""

from lance_context_core.coordination.plans import AsyncPlans
from lance_context_core.sync._blocking import Blocking, blocking
from lance_context_core.sync.tasks import TaskBoard


class Plans(Blocking[AsyncPlans]):
    """The plans of a store; `AsyncPlans` is the asynchronous one."""

    def tasks(self, id: str) -> TaskBoard:
        """The board that has a plan's tasks. See `AsyncPlans.tasks`."""
        return TaskBoard(self._aio.tasks(id))

    get = blocking(AsyncPlans.get)
    list = blocking(AsyncPlans.list)
    versions = blocking(AsyncPlans.versions)
    search = blocking(AsyncPlans.search)
    markdown = blocking(AsyncPlans.markdown)
    export = blocking(AsyncPlans.export)
    add = blocking(AsyncPlans.add)
    edit = blocking(AsyncPlans.edit)
    set_status = blocking(AsyncPlans.set_status)
    branch = blocking(AsyncPlans.branch)
    merge = blocking(AsyncPlans.merge)
    delete = blocking(AsyncPlans.delete)
