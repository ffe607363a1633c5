"""ADK makes the services of URIs: by one call, by `services.py`, or by `services.yaml`."""

import sys

import pytest
from adapters.google_adk.samples import OF_ADA, create, get, said, texts
from google.adk.cli import service_registry
from google.adk.cli.fast_api import get_fast_api_app
from google.adk.cli.service_registry import ServiceRegistry, load_services_module
from google.adk.cli.utils.service_factory import (
    create_artifact_service_from_options,
    create_memory_service_from_options,
    create_session_service_from_options,
)
from google.adk.errors.input_validation_error import InputValidationError
from google_adk_lance_context import (
    LanceArtifactService,
    LanceMemoryService,
    LanceSessionService,
    lance_artifact_service,
    lance_memory_service,
    lance_session_service,
    register_lance_services,
)
from starlette.testclient import TestClient

SERVICES_PY = """
from google_adk_lance_context import register_lance_services

register_lance_services()
"""
SERVICES_YAML = """
services:
  - {scheme: lance, type: session, class: google_adk_lance_context.lance_session_service}
  - {scheme: lance, type: memory, class: google_adk_lance_context.lance_memory_service}
  - {scheme: lance, type: artifact, class: google_adk_lance_context.lance_artifact_service}
"""
AGENT_PY = """
from adapters.google_adk.samples import agent_of

root_agent = agent_of("Hello.", "You are allergic to nuts.", name="tutor")
"""


@pytest.fixture
def agents(tmp_path, monkeypatch):
    """A directory of agents, and ADK's registry as in a new process."""
    monkeypatch.setattr(service_registry, "_service_registry_instance", None)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in ("services", "tutor", "tutor.agent"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    home = tmp_path / "agents"
    (home / "tutor").mkdir(parents=True)
    (home / "tutor" / "agent.py").write_text(AGENT_PY, encoding="utf-8")
    yield home
    for name in ("services", "tutor", "tutor.agent"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("file", "text"),
    [
        pytest.param("services.py", SERVICES_PY, id="services.py"),
        pytest.param("services.yaml", SERVICES_YAML, id="services.yaml"),
    ],
)
async def test_adk_makes_the_services_that_a_file_registers(agents, tmp_path, file, text):
    (agents / file).write_text(text, encoding="utf-8")
    load_services_module(str(agents))
    uri = f"lance://{tmp_path / 'memory'}"
    made = [
        create_session_service_from_options(base_dir=agents, session_service_uri=uri),
        create_memory_service_from_options(base_dir=agents, memory_service_uri=uri),
        create_artifact_service_from_options(base_dir=agents, artifact_service_uri=uri),
    ]
    kinds = [LanceSessionService, LanceMemoryService, LanceArtifactService]
    assert [type(one) for one in made] == kinds
    session = await create(made[0])
    await made[0].append_event(session, said("I am allergic to nuts."))
    await made[1].add_session_to_memory(session)
    assert (await made[1].search_memory(**OF_ADA, query="nuts")).memories
    for one in made:
        await one.aclose()
    async with LanceSessionService(tmp_path / "memory") as sessions:
        assert texts(await get(sessions)) == ["I am allergic to nuts."]


@pytest.mark.filterwarnings(r"ignore:\[EXPERIMENTAL\]:UserWarning")
def test_the_web_server_of_adk_runs_over_a_store(agents, tmp_path):
    (agents / "services.py").write_text(SERVICES_PY, encoding="utf-8")
    uri = f"lance://{tmp_path / 'memory'}"
    app = get_fast_api_app(
        agents_dir=str(agents),
        session_service_uri=uri,
        memory_service_uri=uri,
        artifact_service_uri=uri,
        web=False,
    )
    path = "/apps/tutor/users/ada/sessions"
    with TestClient(app) as client:
        new = {"session_id": "1", "state": {"user:likes": "tea"}}
        assert [client.post(path, json=new).status_code for _ in range(2)] == [200, 409]
        asked = {
            "app_name": "tutor",
            "user_id": "ada",
            "session_id": "1",
            "new_message": {"role": "user", "parts": [{"text": "I am allergic to nuts."}]},
        }
        (answer,) = client.post("/run", json=asked).json()
        assert answer["content"]["parts"] == [{"text": "Hello."}]
        session = client.get(f"{path}/1").json()
        assert [one["author"] for one in session["events"]] == ["user", "tutor"]
        assert session["state"]["user:likes"] == "tea"
        assert client.patch("/apps/tutor/users/ada/memory", json={"session_id": "1"}).is_success
        assert [one["id"] for one in client.get(path).json()] == ["1"]
        assert client.delete(f"{path}/1").is_success
        assert client.get(f"{path}/1").status_code == 404
    with LanceMemoryService(tmp_path / "memory", agent_id="") as memories:
        (hit,) = memories._handle.sync.scope(user_id="ada").memory.search("allergic")
        assert hit.record.text == "I am allergic to nuts."


def test_a_registry_of_its_own_and_another_scheme_will_do():
    registry = ServiceRegistry()
    register_lance_services(registry, scheme="memory-of-all")
    assert isinstance(
        registry.create_artifact_service("memory-of-all:memory://"), LanceArtifactService
    )
    assert registry.create_session_service("lance://x") is None


@pytest.mark.parametrize(
    ("uri", "place"),
    [
        ("lance:///srv/a%20b", "/srv/a b"),
        ("lance://memory/of/all", "memory/of/all"),
        ("lance:s3://bucket/memory", "s3://bucket/memory"),
        ("lance:memory://", "memory://"),
    ],
)
def test_a_uri_names_a_place(uri, place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for make in (lance_session_service, lance_memory_service, lance_artifact_service):
        assert str(make(uri=uri, agents_dir="agents")._handle._given) == place


async def test_options_stand_in_the_uri(tmp_path):
    place = f"lance://{tmp_path / 'memory'}"
    async with lance_session_service(f"{place}?stale=append&agent_id=&tenant=acme") as sessions:
        session = await create(sessions)
        await sessions.append_event(session, said("tea"))
    async with LanceSessionService(tmp_path / "memory", tenant="acme", agent_id="") as same:
        assert texts(await get(same)) == ["tea"]
    async with lance_memory_service(f"{place}?limit=1&tenant=acme&mode=text") as memories:
        await memories.add_events_to_memory(**OF_ADA, events=[said("tea"), said("tea again")])
        assert len((await memories.search_memory(**OF_ADA, query="tea")).memories) == 1


@pytest.mark.parametrize(
    ("make", "uri", "named"),
    [
        (lance_session_service, "lance://", "has no place"),
        (lance_session_service, "lance:///srv?limit=1", "limit.*use stale"),
        (lance_session_service, "lance:///srv?stale=no", "stale"),
        (lance_memory_service, "lance:///srv?limit=many", "limit"),
        (lance_artifact_service, "lance:///srv?embedder=local", "embedder"),
    ],
)
def test_a_wrong_uri_is_refused_by_name(make, uri, named):
    with pytest.raises(InputValidationError, match=named):
        make(uri)
