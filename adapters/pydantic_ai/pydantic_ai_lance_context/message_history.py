"""The messages of a session, for `message_history=`."""

from collections.abc import Sequence

from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse

from lance_context_core.adapting import Handle, HandleOwner, StoreLike, block_on, listed
from pydantic_ai_lance_context._errors import AGENT, of_user, user_errors
from pydantic_ai_lance_context._messages import from_canonical, to_canonical


class LanceMessageHistory(HandleOwner):
    """One session of `store.history`, as a list of Pydantic AI's messages.

    What Pydantic AI wrote comes back as by `ModelMessagesTypeAdapter`; what other frameworks wrote
    in the session is translated. Messages have no ids in Pydantic AI: each call of `append` adds
    what it is given, also if it is there.
    """

    def __init__(
        self,
        store: StoreLike,
        session_id: str,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
    ) -> None:
        """Over `store`: an open one, which stays open, or a URI, which `aclose` closes again.

        - `user_id`: whose session; absent means the user of the scope that `store` is, or none.
        - `agent_id`: as other frameworks name it, such as `""` for LangChain; absent means the
          agent of the scope that `store` is, or `pydantic-ai`.
        """
        with user_errors():
            self._handle = Handle(store)
        self._store = of_user(self._handle, user_id)
        own = self._handle.scope.agent_id or AGENT
        self._agent = own if agent_id is None else agent_id
        self._session = session_id

    async def load(self, *, last: int | None = None) -> list[ModelMessage]:
        """The messages in order, those of the `last` stored ones if given; empty if there are none.

        The beginning of a part of a session may be a tool's result whose call is left out:
        Pydantic AI mends that before it sends the history.
        """
        with user_errors():
            stored = await self._store.history.get_messages(
                self._agent, session_id=self._session, last=last
            )
        return from_canonical(stored)

    async def append(self, messages: Sequence[ModelMessage]) -> None:
        """Add messages at the end, such as `result.new_messages()`, all or none, in one commit.

        Raises UserError, before anything is written, for what is no message or cannot be stored.
        """
        with user_errors():
            given = listed(messages, "messages")
            for number, one in enumerate(given):
                if not isinstance(one, ModelRequest | ModelResponse):
                    raise UserError(
                        f"messages[{number}] is {one!r:.80}: give a ModelRequest or ModelResponse"
                    )
            made = [message for one in given for message in to_canonical(one)]
            await self._store.history.append_many(self._agent, made, session_id=self._session)

    async def clear(self) -> int:
        """Forget the session; returns the number of stored messages that it had."""
        with user_errors():
            return await self._store.history.clear(self._agent, session_id=self._session)

    # The same, for `run_sync`

    def load_sync(self, *, last: int | None = None) -> list[ModelMessage]:
        """As `load`."""
        return block_on(self.load(last=last))

    def append_sync(self, messages: Sequence[ModelMessage]) -> None:
        """As `append`."""
        block_on(self.append(messages))

    def clear_sync(self) -> int:
        """As `clear`."""
        return block_on(self.clear())
