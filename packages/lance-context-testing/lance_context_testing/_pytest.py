"""pytest, made ready for the contracts before they are imported."""

import pytest

# A failure shows both sides of what was compared, as it does in a test file.
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
