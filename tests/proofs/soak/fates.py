"""What may befall a request on its way: a fate is a function of its first line, such as "GET / HTTP/1.1".

It says a field of `Faults`; `"silent"` for a request that is never answered; bytes for one that is not
delivered, but answered with them; None for one that goes its way.
"""

import random
from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """How requests fare by chance: the share of each fate. The rest goes its way."""

    throttled: float = 0.0
    """Answered with 503 or 429, without having been delivered."""
    dropped: float = 0.0
    """The connection is reset before the request is delivered."""
    unanswered: float = 0.0
    """It is delivered and done, but the connection is reset before the answer comes."""
    cut: float = 0.0
    """It is delivered and done, but the connection is reset in the middle of the answer."""
    disowned: float = 0.0
    """It is delivered and done, but answered with 504, as by a gateway that lost patience."""
    slow: float = 0.0
    """Delivered up to a second late."""

    def fates(self, seed):
        """A function that decides on one request after the other."""
        chance = random.Random(seed)
        shares = [(one.name, getattr(self, one.name)) for one in fields(self)]
        names, weights = zip(*shares, (None, 1 - sum(share for _, share in shares)), strict=True)
        return lambda request: chance.choices(names, weights)[0]


BAD_DAY = Faults(throttled=0.02, dropped=0.01, unanswered=0.01, cut=0.01, disowned=0.01, slow=0.05)
"""One request in nine."""


def kind(request):
    """What a request is about, such as "PUT _versions"."""
    method, path, _ = request.split()
    folders = ("_versions", "_transactions", "_indices", "data")
    return f"{method} {next((one for one in folders if f'/{one}/' in path), 'list')}"


class First:
    """A fate for the first request of a kind, and for none of the others."""

    def __init__(self, kind, fate):
        self._kind = kind
        self._fate = fate
        self.has_struck = False

    def __call__(self, request):
        if self.has_struck or kind(request) != self._kind:
            return None
        self.has_struck = True
        return self._fate


class Listening:
    """Nothing befalls any request; the kinds are remembered."""

    def __init__(self):
        self.kinds = set()

    def __call__(self, request):
        self.kinds.add(kind(request))


def calm(request):
    """Nothing befalls it."""
