"""Frames of pandas and Polars are taken as content, and are made of an answer of SQL."""

import io

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from lance_context_core import ContextStore

COLUMNS = {"n": [1, 2, 3], "s": ["a", "ü", ""]}


@pytest.fixture
def store():
    with ContextStore.open("memory://") as store:
        yield store


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_a_frame_is_kept_as_an_arrow_stream(store, frame):
    records = store.context()
    record = records.get(id=records.add("tool", frame(COLUMNS)).id)
    assert record["content_type"] == "application/vnd.apache.arrow.stream"
    assert pa.ipc.open_stream(io.BytesIO(record["content"])).read_all().to_pydict() == COLUMNS


def test_an_answer_of_sql_has_types_that_frames_know(store):
    metadata = [{"n": 1}, {}, {"n": None, "who": {"a": "b"}}]
    for i, one in enumerate(metadata):
        store.context().add("user", f"tea {i}", tags=["x"] * i, metadata=one)
    found = store.sql("SELECT id, tags, metadata, created_at FROM messages ORDER BY created_at")
    pandas, polars = found.to_pandas(), pl.from_arrow(found)
    assert isinstance(pandas, pd.DataFrame)
    for name in ("id", "metadata"):
        assert list(pandas[name]) == polars[name].to_list() == found[name].to_pylist()
    assert [list(tags) for tags in pandas["tags"]] == polars["tags"].to_list()
    assert polars["created_at"].to_list() == found["created_at"].to_pylist()
    assert all(isinstance(one, str) for one in polars["metadata"])
