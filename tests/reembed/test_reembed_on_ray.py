"""The example that embeds a store anew: run as a user runs it, killed, and run again."""

import json
import re
import time

import numpy as np
import pytest
from reembed.running import PATIENCE_SECONDS, ROOT, started

from lance_context_core import ContextStore, Document, LocalEmbedder
from lance_context_core.errors import NotEmbeddedWarning

SAMPLE = ROOT / "examples" / "data" / "conversation.json"
ANSWER = "Lease on the flat ends 30 June"


def waiting(uri, model):
    """How many records of the default context have no vector of the model."""
    with ContextStore.open(uri) as store:
        lengths = [len(one["embedding"] or ()) for one in store.context().list()]
    return sum(length != model.dimension for length in lengths)


def contents(store):
    """All that stands in the default context, but for the vectors."""
    records = store.context().list(include_embedding=False)
    return [{name: value for name, value in one.items() if name != "embedding"} for one in records]


def test_a_killed_job_goes_on_and_leaves_a_store_of_the_new_model(tmp_path):
    uri, model = tmp_path / "memory", LocalEmbedder()
    turns = json.loads(SAMPLE.read_text(encoding="utf-8"))["turns"]
    killed = started("reembed_on_ray.py", "--store", uri, "--sample", "--batch", 1)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not 0 < (n_waiting := waiting(uri, model)) < len(turns):
        assert killed.poll() is None, killed.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    killed.kill()
    said, _ = killed.communicate()
    assert f"{len(turns)} records have vectors of letters-v1" in said
    assert ANSWER not in said

    with ContextStore.open(uri) as store:  # without a model: these wait, too
        with pytest.warns(NotEmbeddedWarning):
            store.scope(tenant="acme").memory.add(["The launch is in May"], user_id="ada")
        store.context("notes").add("source", "Cats sleep all day")
        store.vectors("docs").add([Document(id="tea", text="Ginger tea")])
        before = contents(store)
    job = started("reembed_on_ray.py", "--store", uri)
    said, complaints = job.communicate(timeout=PATIENCE_SECONDS)
    assert job.returncode == 0, complaints
    # Two more records waited, and a document. A worker may have outlived the count by a moment.
    n_embedded = int(re.findall(r"^(\d+) records embedded$", said, re.MULTILINE)[-1])
    assert 2 < n_embedded <= n_waiting + 2
    assert f"1 more, and all have vectors of {model.model}" in said
    assert ANSWER in said

    with ContextStore.open(uri, embedder=model) as store:
        assert contents(store) == before
        vectors = np.array([one["embedding"] for one in store.context().list(limit=len(turns))])
        texts = [f'{turn["speaker"]} said, "{turn["text"]}"' for turn in turns]
        np.testing.assert_allclose(vectors, model.embed_documents(texts), rtol=1e-4, atol=1e-6)
        launch = store.scope(tenant="acme").search("a start in spring", mode="vector")
        assert [hit.record.text for hit in launch] == ["The launch is in May"]
        notes = store.context("notes").search("sleepy animals", mode="vector")
        assert [note["content"] for note in notes] == ["Cats sleep all day"]
        tea = store.vectors("docs").search("a hot drink", mode="vector")
        assert [hit.record.id for hit in tea] == ["tea"]
