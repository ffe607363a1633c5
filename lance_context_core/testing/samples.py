"""The values that have broken stores before: now in `lance_context_testing.samples`."""

from lance_context_testing.samples import *  # noqa: F403
