"""How a batch is appended to a session by each framework: in its own messages, with one call.

What is not about appending, the participants of the matrix do.
"""

from importlib import import_module

from proofs.matrix.worker import PARTICIPANTS
from proofs.soak.talk import USER

from lance_context_core import Message


async def _core(participant, session, messages):
    history = participant._store.scope(user_id=USER).history
    said = [Message.user(text, id=id) for id, text in messages.items()]
    await history.append_many("", said, session_id=session)


async def _langchain(participant, session, messages):
    from langchain_core.messages import HumanMessage

    said = [HumanMessage(text, id=id) for id, text in messages.items()]
    await participant._history(USER, session).aadd_messages(said)


async def _llama_index(participant, session, messages):
    from llama_index.core.base.llms.types import ChatMessage

    said = [ChatMessage(role="user", content=text) for text in messages.values()]
    await participant._chat(USER).add_messages(session, said)


async def _agentscope(participant, session, messages):
    from agentscope.message import Msg

    said = [Msg("Ada", text, "user") for text in messages.values()]
    for message, id in zip(said, messages, strict=True):
        message.id = id
    await participant._memory(USER, session).add(said)


APPENDS = {
    "core": _core,
    "langchain": _langchain,
    "llama_index": _llama_index,
    "agentscope1": _agentscope,
}

NAMELESS = {"llama_index"}
"""Whose messages have no ids: writing one again writes another."""


class Hand:
    """One framework over one store."""

    def __init__(self, framework, store):
        module, participant = PARTICIPANTS[framework]
        self._participant = getattr(import_module(f"proofs.matrix.{module}"), participant)(store)
        self._append = APPENDS[framework]
        self.has_ids = framework not in NAMELESS
        self.can_search = self._participant.search_said is not None

    async def append(self, session, batch):
        """Write a batch at the end of a session."""
        await self._append(self._participant, session, batch.messages)

    async def texts(self, session):
        """All messages of a session, in order."""
        messages = await self._participant.messages(USER, session)
        return [line["text"] for line in self._participant.lines(messages)]

    async def found(self, question, mode, session):
        """The two messages that answer best, best first."""
        return await self._participant.search_said(USER, question, mode, session)
