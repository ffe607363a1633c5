"""What LangChain's chat histories are asked alike."""

from abc import abstractmethod
from collections.abc import Sequence

from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from benchmarks.sides.conversations import Conversations, Said


class LangChainHistory(Conversations):
    """A chat history for each session."""

    @abstractmethod
    def _history(self, session: str) -> BaseChatMessageHistory:
        """That of a session."""

    def _append(self, message: Said) -> None:
        self._history(message.session).add_message(chat_message(message))

    def _turn(self, messages: Sequence[Said]) -> None:
        self._history(messages[0].session).add_messages([chat_message(one) for one in messages])

    def _whole(self, session: str) -> list[str]:
        return [str(message.content) for message in self._history(session).messages]


def chat_message(said: Said) -> BaseMessage:
    """A message as LangChain has it."""
    make = HumanMessage if said.role == "user" else AIMessage
    made: BaseMessage = make(said.text, additional_kwargs={"topic": said.topic})
    return made
