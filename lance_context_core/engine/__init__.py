"""The only rooms that know LanceDB."""

from lance_context_core.engine.later import run_later

run_later("lance_namespace_urllib3_client")
