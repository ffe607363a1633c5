"""What the telemetry does where nothing is installed but its wheel."""

import re
import sys
from importlib.metadata import requires, version
from pathlib import Path

import lance_context_opentelemetry
from lance_context_opentelemetry import instrument, uninstrument
from opentelemetry.trace import NoOpTracer, NoOpTracerProvider

from lance_context_core import ContextStore, telemetry

NAME = "lance-context-opentelemetry"

package = Path(lance_context_opentelemetry.__file__).parent
assert package.is_relative_to(sys.prefix), package
assert (package / "py.typed").is_file()
assert lance_context_opentelemetry.__version__ == version(NAME) == version("lance-context-core")

named = {re.match(r"[\w-]+", one)[0] for one in requires(NAME)}
assert named == {"lance-context-core", "opentelemetry-api"}, named

begun = []


class Tracer(NoOpTracer):
    """Notes the names of spans: the API alone, without the SDK, makes none."""

    def start_as_current_span(self, name, *args, **kwargs):
        begun.append(name)
        return super().start_as_current_span(name, *args, **kwargs)


class Tracers(NoOpTracerProvider):
    """Makes such tracers."""

    def get_tracer(self, *args, **kwargs):
        return Tracer()


instrument(tracer_provider=Tracers())
with ContextStore.open("memory") as store:
    store.memory.add(["Prefers trains"], user_id="ada")
    store.memory.search("trains", user_id="ada")
    uninstrument()
    store.memory.search("trains", user_id="ada")
assert begun == ["create_memory", "search_memory"], begun
assert telemetry.instrument is instrument
