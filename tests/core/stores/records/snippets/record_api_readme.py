"""The record API as its first users learnt it: the snippets of their README, in order, one program.

Names, parameters and order are theirs. What the calls answered goes to the standard output as JSON.
"""

import json
import sys
from pathlib import Path

from PIL import Image

from lance_context_core import Context

# One turn, found again and forgotten

uri = Path("context.lance").as_posix()
ctx = Context.create(uri)
ctx.add(
    "user",
    "Which coast is warm in March?",
    external_id="chat-7#turn-1",
    metadata={
        "tenant": "acme",
        "scope": "holidays",
        "source_uri": "chat://chat-7",
        "tags": ["travel", "wish"],
    },
)
turn = ctx.get(external_id="chat-7#turn-1")
ctx.delete(external_id="chat-7#turn-1")
assert ctx.get(external_id="chat-7#turn-1") is None

# Where a record came from, and what it points at

rota_embedding = [0.0] * 1536
ctx.add(
    "assistant",
    "The on-call rota belongs to the storage crew.",
    embedding=rota_embedding,
    bot_id="helper",
    session_id="outage-9",
    relationships=[
        {"target_id": "docs://rota", "relation": "cites", "weight": 0.92},
        {"target_id": "service://billing", "relation": "describes"},
    ],
    metadata={
        "tenant": "acme",
        "scope": "crew",
        "source_uri": "docs://rota",
        "tags": ["rota", "owner"],
        "confidence": 0.92,
    },
)
records = ctx.list(
    filters={
        "bot_id": "helper",
        "session_id": "outage-9",
        "scope": "crew",
        "tags": {"contains": "rota"},
    }
)
hits = ctx.search(
    rota_embedding,
    limit=10,
    filters={"tenant": "acme", "content_type": "text/plain"},
    include_relationships=True,
)
describing = ctx.related("service://billing", relation="describes")
hybrid_hits = ctx.retrieve(
    text="on-call rota crew",
    vector=rota_embedding,
    limit=5,
    filters={"tenant": "acme", "scope": "crew"},
)
best = (hybrid_hits[0]["matched_channels"], hybrid_hits[0]["score"])

# An image

image = Image.new("RGB", (2, 2), color="teal")
ctx.add("assistant", image)
version_with_image = ctx.version()

# Several records in one commit, and vectors that come later

ctx.add_many(
    [
        {
            "role": "source",
            "content": "First half of a handbook",
            "content_type": "text/markdown",
            "session_id": "handbook-import",
            "relationships": [{"target_id": "service://billing", "relation": "describes"}],
        },
        {
            "role": "source",
            "content": "Second half of a handbook",
            "content_type": "text/markdown",
            "session_id": "handbook-import",
        },
    ]
)
ctx.add_many(
    [
        {
            "role": "source",
            "content": "A page whose vector comes later",
            "external_id": "handbook#page-1",
            "metadata": {"embedding_status": "pending"},
        },
    ]
)
found_before = [hit["external_id"] for hit in ctx.search([0.0] * 1536)]
vector = [0.0] * 1536
ctx.update(
    external_id="handbook#page-1",
    embedding=vector,
    metadata={"embedding_status": "ready"},
)
found_after = [hit["external_id"] for hit in ctx.search(vector)]
related_now = ctx.related("service://billing")
listed = ctx.list(include_embedding=False, include_binary=False)

# Back in time

first_version = ctx.version()
ctx.add("assistant", "I am looking for a warm coast…")
entries_before_checkout = ctx.entries()
ctx.checkout(first_version)
entries_after_checkout = ctx.entries()

# Object stores: opening one needs no network

ctx = Context.create(
    "s3://my-bucket/context.lance",
    storage_options={
        "aws_access_key_id": "minioadmin",
        "aws_secret_access_key": "minioadmin",
        "aws_region": "us-east-1",
        "aws_endpoint_url": "http://localhost:9000",
        "aws_allow_http": "true",
    },
)
service_account_json = json.dumps({"type": "service_account", "private_key": "no key at all"})
ctx = Context.create(
    "gs://my-bucket/context.lance",
    storage_options={
        "google_service_account_key": service_account_json,
    },
)
ctx = Context.create(
    "az://my-container/context.lance",
    storage_options={
        "azure_storage_account_name": "...",
        "azure_storage_account_key": "...",
    },
)

# Compaction, in the background and by hand

ctx = Context.create(
    "context.lance",
    enable_background_compaction=True,
    compaction_interval_secs=300,
    compaction_min_fragments=10,
    quiet_hours=[(22, 6)],
)
for i in range(100):
    ctx.add("user", f"message {i}")
stats = ctx.compaction_stats()
metrics = ctx.compact()

json.dump(
    {
        "turn": turn,
        "records": records,
        "hits": hits,
        "describing": describing,
        "best": best,
        "version_with_image": version_with_image,
        "found_before": found_before,
        "found_after": found_after,
        "related_now": related_now,
        "listed": listed,
        "first_version": first_version,
        "entries_before_checkout": entries_before_checkout,
        "entries_after_checkout": entries_after_checkout,
        "stats": stats,
        "removed": metrics["fragments_removed"],
        "stats_after": ctx.compaction_stats(),
        "entries": ctx.entries(),
    },
    sys.stdout,
    default=str,
)
