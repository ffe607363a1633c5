"""Key-value items in namespaces, from synchronous code."""

from lance_context_core.stores.key_values import AsyncKeyValues
from lance_context_core.sync._blocking import Named, blocking


class KeyValues(Named[AsyncKeyValues]):
    """The items of one name; `AsyncKeyValues` is the asynchronous one."""

    # What may be done in the caller's thread

    get = blocking(AsyncKeyValues.get, at_once=AsyncKeyValues._get_at_once)  # noqa: SLF001
    put = blocking(AsyncKeyValues.put, at_once=AsyncKeyValues._put_at_once)  # noqa: SLF001
    add = blocking(AsyncKeyValues.add, at_once=AsyncKeyValues._add_at_once)  # noqa: SLF001
    delete = blocking(AsyncKeyValues.delete, at_once=AsyncKeyValues._delete_at_once)  # noqa: SLF001
    write = blocking(AsyncKeyValues.write, at_once=AsyncKeyValues._write_at_once)  # noqa: SLF001

    # What is done on the store's loop

    list = blocking(AsyncKeyValues.list)
    keys = blocking(AsyncKeyValues.keys)
    count = blocking(AsyncKeyValues.count)
    namespaces = blocking(AsyncKeyValues.namespaces)
    search = blocking(AsyncKeyValues.search)
    append = blocking(AsyncKeyValues.append)
    delete_under = blocking(AsyncKeyValues.delete_under)
    touch = blocking(AsyncKeyValues.touch)
    sweep = blocking(AsyncKeyValues.sweep)
    version = blocking(AsyncKeyValues.version)
    names = blocking(AsyncKeyValues.names)
