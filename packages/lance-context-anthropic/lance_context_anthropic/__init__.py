"""Anthropic's memory tool over a store: files of the model, with versions.

`MemoryTool` and `AsyncMemoryTool` are tools for the `anthropic` SDK's tool runner.
"""

from lance_context_anthropic.memory_tool import AsyncMemoryTool, MemoryTool

__version__ = "0.1.0"

__all__ = [  # noqa: RUF022 - in the order in which the reference shows them
    # The tool
    "MemoryTool",
    "AsyncMemoryTool",
]
