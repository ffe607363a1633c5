"""What every framework writes and reads: conversations, memories and documents, as plain data.

A conversation is a list of lines: who says, shows, thinks, calls or answers what. Each framework makes
its own messages of the lines, and lines of the messages that it reads; how many messages that are is
its own affair.
"""

import base64
import re

from lance_context_core import CallableEmbedder

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def text(who, said):
    """Somebody says something."""
    return {"who": who, "kind": "text", "text": said}


def image(who, data, *, media_type="image/png", caption=None):
    """Somebody shows a picture."""
    return {
        "who": who,
        "kind": "image",
        "media_type": media_type,
        "data": data,
        "caption": caption,
    }


def reasoning(thought):
    """A model thinks."""
    return {"who": "assistant", "kind": "reasoning", "text": thought}


def call(call_id, name, arguments):
    """A model calls a tool."""
    return {
        "who": "assistant",
        "kind": "call",
        "id": call_id,
        "name": name,
        "arguments": arguments,
    }


def result(call_id, name, said, *, failed=False):
    """A tool answers."""
    return {
        "who": "tool",
        "kind": "result",
        "id": call_id,
        "name": name,
        "text": said,
        "failed": failed,
    }


def other(who, thing):
    """What should not be there."""
    return {"who": who, "kind": "other", "thing": str(thing)}


TRIP = [
    text("system", "You plan journeys. Be brief — “brief” meaning 短く.\nNever invent a place."),
    text("user", "Where was this taken? Grüße aus dem Süden 🏔️, Ada"),
    image("user", PNG, caption="a gilded cross above the clouds"),
    reasoning("A peak with a gilded cross: the atlas and the almanac know it."),
    call("call-1", "atlas", {"query": "gilded cross", "limit": 2, "exact": False, "near": None}),
    call("call-2", "almanac", {"months": [6, 7], "height": 2962.06}),
    result("call-1", "atlas", "Zugspitze"),
    result("call-2", "almanac", "The line is dead: 'E\\42'", failed=True),
    text("assistant", "That is the summit of the Zugspitze.\tצוגשפיצה, जुगस्पित्ज़े"),  # noqa: RUF001 - as it is written
    text("user", "Then book a cabin, please."),
    text("assistant", "Done. Is there anything else?"),
    text("user", "Sencha in the morning."),
    text("assistant", "二人分ですね。"),
]
KITCHEN = [text("user", "Two cups, please."), text("assistant", "Coming.")]
OF_BEN = [text("user", "I am Ben. Is that the summit?"), text("assistant", "No.")]
BEGUN = TRIP[1:9]
"""What others go on with."""
GONE = [text("user", "Forget what I said."), text("assistant", "I shall.")]

MEMORIES = ["Ada is allergic to nuts", "Ada prefers trains to planes", "Ada lives in Oslo"]
MEMORIES_OF_BEN = ["Ben is allergic to bees"]

DOCUMENTS = {
    "kitchen": "Ginger tea takes five minutes",
    "attic": "A map of the railway",
    "cellar": "Sencha is kept in the dark",
}
"""A text in each room."""


def went_on(name):
    """What a framework says in a conversation that another has begun."""
    return text("user", f"This is {name}, and I go on: 続けます。")


def words_of(message):
    """The text that a question is compared with."""
    return set(re.findall(r"\w+", message.lower()))


_MEANINGS = [
    {"tea", "sencha", "beverage"},
    {"trains", "railway", "locomotive"},
    {"summit", "mountain"},
    {"allergic", "illness"},
    {"oslo", "norway"},
    {"cups", "book", "cabin"},
]
"""Words of each of these mean the same; any other means nothing."""


def embedded(texts):
    """Vectors that are near each other where the texts mean the same, in any process."""
    return [
        [float(len(words_of(one) & meaning)) for meaning in _MEANINGS] + [0.25] for one in texts
    ]


DIMENSION = len(_MEANINGS) + 1


def embedder():
    """What every process opens the store with."""
    return CallableEmbedder(embedded, model="matrix", dimension=DIMENSION)


def as_bytes(data):
    """What stands in base64."""
    return base64.b64decode(data)


def as_base64(data):
    """Bytes as text."""
    return base64.b64encode(data).decode()


def turns(lines):
    """The lines of one speaker at a time, as most frameworks' messages are."""
    grouped = []
    for line in lines:
        if grouped and grouped[-1][0]["who"] == line["who"] != "tool":
            grouped[-1].append(line)
        else:
            grouped.append([line])
    return grouped
