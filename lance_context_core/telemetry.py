"""Spans and durations for OpenTelemetry: now in `lance_context_opentelemetry`."""

from lance_context_core._util.extras import moved

with moved("lance_context_core.telemetry", to="lance-context-opentelemetry"):
    from lance_context_opentelemetry import *  # noqa: F403
    from lance_context_opentelemetry import __all__  # noqa: F401
