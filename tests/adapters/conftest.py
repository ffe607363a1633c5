"""The adapters' tests run where their frameworks are: see `tests/environments.py`."""

from importlib.util import find_spec

FRAMEWORKS = {
    "agent_framework": ("agent_framework",),
    "agentscope": ("agentscope", "agentscope_runtime"),
    "google_adk": ("google.adk",),
    "crewai": ("crewai",),
    "langchain": ("langchain_core",),
    "llama_index": ("llama_index_instrumentation",),
    "openai_agents": ("agents",),
    "pydantic_ai": ("pydantic_ai",),
}
"""What the tests in each directory import: one of these at least."""


def _is_there(module: str) -> bool:
    """Whether a module can be imported; that of a namespace too, such as `google.adk`."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


collect_ignore = [name for name, modules in FRAMEWORKS.items() if not any(map(_is_there, modules))]
