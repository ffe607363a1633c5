"""`python -m lance_context_cli` is `lance-ctx`."""

from lance_context_cli.main import main

main()
