"""LangChain's chat history in SQL, on SQLite."""

from langchain_community.chat_message_histories import SQLChatMessageHistory
from sqlalchemy import create_engine

from benchmarks.sides.conversations import operations
from benchmarks.sides.langchain_messages import LangChainHistory
from benchmarks.sides.protocol import serve


class SqlHistory(LangChainHistory):
    """One engine for all sessions, with its defaults."""

    def _open(self, folder: str) -> None:
        self._engine = create_engine(f"sqlite:///{folder}/history.db")
        self.api = self._history("any")

    def _history(self, session: str) -> SQLChatMessageHistory:
        return SQLChatMessageHistory(session, connection=self._engine)


if __name__ == "__main__":
    serve(operations(SqlHistory, "langchain-community", "langchain-core", "sqlalchemy"))
