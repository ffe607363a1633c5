"""A program that remembers a secret, lets go of it, and prints what of its own memory still holds it."""

import gc
import sys
import tempfile
import time
from types import FrameType

from lance_context_core import ContextStore, Document, Item, Message

SECRET = "".join(map(chr, [113, 122, 120, 118, 106, 107, 119, 104]))
"""Nowhere in the source, so that no module has it."""


def holders():
    """What holds a text with the secret in it, save this program itself."""
    found = []
    gc.collect()
    for one in gc.get_objects():
        if one is globals() or isinstance(one, FrameType):
            continue
        for inside in (one, *gc.get_referents(one)):
            inner = gc.get_referents(inside) if isinstance(inside, tuple | dict | list) else ()
            if any(_has_it(text) for text in (inside, *inner)):
                found.append(f"{type(one).__module__}.{type(one).__name__}: {repr(one)[:400]}")
    return found


def _has_it(value):
    if isinstance(value, bytes | bytearray):
        return SECRET.encode() in value.lower()
    return isinstance(value, str) and value is not SECRET and SECRET in value.lower()


def write(store):
    said = f"My code is {SECRET} and I like tea."
    turn = [Message.user(said, id="m1"), Message.assistant(f"Noted {SECRET}", id="m2")]
    store.history.append_many("", turn, session_id="s")
    store.memory.add([said], user_id="u", session_id="s")
    store.vectors("c").add([Document(id="d", text=said, metadata={"code": SECRET})])
    store.kv("k").put([Item(key="i", value={"code": SECRET, "text": said})])
    store.sessions.create("s", title=f"About {SECRET}")
    store.context().add("user", said, external_id="r", metadata={"code": SECRET})


def read(store):
    history, items, documents = store.history, store.kv("k"), store.vectors("c")
    history.get_messages("", session_id="s")
    history.get_messages("", session_id="s", last=1)
    history.count("", session_id="s", filter={"metadata.code": SECRET})
    store.search(SECRET, mode="text")
    store.search("tea", mode="text", filter={"metadata.code": {"$text": SECRET.upper()}})
    store.memory.search(f"What does {SECRET.title()} stand for?", user_id="u")
    items.list(filter={"code": SECRET})
    items.list(filter={"text": {"$text": SECRET.upper()}})
    items.get([((), "i")])
    documents.list(filter={"code": SECRET})
    documents.search(f"code {SECRET}", mode="text")
    store.sessions.list()
    store.assemble(session_id="s", budget=20_000)


def erase(store):
    everything = {"created_at": {"$gt": "2000-01-01T00:00:00Z"}}
    store.sessions.delete("s")
    store.kv("k").delete([((), "i")])
    store.vectors("c").erase(["d"], sole_writer=True)
    store.erase(filter=everything, sole_writer=True)


def main(way, place):
    store = ContextStore.open(place, embedder="local", maintenance=None)
    write(store)
    read(store)
    if way != "unfolded":
        store.flush()
        read(store)
    assert holders(), "what is in memory before should have been seen"
    if way == "erased":
        erase(store)
    else:
        store.close()
    # On a busy machine a thread may still be about to let go of the last thing that it did.
    for _ in range(20):
        if not (found := holders()):
            break
        time.sleep(0.1)
    sys.stdout.write("\n".join(found))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        main(sys.argv[1], place)
