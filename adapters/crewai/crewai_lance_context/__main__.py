"""`python -m crewai_lance_context SOURCE PLACE`: copies CrewAI's LanceDB memory into a store."""

import argparse
import sys

from crewai_lance_context.importing import import_memories
from crewai_lance_context.memory_storage import LanceMemoryStorage
from lance_context_core import ContextStoreError


def main(arguments: list[str] | None = None) -> int:
    """Import, and print how many records there were; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m crewai_lance_context",
        description="Copy what CrewAI remembered in its own LanceDB folder into a store.",
    )
    parser.add_argument("source", help="CrewAI's memory folder, such as $CREWAI_STORAGE_DIR/memory")
    parser.add_argument("place", help="the store: a directory, or a URI of an object store")
    parser.add_argument("--user", metavar="ID", help="whose memory it is")
    parser.add_argument("--scope", default="/", metavar="PATH", help="the path to put it below")
    given = parser.parse_args(arguments)
    try:
        with LanceMemoryStorage(given.place, user_id=given.user, scope=given.scope) as storage:
            done = import_memories(given.source, storage)
    except (ContextStoreError, ValueError) as error:
        sys.stderr.write(f"crewai_lance_context: {error}\n")
        return 1
    sys.stdout.write(f"{done.n_new} records imported, {done.n_known} were there.\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
