"""The cost of tokens, at the prices in the address."""

import math
from dataclasses import dataclass

from lance_context_core.errors import InvalidRequestError
from lance_context_inspector.view import View

_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Cost:
    """The tokens sent and received, and their cost."""

    n_input: int
    n_output: int
    amount: float | None
    """In the currency of the prices; None where the address has none."""


def cost_of(view: View, n_input: int, n_output: int) -> Cost:
    """The cost at `input_price` and `output_price` for a million. Raises InvalidRequestError for no price."""
    prices = [_price(view, name) for name in ("input_price", "output_price")]
    if prices == [None, None]:
        return Cost(n_input, n_output, None)
    amount = (n_input * (prices[0] or 0) + n_output * (prices[1] or 0)) / _MILLION
    return Cost(n_input, n_output, amount)


def _price(view: View, name: str) -> float | None:
    text = view.params.get(name)
    if not text:
        return None
    try:
        price = float(text)
    except ValueError:
        price = math.nan
    if not 0 <= price < math.inf:
        raise InvalidRequestError(f"{name}={text[:40]!r}: give a number, 0 or more")
    return price
