"""ADK's services by the scheme `lance://`: for `adk web`, `adk run` and `adk api_server`.

`lance:///srv/memory` is a directory, `lance://memory` one below the working directory, and
`lance:s3://bucket/memory` an object store. Options of the services stand after `?`, such as
`lance:///srv/memory?embedder=local&tenant=acme`.
"""

from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from google.adk.cli.service_registry import ServiceRegistry, get_service_registry
from google.adk.errors.input_validation_error import InputValidationError

from google_adk_lance_context.artifacts import LanceArtifactService
from google_adk_lance_context.memories import LanceMemoryService
from google_adk_lance_context.sessions import LanceSessionService

SCHEME = "lance"


def register_lance_services(
    registry: ServiceRegistry | None = None, *, scheme: str = SCHEME
) -> None:
    """Lets ADK make all three services of URIs of this scheme; `registry` is ADK's by default.

    Call it in the `services.py` of the directory of your agents, where ADK looks for it.
    """
    chosen = get_service_registry() if registry is None else registry
    chosen.register_session_service(scheme, lance_session_service)
    chosen.register_memory_service(scheme, lance_memory_service)
    chosen.register_artifact_service(scheme, lance_artifact_service)


def lance_session_service(uri: str, **_: Any) -> LanceSessionService:
    """Makes a session service of a URI, with `stale`, `agent_id`, `tenant` and `embedder`."""
    store, options = _parsed(uri, ("stale", "agent_id", "tenant", "embedder"))
    return LanceSessionService(store, **options)


def lance_memory_service(uri: str, **_: Any) -> LanceMemoryService:
    """Makes a memory service of a URI, with `limit`, `mode`, `agent_id`, `tenant`, `embedder`."""
    store, options = _parsed(uri, ("limit", "mode", "agent_id", "tenant", "embedder"))
    if "limit" in options:
        options["limit"] = int(options["limit"]) if options["limit"].isdecimal() else -1
    return LanceMemoryService(store, **options)


def lance_artifact_service(uri: str, **_: Any) -> LanceArtifactService:
    """Makes an artifact service of a URI, with `tenant`."""
    store, options = _parsed(uri, ("tenant",))
    return LanceArtifactService(store, **options)


def _parsed(uri: str, known: tuple[str, ...]) -> tuple[str, dict[str, Any]]:
    """The place of a store, and the options of a service."""
    parts = urlsplit(uri)
    place = unquote(f"{parts.netloc}{parts.path}")
    if not place.strip("/"):
        raise InputValidationError(
            f"uri={uri!r:.200} has no place: give a directory, such as lance:///srv/memory"
        )
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    if unknown := sorted(options.keys() - set(known)):
        raise InputValidationError(
            f"uri={uri!r:.200} has the unknown options {unknown}: use {', '.join(known)}"
        )
    return place, options
