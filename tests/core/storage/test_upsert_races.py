"""Several writers replace the same things at once: every caller is told what became of its own."""

import asyncio

from lance_context_core import Document


async def test_of_many_that_upsert_one_new_record_exactly_one_inserts_it(store):
    context = store.context()
    await context.add("user", "the table is there")
    told = await asyncio.gather(
        *(context.upsert("user", f"text {n}", external_id="e") for n in range(8))
    )
    (stored,) = [one for one in await context.list() if one["external_id"] == "e"]
    assert sum(one["inserted"] for one in told) == 1
    assert {one["record"]["id"] for one in told} == {stored["id"]}
    assert stored["text"] in {f"text {n}" for n in range(8)}


async def test_batches_that_overlap_leave_each_record_once_and_none_out(store):
    context = store.context()
    batches = [
        [{"role": "user", "content": f"{n}", "external_id": f"e{one}"} for one in range(n, n + 5)]
        for n in range(6)
    ]
    told = await asyncio.gather(*(context.upsert_many(batch) for batch in batches))
    stored = {one["external_id"]: one["id"] for one in await context.list()}
    assert len(await context.list()) == len(stored) == 10
    inserted = [
        one["record"]["external_id"] for result in told for one in result if one["inserted"]
    ]
    assert sorted(inserted) == sorted(stored)
    for result, batch in zip(told, batches, strict=True):
        assert [one["record"]["external_id"] for one in result] == [
            one["external_id"] for one in batch
        ]
        assert [one["record"]["id"] for one in result] == [
            stored[one["external_id"]] for one in batch
        ]


async def test_documents_upserted_at_once_are_all_there_and_of_one_writer_each(store):
    docs = store.vectors("docs")
    await asyncio.gather(
        *(
            docs.upsert([Document(id=f"d{i}", text=f"by {n}") for i in range(n, n + 4)])
            for n in range(6)
        )
    )
    found = {one.id: one.text for one in await docs.list()}
    assert sorted(found) == sorted(f"d{i}" for i in range(9))
    for id, text in found.items():
        writer = int(text.removeprefix("by "))
        assert writer <= int(id[1:]) < writer + 4
