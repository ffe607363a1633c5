"""Records, an embedder of words, and a model that follows a script."""

import json
import math
from datetime import datetime
from hashlib import blake2b

from crewai import BaseLLM
from crewai.memory.types import MemoryRecord
from crewai.rag.embeddings.providers.custom.custom_provider import CustomProvider
from crewai.rag.embeddings.providers.custom.embedding_callable import CustomEmbeddingFunction

LENGTH = 256


def vector(text):
    """The directions of its words, of length 1; texts without a common word are all but orthogonal."""
    sums = [0.0] * LENGTH
    for word in text.lower().split():
        for n in blake2b(word.encode(), digest_size=4).digest():
            sums[n % LENGTH] += 1.0
    length = math.sqrt(sum(one * one for one in sums)) or 1.0
    return [one / length for one in sums]


def embedded(texts):
    """An embedder as CrewAI calls one."""
    return [vector(one) for one in texts]


class Embedding(CustomEmbeddingFunction):
    """The same, as a crew is told of one."""

    def __call__(self, input):
        return embedded(input)


EMBEDDER = CustomProvider(embedding_callable=Embedding)


def record(content="Ada prefers trains.", **fields):
    return MemoryRecord(content=content, **{"embedding": vector(content), **fields})


def on(day, hour=0):
    """A time without a zone, as CrewAI makes them."""
    return datetime(2026, 1, day, hour)  # noqa: DTZ001


def fields(one):
    """All but the embedding, which is stored as 32-bit floats."""
    return one.model_dump()


def contents(found):
    return [one.content for one in found]


def found_in(storage, text, **asked):
    return [one.content for one, _ in storage.search(vector(text), **asked)]


class ScriptedLLM(BaseLLM):
    """Answers by what it is asked: `answers` by a part of the prompt, and memories as they are."""

    answers: dict[str, str]
    memories: list[str]
    heard: list[str]

    def __init__(self, *, answers=(), memories=(), **fields):
        mine = {"answers": dict(answers), "memories": list(memories), "heard": []}
        super().__init__(**{"model": "scripted", **mine, **fields})

    def call(self, messages, *args, **kwargs):
        prompt = messages if isinstance(messages, str) else json.dumps(messages)
        self.heard.append(prompt)
        if "extract" in prompt.lower() and "memor" in prompt.lower():
            return json.dumps({"memories": self.memories})
        for part, answer in self.answers.items():
            if part in prompt:
                return answer
        return "Thought: I know.\nFinal Answer: It is done."

    def supports_function_calling(self):
        return False
