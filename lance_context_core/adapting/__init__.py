"""Building blocks of adapters: for code that offers this store in a framework's own classes.

`Handle` and `HandleOwner` take a store, or open and close one. `block_on` gives a class its
blocking methods without a second implementation, and `begin` does not wait; `beside_the_loop`,
`in_steps` and `in_thread` run long work without blocking an event loop; `one_at_a_time` is a
lock by name for coroutines of several event loops. `JsonCodec` encodes values that JSON lacks.
`plain` converts results of the store to JSON, and `encodable` replaces lone surrogates, which no
store can hold. `arguments_of` and `arguments_text` read and write the arguments of tool calls,
and `says_something` decides which messages are remembered. `content_of` and `facts_of` describe
a record, and `countable_text` returns the text of a message that counts as tokens. `add_loaded`
adds the output of a loader, as `LoadedText`s, to the documents, and `citation_of` cites a
passage. `remember_once` stores one memory per text, and `best_of` merges the results of several
searches. `WindowMaker` stores a conversation and assembles its window. `retried` and `Attempts`
retry after conflicts. `transaction_or_store` writes to several stores in one commit where the place
allows it. `listed` and `check_name` refuse invalid arguments before any work.
Nothing here depends on a framework.
"""

from lance_context_core._loop import begin, block_on
from lance_context_core._util.checks import check_name, check_names, listed
from lance_context_core._util.cooperative import each as in_steps
from lance_context_core._util.lru import Emptied, emptied_with_stores
from lance_context_core._util.retry import Attempts, retried
from lance_context_core.adapting.blocking import beside_the_loop, in_thread, one_at_a_time
from lance_context_core.adapting.failing import OnError, check_on_error, going_on
from lance_context_core.adapting.handles import (
    Handle,
    HandleOwner,
    LoadedText,
    StoreLike,
    add_loaded,
    citation_of,
    uri_of,
)
from lance_context_core.adapting.remembering import best_of, remember_once
from lance_context_core.adapting.transactions import TransactionOrStore, transaction_or_store
from lance_context_core.adapting.values import (
    JsonCodec,
    TypeCodec,
    content_of,
    encodable,
    facts_of,
    plain,
)
from lance_context_core.adapting.windows import (
    WindowMaker,
    arguments_of,
    arguments_text,
    countable_text,
    says_something,
)
from lance_context_core.scope import Scope
from lance_context_core.stores.remembering import Remembered

__all__ = [  # noqa: RUF022 - in the order in which the reference shows them
    # The store
    "StoreLike",
    "Handle",
    "HandleOwner",
    "Scope",
    "uri_of",
    # Blocking and asynchronous methods with one body
    "block_on",
    "begin",
    "beside_the_loop",
    "in_steps",
    "in_thread",
    "one_at_a_time",
    # Values
    "JsonCodec",
    "TypeCodec",
    "plain",
    "encodable",
    # Parts of messages
    "arguments_of",
    "arguments_text",
    "says_something",
    # Records
    "content_of",
    "facts_of",
    "countable_text",
    # Memories
    "Remembered",
    "remember_once",
    "best_of",
    # Files
    "LoadedText",
    "add_loaded",
    "citation_of",
    # The window
    "WindowMaker",
    # Checks
    "check_name",
    "check_names",
    "listed",
    # Caches
    "Emptied",
    "emptied_with_stores",
    # Failing memory
    "OnError",
    "check_on_error",
    "going_on",
    # Retries
    "retried",
    "Attempts",
    # Several stores in one commit
    "TransactionOrStore",
    "transaction_or_store",
]
