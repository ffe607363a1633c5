"""Agents of agentscope 1.x behind the Runner of agentscope-runtime 1.1, one for each request."""

import asyncio
import warnings

from adapters.agentscope.agentscope1_doubles import ScriptedModel, agent
from agentscope.pipeline import stream_printing_messages
from agentscope_lance_context import (
    LanceContextLongTermMemory,
    LanceContextMemory,
    LanceContextSession,
)

from lance_context_core import AsyncContextStore

with warnings.catch_warnings():
    # It says at import what of it will be gone.
    warnings.simplefilter("ignore")
    from agentscope_runtime.engine.runner import Runner


class Cooks(Runner):
    def __init__(self, store, model):
        super().__init__()
        self.framework_type = "agentscope"
        self.store = store
        self.model = model

    async def query_handler(self, msgs, request=None, **_):
        whose = {"session_id": request.session_id, "user_id": request.user_id}
        sessions = LanceContextSession(self.store)
        one = agent(
            self.model,
            memory=LanceContextMemory(self.store, **whose),
            long_term_memory=LanceContextLongTermMemory(self.store, **whose),
        )
        await sessions.load_session_state(**whose, agent=one)
        async for message, is_last in stream_printing_messages([one], one(msgs)):
            yield message, is_last
        await sessions.save_session_state(**whose, agent=one)


def ask(where, model, said, *, session="monday", user="ada"):
    """What the runner answers, which lives for this request."""

    async def main():
        content = [{"type": "text", "text": said}]
        asked = {"type": "message", "role": "user", "content": content}
        request = {"input": [asked], "session_id": session, "user_id": user}
        async with await AsyncContextStore.open(where) as store, Cooks(store, model) as runner:
            events = [one async for one in runner.stream_query(request)]
        return events[-1].output[-1].content[0].text

    return asyncio.run(main())


def test_requests_go_on_where_the_last_one_of_the_session_stopped(tmp_path):
    assert ask(tmp_path, ScriptedModel("Noted."), "My tea is Sencha") == "Noted."
    model = ScriptedModel("Sencha.")
    assert ask(tmp_path, model, "Which one?") == "Sencha."
    assert model.asked[0] == ["You cook.", "My tea is Sencha", "Noted.", "Which one?"]
    model = ScriptedModel("Sencha.")
    ask(tmp_path, model, "Which tea?", session="tuesday")
    assert "My tea is Sencha" in model.asked[0][-1]
    model = ScriptedModel("Hm.")
    ask(tmp_path, model, "Which tea?", user="bob")
    assert model.asked[0] == ["You cook.", "Which tea?"]
