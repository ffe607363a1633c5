"""OpenTelemetry: a span and a duration for each call of a store, if enabled.

The names are those of OpenTelemetry's conventions for generative AI: `search_memory`, `create_memory`,
`retrieval`, and so on. Before `instrument` is called nothing is recorded, at no cost.
"""

from lance_context_opentelemetry.telemetry import instrument, uninstrument

__version__ = "0.1.0"

__all__ = [
    # Telling
    "instrument",
    "uninstrument",
]
