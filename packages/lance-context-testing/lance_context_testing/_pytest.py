"""Registers the contracts with pytest before they are imported."""

import pytest

# A failed assertion shows both sides, as in a test file.
pytest.register_assert_rewrite(
    *(
        f"lance_context_testing.{name}"
        for name in (
            "_contract",
            "_listing",
            "history",
            "key_values",
            "memory",
            "sessions",
            "vectors",
        )
    )
)
