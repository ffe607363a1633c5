"""What each name of the adapter for LlamaIndex brings: the module where LlamaIndex's users look."""

from importlib import import_module
from importlib.metadata import distribution, distributions

names = sorted(
    name
    for one in distributions()
    if (name := one.name.lower().replace("_", "-")).startswith("llama-index-")
    and name.endswith("-lance-context")
    and name != "llama-index-lance-context"
)
assert len(names) == 8, names
for name in names:
    # llama-index-storage-chat-store-lance-context: llama_index.storage.chat_store.lance_context
    place = name.removeprefix("llama-index-").removesuffix("-lance-context")
    place = place.replace("storage-", "storage.").replace("-", "_")
    module = import_module(f"llama_index.{place}.lance_context")
    assert module.__all__, name
    assert all(hasattr(module, one) for one in module.__all__), name
    assert distribution(name).version == distribution("llama-index-lance-context").version
    # No file of its own, so that uninstalling it takes none from the others.
    files = [str(one) for one in distribution(name).files]
    assert all(".dist-info/" in one for one in files), files
