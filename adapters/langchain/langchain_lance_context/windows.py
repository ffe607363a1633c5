"""What the model of LangChain's `create_agent` is shown of its thread: a window within a budget."""

import uuid
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest, ModelResponse
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import SystemMessage

from lance_context_core import AsyncContextStore, InvalidRequestError
from lance_context_core.adapting import (
    Handle,
    HandleOwner,
    OnError,
    StoreLike,
    WindowMaker,
    block_on,
    check_on_error,
)
from lance_context_core.window import (
    Budget,
    DialectName,
    Section,
    Summariser,
    SystemSection,
    Window,
)
from langchain_lance_context._messages import from_canonical, to_canonical
from langchain_lance_context._runs import (
    Whose,
    check_embedding,
    check_whose,
    configured,
    extended,
    going_on,
    name_of,
)

_INSTRUCTIONS = "instructions"
_PROMPT = (
    "Summarise this part of a conversation for the model that continues it: the task, what was decided "
    "and found out, and what is still to be done. Give dates in full. Answer with the summary alone."
)


class LanceContextWindowMiddleware(HandleOwner, AgentMiddleware[AgentState[Any], Any, Any]):
    """Shows the model a window of its thread, within a budget; the thread itself stays whole.

    It takes the place of `SummarizationMiddleware`, which removes what it has summarised from the
    thread, and of `ContextEditingMiddleware`: before each model call the thread's messages are kept in
    the store, those that are there already once, and the model is called with the window that
    `store.assemble` makes of them: no call loses its results, the newest turn of the user is always
    there, and the beginning stays the same for many calls, as providers' caches want it. Nothing is
    removed from the agent's state, its checkpoints, or the store.

    The session is the thread's id. A run without a thread is a session of its own.
    """

    def __init__(
        self,
        store: StoreLike,
        budget: Budget | int,
        *,
        summariser: BaseChatModel | Summariser | None = None,
        sections: Sequence[Section] | None = None,
        dialect: DialectName = "openai_chat",
        user_id: Whose | None = None,
        agent_id: Whose | None = None,
        tenant: Whose | None = None,
        counter: Any = None,
        keep_windows: bool = False,
        on_error: OnError = "log",
        embedding: Any = None,
    ) -> None:
        """Over `store`: an open one, which stays open, or a URI, which `close` closes again.

        - `budget`: a `Budget`, or a number of tokens; what tools take is for `reserve_output`.
        - `summariser`: a chat model, or a function of a transcript, that tells in short what came
          before the window; without one that is left out, or recalled.
        - `sections`: what the window is made of beside the instructions; see `WindowMaker`.
        - `dialect`: whose rules it keeps.
        - `user_id`: whose run it is, as in `LanceContextMemoryMiddleware`; with a user, what answers
          the newest question is recalled from all of the user's threads. `agent_id` and `tenant` are
          the rest of the scope.
        - `counter`: what counts tokens; see `AsyncContextStore.assemble`.
        - `keep_windows`: whether each window is kept, so that `store.windows` shows what the model saw.
        - `on_error`: what happens if the store is away or busy. `"log"`: the model is called with the
          whole thread, and a warning is logged. `"raise"`: the run fails with that error. What no later
          run mends is always raised: a request that is wrong, such as a budget that is too small, and
          a store that is closed.
        - `embedding`: what a store at a URI embeds with.
        """
        super().__init__()
        check_embedding(embedding, store)
        for name, whose in (("user_id", user_id), ("agent_id", agent_id), ("tenant", tenant)):
            check_whose(whose, name)
        if isinstance(summariser, BaseChatModel):
            summariser = _by_model(summariser)
        self._maker = WindowMaker(
            budget=budget,
            sections=sections,
            summariser=summariser,
            dialect=dialect,
            counter=counter,
            keeps_windows=keep_windows,
        )
        self._on_error = check_on_error(on_error)
        self._handle = Handle(store, embedder=embedding)
        self._whose = {"user_id": user_id, "agent_id": agent_id, "tenant": tenant}

    def wrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], ModelResponse[Any]],
    ) -> ModelResponse[Any]:
        """Keep the thread, and call the model with a window of it."""
        shown = request
        with going_on(self._on_error, "no window could be made, the model sees the whole thread"):
            shown = block_on(self._shown(request, *self._run(request)))
        return handler(shown)

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        """As `wrap_model_call`."""
        shown = request
        with going_on(self._on_error, "no window could be made, the model sees the whole thread"):
            shown = await self._shown(request, *self._run(request))
        return await handler(shown)

    def _run(self, request: ModelRequest[Any]) -> tuple[AsyncContextStore, str, str]:
        """The part of the store that this run may see, its session, and its user."""
        names = {part: name_of(whose, part, request.runtime) for part, whose in self._whose.items()}
        user = names["user_id"] or configured("user_id", otherwise=self._handle.scope.user_id)
        if user is not None and (not isinstance(user, str) or not user):
            raise InvalidRequestError(f"user_id={user!r:.80}: give a name, or leave it out")
        first = request.messages[0].id if request.messages else None
        session = configured("thread_id", otherwise=first or uuid.uuid4().hex)
        return self._handle.aio.scope(**{**names, "user_id": user}), str(session), user or ""

    async def _shown(
        self, request: ModelRequest[Any], store: AsyncContextStore, session: str, user: str
    ) -> ModelRequest[Any]:
        messages = [to_canonical(one) for one in request.messages]
        await self._maker.keep(store, session, messages)
        told = request.system_message.text if request.system_message else ""
        before = [SystemSection(name=_INSTRUCTIONS, text=str(told))] if str(told).strip() else []
        now = [one for one in messages if not one.id]
        window = await self._maker.window(store, session, now, before=before, user_id=user)
        return _told(request, window, n_before=len(before))


def _told(request: ModelRequest[Any], window: Window, *, n_before: int) -> ModelRequest[Any]:
    """The request with the window's messages; what else it tells as the system's goes to that message."""
    system, messages = request.system_message, list[Any]()  # of the messages that its types name
    for one in window.messages[n_before:]:
        made = from_canonical(one)
        if not messages and all(isinstance(each, SystemMessage) for each in made):
            system = extended(system, one.text)
        else:
            messages += made
    return request.override(system_message=system, messages=messages)


def _by_model(model: BaseChatModel) -> Summariser:
    async def summarise(transcript: str) -> str:
        answer = await model.ainvoke([SystemMessage(_PROMPT), ("user", transcript)])
        return str(answer.text)

    return summarise
