"""The store's history keeps the contract of `HistoryProvider`, and more than that."""

from core.conformance.history import HistoryContract, texts

from lance_context_core.messages import Message


class TestHistory(HistoryContract):
    """The history of the store itself."""


async def test_one_id_names_a_message_per_user(store):
    users = [store, *(store.scope(user_id=user) for user in ("u", "v", "None"))]
    for number, user in enumerate(users):
        message = Message.user(f"{number}", id="m")
        assert await user.history.append("a", message, session_id="s") == "m"
    for number, user in enumerate(users[1:], start=1):
        assert texts(await user.history.get_messages("a", session_id="s")) == [f"{number}"]
    assert await store.history.count("a", session_id="s") == len(users)
