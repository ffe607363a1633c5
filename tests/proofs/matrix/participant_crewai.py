"""CrewAI's memory and knowledge, and the tool for recall."""

import os
import re

os.environ |= {"CREWAI_DISABLE_TELEMETRY": "true", "OTEL_SDK_DISABLED": "true"}

from crewai import Memory
from crewai_lance_context import LanceKnowledgeStorage, LanceMemoryStorage, LanceRecallTool
from proofs.matrix import script

_HIT = re.compile(r"^- (.*) \(\w+, \d{4}-\d\d-\d\d\)$", re.DOTALL)


class Participant:
    """What an application on CrewAI does."""

    forget = None
    forget_memories = None
    add_documents = None
    delete_documents = None

    def __init__(self, store):
        self._store = store

    async def search_said(self, user, question, mode, session):
        filter = {"kind": "message"} if session is None else {"session_id": session}
        return await self._found(user, question, mode, filter=filter, limit=2)

    async def remember(self, user, facts):
        storage = LanceMemoryStorage(self._store, user_id=user)
        memory = Memory(
            storage=storage, embedder=script.embedded, llm="none", consolidation_threshold=1.0
        )
        for fact in facts:
            memory.remember(fact, scope="/facts", categories=["facts"], importance=0.5)

    async def recall(self, user, question, mode):
        return await self._found(user, question, mode, filter={"kind": "memory"}, limit=1)

    async def find_documents(self, collection, question, filter):
        knowledge = LanceKnowledgeStorage(self._store, collection=collection)
        found = await knowledge.asearch([question], 2, filter, score_threshold=0.0)
        return [one["content"] for one in found]

    async def _found(self, user, question, mode, **how):
        tool = LanceRecallTool(self._store, user_id=user, mode=mode, **how)
        told = await tool._arun(question)
        hits = re.split(r"\n(?=- )", told)
        return [found[1] for hit in hits if (found := _HIT.match(hit))]
