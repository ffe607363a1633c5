"""Key-value items in namespaces, from synchronous code."""

from lance_context_core.stores.keyvalues.items import AsyncKeyValues
from lance_context_core.sync._blocking import Named, blocking


class KeyValues(Named[AsyncKeyValues]):
    """The items of one name; `AsyncKeyValues` is the asynchronous one."""

    get = blocking(AsyncKeyValues.get, at_once=AsyncKeyValues._get_at_once)  # noqa: SLF001
    list = blocking(AsyncKeyValues.list)
    keys = blocking(AsyncKeyValues.keys)
    count = blocking(AsyncKeyValues.count)
    namespaces = blocking(AsyncKeyValues.namespaces)
    search = blocking(AsyncKeyValues.search)
    put = blocking(AsyncKeyValues.put, at_once=AsyncKeyValues._put_at_once)  # noqa: SLF001
    add = blocking(AsyncKeyValues.add, at_once=AsyncKeyValues._add_at_once)  # noqa: SLF001
    append = blocking(AsyncKeyValues.append)
    delete = blocking(AsyncKeyValues.delete, at_once=AsyncKeyValues._delete_at_once)  # noqa: SLF001
    write = blocking(AsyncKeyValues.write, at_once=AsyncKeyValues._write_at_once)  # noqa: SLF001
    delete_under = blocking(AsyncKeyValues.delete_under)
    touch = blocking(AsyncKeyValues.touch)
    sweep = blocking(AsyncKeyValues.sweep)
    version = blocking(AsyncKeyValues.version)
    names = blocking(AsyncKeyValues.names)
