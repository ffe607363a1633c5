"""What an adapter is made of: for code that gives a framework this store in the framework's own words.

`Handle` and `HandleOwner` take a store, or open one and close it again. `block_on` gives a class its
blocking methods without a second implementation, and `begin` does not wait; `beside_the_loop`,
`in_steps` and `in_thread` do what takes long without holding up an event loop; `one_at_a_time` is a
lock by name for coroutines of several event loops. `JsonCodec` makes JSON
of values that JSON cannot hold. `plain` makes JSON of what the store's calls return, and `encodable` replaces
lone surrogates, which no store can hold. `arguments_of` and `arguments_text` read and write what a
model calls a tool with, and `says_something` is the rule of what is remembered. `content_of` and `facts_of` say what a record is, and
`countable_text` what of a message a limit of tokens counts. `add_loaded` puts what a loader has read, as `LoadedText`s, among
the documents, and `citation_of` says where a passage of one stands. `remember_once` stores one memory of a text, and
`best_of` makes one list of several searches' results. `WindowMaker` keeps a conversation and makes a window of it. `retried` and `Attempts` try again what
others prevented. `listed` and `check_name` refuse what the store would refuse, before anything is
done. Nothing here knows a framework.
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
    # Blocking and asynchronous, one body
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
    # A memory that fails
    "OnError",
    "check_on_error",
    "going_on",
    # Trying again
    "retried",
    "Attempts",
]
