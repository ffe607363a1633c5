"""A coding agent that remembers a repository: files in sync, decisions with their source, a branch.

python examples/coding_agent.py [DIR]

The steps of the agent are scripted, so that it runs without a key. The repository is made in DIR.
"""

import sys
import tempfile
from pathlib import Path

from lance_context_core import ContextStore, Message

FILES = {
    "README.md": "# Shop\n\nA web shop for tea. Run `make serve`.\n",
    "shop/cart.py": (
        "def total(lines):\n"
        '    """The price of a cart in cents. Discounts are applied before tax."""\n'
        "    return sum(line.price * line.amount for line in lines)\n"
    ),
    "shop/tax.py": 'RATE = 0.07\n"""Reduced rate for food."""\n',
    "docs/decisions.md": "# Decisions\n\n## Money\n\nAmounts of money are integers in cents.\n",
}
SESSION = "issue 17"


class CodingAgent:
    """The memory of one agent about one repository."""

    def __init__(self, store: ContextStore, repository: Path) -> None:
        """Reads what `repository` has, and keeps it in sync with `look`."""
        self._store = store
        self._repository = repository

    def look(self) -> str:
        """Bring the indexed files up to date; returns which ones changed."""
        done = self._store.documents.sync(self._repository)
        counts = {"added": done.added, "updated": done.updated, "deleted": done.deleted}
        return ", ".join(f"{len(names)} {what}" for what, names in counts.items() if names)

    def find(self, question: str) -> str:
        """The passage that answers, with the file it is from."""
        hit = self._store.documents.search(question, limit=1)[0]
        return f"{' '.join(hit.record.text.split())[:70]} [{hit.record.citation}]"

    def decide(self, decision: str, *, message_id: str) -> None:
        """Stores a decision for all later sessions, with the id of its message."""
        self._store.context().add("assistant", decision, source_ids=[message_id])

    def recall(self, question: str) -> str:
        """Decisions and messages about it of any session, best first."""
        return self._store.search(question, limit=1)[0].record.text or ""


def main(directory: Path) -> None:
    """Index a repository, decide, try a change on a branch, and follow the files."""
    repository = directory / "shop-repository"
    for name, text in FILES.items():
        path = repository / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    with ContextStore.open(directory / "store") as store:
        agent = CodingAgent(store, repository)
        print(f"== The repository is indexed: {agent.look()}")
        print(f"  ? how are amounts of money stored\n    {agent.find('amounts of money')}")
        print(f"  ? when are discounts applied\n    {agent.find('discounts applied tax')}")

        print("\n== A decision, with its source")
        asked = Message.user("Use the banker's rounding for tax.", id="m1")
        store.history.append("coder", asked, session_id=SESSION)
        agent.decide("Tax is rounded half to even, per cart.", message_id="m1")
        print(f"  ? how do we round\n    {agent.recall('round tax')}")

        print("\n== An experiment on a branch of the memory")
        trial = CodingAgent(store.create_branch("trial"), repository)
        trial.decide("Prices move to decimals.", message_id="m1")
        print(f"  on the branch: {trial.recall('decimals')}")
        store.delete_branch("trial")
        print(f"  on main, {len(store.search('decimals'))} results: the branch was dropped")

        print("\n== The repository changes")
        (repository / "shop/tax.py").write_text('RATE = 0.05\n"""Reduced again."""\n')
        (repository / "README.md").unlink()
        print(f"  {agent.look()}")
        print(f"  ? reduced rate\n    {agent.find('reduced rate')}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary))
