"""The adapters' tests run where their frameworks are: see `tests/environments.py`."""

from importlib.util import find_spec

FRAMEWORKS = {
    "agentscope": ("agentscope", "agentscope_runtime"),
    "crewai": ("crewai",),
    "langchain": ("langchain_core",),
    "llama_index": ("llama_index_instrumentation",),
    "openai_agents": ("agents",),
    "pydantic_ai": ("pydantic_ai",),
}
"""What the tests in each directory import: one of these at least."""

collect_ignore = [name for name, modules in FRAMEWORKS.items() if not any(map(find_spec, modules))]
