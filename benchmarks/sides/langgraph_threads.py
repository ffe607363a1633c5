"""What LangGraph's checkpointers are asked alike: a graph whose state is a conversation."""

from collections.abc import Sequence
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import START, MessagesState, StateGraph

from benchmarks.sides.conversations import Conversations, Said
from benchmarks.sides.langchain_messages import chat_message

_NODE = "listen"


class LangGraphThreads(Conversations):
    """A thread for each session, to whose state messages are added."""

    def _compile(self, saver: BaseCheckpointSaver[Any]) -> None:
        """Take `saver` as the checkpointer of a graph whose one node does nothing."""
        self.api = saver
        graph = StateGraph(MessagesState)
        graph.add_node(_NODE, lambda _: {})
        graph.add_edge(START, _NODE)
        self._graph = graph.compile(checkpointer=saver)

    def _turn(self, messages: Sequence[Said]) -> None:
        said = {"messages": [chat_message(one) for one in messages]}
        self._graph.update_state(_thread(messages[0].session), said, _NODE)

    def _whole(self, session: str) -> list[str]:
        state = self._graph.get_state(_thread(session)).values
        return [str(message.content) for message in state["messages"]]


def _thread(session: str) -> Any:
    return {"configurable": {"thread_id": session}}
