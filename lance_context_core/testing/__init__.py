"""The contracts of the protocols: now in `lance_context_testing`, a distribution of its own."""

from lance_context_core._util.extras import moved

with moved("lance_context_core.testing", to="lance-context-testing"):
    from lance_context_testing import *  # noqa: F403
    from lance_context_testing import __all__  # noqa: F401
