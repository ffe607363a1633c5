"""pytest, which only this room needs, made ready for the contracts before they are imported."""

from lance_context_core.errors import MissingExtraError

try:
    import pytest
except ModuleNotFoundError as error:
    raise MissingExtraError(
        "lance_context_testing needs pytest, which is not installed: "
        "pip install 'lance-context-core[testing]'"
    ) from error

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
