"""A support agent for two companies: isolated tenants, recall across sessions, real erasure.

python examples/support_agent.py [DIR]

The answers come from a function in the place of a language model, so that it runs without a key.
"""

import sys
import tempfile
from pathlib import Path

from lance_context_core import ContextStore, Message
from lance_context_core.window import HistorySection, PinnedSection, RecallSection, SystemSection

AGENT = "support"
TICKETS = (
    ("acme", "ada", "ticket 1", "My router X200 loses its connection every night at 2 am."),
    ("acme", "bob", "ticket 2", "Please send invoices to billing@acme.example."),
    ("globex", "ada", "ticket 3", "The door code of our office is 4711, for your technician."),
)


def scripted(prompt: str) -> str:
    """The answer that a language model would give to this prompt."""
    if "X200" in prompt:
        return "Last time your X200 lost its connection at 2 am. Does it still?"
    return "Thank you. I noted it."


class SupportAgent:
    """Answers one customer of one company. It cannot read what belongs to another one."""

    def __init__(self, store: ContextStore, *, tenant: str, user_id: str) -> None:
        """All reads and writes go through a scope: the agent has no argument for another customer."""
        self._memory = store.scope(tenant=tenant, user_id=user_id)

    def reply(self, text: str, *, session_id: str) -> str:
        """Store the question, assemble a prompt from this and earlier sessions, store the answer."""
        self._memory.history.append(AGENT, Message.user(text), session_id=session_id)
        window = self._memory.assemble(
            agent_id=AGENT,
            session_id=session_id,
            budget=2_000,
            sections=[
                SystemSection(text="You are the support agent."),
                PinnedSection(texts=["Never promise a refund."]),
                HistorySection(),
                RecallSection(limit=5),
            ],
            messages=[Message.user(text)],
        )
        answer = scripted("\n".join(str(one) for one in window.messages))
        self._memory.history.append(AGENT, Message.assistant(answer), session_id=session_id)
        return answer


def main(directory: Path) -> None:
    """Handle three tickets, recall one of them weeks later, then erase a customer."""
    with ContextStore.open(directory) as store:
        for tenant, user_id, ticket, text in TICKETS:
            SupportAgent(store, tenant=tenant, user_id=user_id).reply(text, session_id=ticket)

        print("== Ada of Acme comes back with a new ticket")
        ada = SupportAgent(store, tenant="acme", user_id="ada")
        print(f"  agent: {ada.reply('My router is offline again.', session_id='ticket 9')}")

        print("\n== Isolation: each scope finds its own records only")
        for tenant, user_id in (("acme", "ada"), ("acme", "bob"), ("globex", "ada")):
            hits = store.scope(tenant=tenant, user_id=user_id).search("door code", limit=10)
            found = any("4711" in (hit.record.text or "") for hit in hits)
            print(f"  {tenant}/{user_id} finds the door code: {found}")

        print("\n== Ada of Globex asks to be forgotten")
        globex = store.scope(tenant="globex", user_id="ada")
        print(f"  a dry run would erase {globex.erase(dry_run=True).records} records")
        erased = globex.erase(sole_writer=True)
        print(f"  erased {erased.records} records and {erased.versions_removed} versions")
        print(f"  Acme still has {store.scope(tenant='acme').context().entries()} records")
    files = [one for one in directory.rglob("*") if one.is_file()]
    left = sum(b"4711" in one.read_bytes() for one in files)
    print(f"  files of the store that contain the door code: {left}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary))
