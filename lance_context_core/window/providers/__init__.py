"""The dialects: message formats and rules of providers, by name in `DIALECTS`."""

from typing import Literal

from lance_context_core._util.checks import shown
from lance_context_core.errors import InvalidRequestError
from lance_context_core.window.providers.anthropic import Anthropic
from lance_context_core.window.providers.common import Dialect, Plain
from lance_context_core.window.providers.gemini import Gemini
from lance_context_core.window.providers.openai import OpenAIChat, OpenAIResponses

DialectName = Literal["openai_chat", "openai_responses", "anthropic", "gemini", "plain"]
"""The name of a dialect."""

DIALECTS: dict[str, Dialect] = {
    one.name: one for one in (OpenAIChat(), OpenAIResponses(), Anthropic(), Gemini(), Plain())
}
"""The dialects, by name."""


def dialect(name: str) -> Dialect:
    """Return the dialect of that name. Raises InvalidRequestError if unknown."""
    if isinstance(name, str) and name in DIALECTS:
        return DIALECTS[name]
    raise InvalidRequestError(f"dialect={shown(name)}: use one of {', '.join(DIALECTS)}")
