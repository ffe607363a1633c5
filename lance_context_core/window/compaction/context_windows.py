"""How many tokens the models of the large providers take: what they have published, by family.

Such a list goes stale: whoever knows better says `context_window=`.
"""

from lance_context_core._util.checks import check_name, shown
from lance_context_core.errors import InvalidRequestError

_TOKENS = {
    "claude": 200_000,
    "gemini-1.5-pro": 2_097_152,
    "gemini": 1_048_576,
    "gpt-4-turbo": 128_000,
    "gpt-4.1": 1_047_576,
    "gpt-4o": 128_000,
    "gpt-5": 400_000,
    "llama-3": 128_000,
    "o1": 200_000,
    "o3": 200_000,
    "o4-mini": 200_000,
}


def context_window_of(model: str) -> int:
    """The tokens that a model takes, question and answer together.

    A provider's name before it, and a date or a size after it, do not matter: `openai/gpt-4o-2024-11-20`
    is a `gpt-4o`. Raises InvalidRequestError for a model that is not known, rather than guess.
    """
    name = check_name(model, "model").lower().replace(":", "/").rpartition("/")[2]
    known = [one for one in _TOKENS if name == one or name.startswith((f"{one}-", f"{one}."))]
    if not known:
        raise InvalidRequestError(
            f"model={shown(model)} is not known: say context_window=, the tokens that it takes"
        )
    return _TOKENS[max(known, key=len)]
