"""Embedders by name, models in folders, and the prompts that a model wants."""

import json
import sys

import pytest

from lance_context_core import ContextStore, as_embedder
from lance_context_core.embedders import (
    FastEmbedEmbedder,
    LocalEmbedder,
    Model2VecEmbedder,
    OpenAIEmbedder,
    Prompts,
    SentenceTransformersEmbedder,
)
from lance_context_core.embedders._local import source_of
from lance_context_core.embedders._prompts import chosen, prompts_of
from lance_context_core.errors import InvalidRequestError, MissingExtraError


def test_a_name_makes_an_embedder(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    assert isinstance(as_embedder("local"), LocalEmbedder)
    assert isinstance(as_embedder("openai:text-embedding-3-small"), OpenAIEmbedder)
    assert as_embedder("openai:text-embedding-3-small").model == "text-embedding-3-small"
    assert as_embedder("openai:org/model:latest").model == "org/model:latest"


@pytest.mark.parametrize(
    "name", ["", " ", "Local", "local:x", "openai", "bge", ":x", "huggingface:BAAI/bge-m3"]
)
def test_a_name_that_means_nothing_is_refused_with_those_that_do(name, tmp_path):
    listed = '"local", "e5", "fastembed:MODEL", "model2vec:MODEL", "sentence-transformers:MODEL", "openai'
    if name == "openai":
        listed = "names no model"
    with pytest.raises(InvalidRequestError, match=listed):
        ContextStore.open(tmp_path / "store", embedder=name)
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("kind", ["fastembed", "model2vec", "sentence-transformers", "openai"])
def test_a_kind_without_a_model_is_refused(kind):
    with pytest.raises(InvalidRequestError, match=f'pass "{kind}:MODEL"'):
        as_embedder(f"{kind}:  ")


@pytest.mark.parametrize(
    ("extra", "package", "made"),
    [
        ("fastembed", "fastembed", FastEmbedEmbedder),
        ("model2vec", "model2vec", Model2VecEmbedder),
        ("sentence-transformers", "sentence_transformers", SentenceTransformersEmbedder),
    ],
)
def test_a_missing_extra_is_named_with_the_command(monkeypatch, extra, package, made):
    monkeypatch.setitem(sys.modules, package, None)
    for make in (made, lambda model: as_embedder(f"{extra}:{model}")):
        with pytest.raises(
            MissingExtraError, match=rf"pip install 'lance-context-core\[{extra}\]'"
        ):
            make("org/model")


# Folders


def folder_of(tmp_path, *, weights=b"12345", name="model"):
    folder = tmp_path / name
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(weights)
    (folder / "README.md").write_text("about")
    return folder


def test_a_model_in_a_folder_is_known_by_its_weights_wherever_they_are(tmp_path):
    here = source_of(folder_of(tmp_path / "here"))
    there = folder_of(tmp_path / "there")
    (there / "README.md").write_text("about something else")
    assert here.name == source_of(str(there)).name
    assert here.name.startswith("model@")
    names = {
        source_of(folder_of(tmp_path / str(n), weights=weights)).name
        for n, weights in enumerate([b"12345", b"1234", b"12346", b"0" * 200_000, b"1" * 200_000])
    }
    assert len(names) == 5


@pytest.mark.parametrize("given", ["", "  ", None, 3, "./nowhere", "/no/where", "~/nowhere/model"])
def test_what_is_neither_a_name_nor_a_folder_is_refused(given):
    with pytest.raises(InvalidRequestError, match="model="):
        source_of(given)


def test_what_is_no_folder_is_a_name():
    assert source_of("BAAI/bge-small-en-v1.5").name == "BAAI/bge-small-en-v1.5"


# Prompts


@pytest.mark.parametrize(
    ("name", "query", "document"),
    [
        ("intfloat/e5-small-v2", "query: ", "passage: "),
        ("intfloat/multilingual-e5-large", "query: ", "passage: "),
        ("intfloat/multilingual-e5-large-instruct", "Instruct: ", ""),
        ("BAAI/bge-small-en-v1.5", "Represent this sentence", ""),
        ("BAAI/bge-m3", "", ""),
        ("nomic-ai/nomic-embed-text-v1.5", "search_query: ", "search_document: "),
        ("mixedbread-ai/mxbai-embed-large-v1", "Represent this sentence", ""),
        ("Snowflake/snowflake-arctic-embed-m", "Represent this sentence", ""),
        ("Snowflake/snowflake-arctic-embed-m-v2.0", "query: ", ""),
        ("google/embeddinggemma-300m", "task: search result", "title: none"),
        ("Qwen/Qwen3-Embedding-0.6B", "Instruct: ", ""),
        ("text-embedding-3-small", "", ""),
        ("sentence-transformers/all-MiniLM-L6-v2", "", ""),
    ],
)
def test_models_whose_prompts_are_known_get_them(name, query, document):
    found = prompts_of(name)
    assert found.query.startswith(query)
    assert bool(found.query) == bool(query)
    assert found.document.startswith(document)
    assert bool(found.document) == bool(document)


@pytest.mark.parametrize(
    ("configured", "expected"),
    [
        pytest.param({"query": "Q: ", "passage": "P: "}, ("Q: ", "P: "), id="both"),
        pytest.param({"query": "Q: "}, ("Q: ", ""), id="for questions alone"),
        pytest.param({"query": "", "document": ""}, ("query: ", "passage: "), id="empty ones"),
        pytest.param(None, ("query: ", "passage: "), id="none"),
    ],
)
def test_the_prompts_of_a_folder_come_before_those_of_its_name(tmp_path, configured, expected):
    (tmp_path / "config_sentence_transformers.json").write_text(json.dumps({"prompts": configured}))
    found = prompts_of("my-e5-small@12345678", tmp_path)
    assert (found.query, found.document) == expected


def test_other_prompts_before_documents_are_another_model():
    assert chosen("e5-small", None, None)[1] == "e5-small"
    assert chosen("e5-small", None, Prompts(query="Q ", document="passage: "))[1] == "e5-small"
    assert chosen("e5-small", None, Prompts(document="D "))[1] == "e5-small+'D '"


def test_a_prompt_is_a_text():
    with pytest.raises(InvalidRequestError, match="query=3"):
        Prompts(query=3)
