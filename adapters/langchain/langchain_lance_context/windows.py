"""Shows the model of LangChain's `create_agent` a window of its thread, within a budget."""

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

    Use it instead of `SummarizationMiddleware`, which removes summarized messages from the thread,
    and `ContextEditingMiddleware`. Before each model call it stores the thread's messages, each
    once, and calls the model with a window by `store.assemble`: calls keep their results, the
    user's newest turn is always included, and the beginning stays the same for many calls, for
    providers' caches. Nothing is removed from the agent's state, its checkpoints, or the store.

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

        - `budget`: a `Budget`, or a number of tokens; reserve the tokens of tools with
          `reserve_output`.
        - `summariser`: a chat model, or a function of a transcript, that summarises messages before
          the window; without one they are left out, or recalled.
        - `sections`: the parts of the window after the instructions; see `WindowMaker`.
        - `dialect`: the provider's rules.
        - `user_id`: of the run, as in `LanceContextMemoryMiddleware`; with a user, answers to the
          newest question are recalled from all of the user's threads. `agent_id` and `tenant` are
          the rest of the scope.
        - `counter`: counts tokens; see `AsyncContextStore.assemble`.
        - `keep_windows`: whether each window is stored, for `store.windows`.
        - `on_error`: for a store that is unavailable. `"log"`: the model is called with the whole
          thread, and a warning is logged. `"raise"`: the run fails with that error. Permanent
          errors are always raised: an invalid request, such as a too small budget, and a closed
          store.
        - `embedding`: the embedder of a store at a URI.
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
        """Stores the thread, and calls the model with a window of it."""
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
        """The scope of this run, its session, and its user."""
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
    """The request with the window's messages; other system texts of it go to the system message."""
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
