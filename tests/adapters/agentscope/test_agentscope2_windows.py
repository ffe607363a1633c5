"""LanceContextWindowMiddleware: what the model of an agent is shown, and what stays in its context."""

import pytest
from adapters.agentscope.agentscope2_doubles import ScriptedModel, agent, call, texts
from agentscope.message import AssistantMsg, TextBlock, ToolResultBlock, UserMsg
from agentscope.permission import PermissionContext, PermissionMode
from agentscope.state import AgentState
from agentscope.tool import FunctionTool, Toolkit
from agentscope_lance_context import LanceContextWindowMiddleware

from lance_context_core import ContextStore, InvalidRequestError, Message, StorageError
from lance_context_core.adapting import WindowMaker
from lance_context_core.window import Budget

ROOM = Budget(total=700, margin=0)


@pytest.fixture
def store():
    with ContextStore.open("memory://") as opened:
        yield opened


def talk(n):
    return [
        one
        for number in range(n)
        for one in (
            UserMsg("Ada", f"number {number} " + "tea " * 20),
            AssistantMsg("Cook", "cup " * 20),
        )
    ]


class Seeing(ScriptedModel):
    """Keeps the messages that it is called with."""

    seen = ()

    async def __call__(self, messages, *args, **kwargs):
        self.seen = (*self.seen, [one.model_copy(deep=True) for one in messages])
        return await super().__call__(messages, *args, **kwargs)


async def reply(store, model, said, *, context=(), tools=(), **given):
    allowed = PermissionContext(mode=PermissionMode.BYPASS)
    state = AgentState(session_id="s", context=list(context), permission_context=allowed)
    window = LanceContextWindowMiddleware(store.aio, **{"budget": ROOM, **given})
    one = agent(model, middlewares=[window], toolkit=Toolkit(tools=list(tools)), state=state)
    await one.reply(UserMsg("Ada", said))
    return one


async def test_the_model_is_shown_a_window_and_the_context_stays_whole(store):
    model = Seeing("Hm.")
    one = await reply(store, model, "And now?", context=talk(40), keep_windows=True)
    (heard,) = model.seen
    assert heard[0].role == "system"
    assert 2 < len(heard) < 30
    assert [m for m in heard if m.role == "user"][-1].get_text_content() == "And now?"
    assert len(one.state.context) == 82
    (step,) = store.windows.list("s")
    assert [m.id for m in heard[1:]] == list(store.windows.get(step).ids)
    kept = store.scope().history.get_messages("", session_id="s")
    assert [m.id for m in kept] == [m.id for m in one.state.context[:-1]]


async def test_calls_and_results_of_one_answer_are_shown_as_they_are(store):
    def look(where: str) -> str:
        """Look somewhere."""
        return f"{where} is full"

    done = AssistantMsg(
        "Cook",
        [
            call("look", id="c0", where="cup"),
            ToolResultBlock(
                id="c0", name="look", output=[TextBlock(text="empty")], state="success"
            ),
            TextBlock(text="The cup is empty."),
        ],
    )
    model = Seeing([call("look", where="pot")], "It is full.")
    tool = FunctionTool(look)
    context = [*talk(20), UserMsg("Ada", "the cup?"), done]
    await reply(store, model, "the pot?", context=context, tools=[tool])
    first, second = model.seen
    assert done.model_dump() in [m.model_dump() for m in first]
    assert done.model_dump() in [m.model_dump() for m in second]
    kinds = [block.type for block in second[-1].content]
    assert kinds[-2:] == ["tool_call", "tool_result"]


async def test_the_context_is_not_compressed(store):
    model = Seeing("Hm.")
    one = await reply(store, model, "hello", context=talk(40))
    before = texts(one.state.context)
    await one.compress_context()
    assert texts(one.state.context) == before


async def test_a_user_is_reminded_of_other_sessions(store):
    said = Message.user("I take hazelnuts with tea", id="n")
    store.scope(user_id="ada").history.append("", said, session_id="old")
    model = Seeing("Hm.")
    await reply(store, model, "what about hazelnuts?", user_id="ada")
    assert "I take hazelnuts" in model.seen[0][-1].get_text_content()


async def test_each_step_can_be_looked_at(store):
    await reply(store, Seeing("Hm."), "hello", keep_windows=True)
    (step,) = await store.aio.scope().windows.list("s")
    kept = await store.aio.windows.get(step)
    assert "hello" in [one.text for one in kept.seen]


@pytest.mark.parametrize(
    "given", [{"budget": 0}, {"dialect": "klingon"}, {"sections": [3]}, {"user_id": " "}], ids=str
)
def test_a_wrong_argument_is_refused_at_once(store, given):
    with pytest.raises(InvalidRequestError):
        LanceContextWindowMiddleware(store, **{"budget": 900, **given})


async def test_a_store_that_fails_shows_the_model_the_whole_context(store, monkeypatch, caplog):
    async def failing(*_, **__):
        raise StorageError("the disk is away")

    monkeypatch.setattr(WindowMaker, "keep", failing)
    model = Seeing("Hm.", "Hm.")
    await reply(store, model, "And now?", context=talk(40))
    (heard,) = model.seen
    said = texts([*talk(40), UserMsg("Ada", "And now?")])
    assert texts(heard[1:])[: len(said)] == said
    assert "no window could be made" in caplog.text
    with pytest.raises(StorageError):
        await reply(store, model, "And now?", on_error="raise")
    with pytest.raises(InvalidRequestError, match=r"^on_error='ignore'"):
        LanceContextWindowMiddleware(store.aio, ROOM, on_error="ignore")
