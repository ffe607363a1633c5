"""A file of a store is damaged: answers are right, or one error names the file, and `verify` names it too."""

import shutil

import pytest
from efforts import in_proofs

from lance_context_core import ContextStore, Message, StorageError

IDS = [f"m{n}" for n in range(200)]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A store with rows in the tables, some of them deleted, and some in the journal."""
    place = tmp_path_factory.mktemp("damage") / "store"
    with ContextStore.open(place, maintenance=None) as store:
        messages = [Message.user(f"number {id} of tea", id=id) for id in IDS]
        store.history.append_many("a", messages, session_id="s")
        store.context().delete(id="m7")
        store.flush()
        store.history.append("a", Message.user("late", id="late"), session_id="s")
    return place


EXPECTED = [*(one for one in IDS if one != "m7"), "late"]


def zeros(data, at):
    data[at : at + 64] = bytes(len(data[at : at + 64]))


def zero_page(data, at):
    data[at : at + 4096] = bytes(len(data[at : at + 4096]))


def bit_flip(data, at):
    data[at] ^= 0x10


def truncated(data, at):
    del data[at:]


HOW = [zeros, *in_proofs(zero_page, bit_flip), truncated]
WHERE = {"start": lambda n: 0, "middle": lambda n: n // 2, "end": lambda n: max(n - 40, 0)}
SORTS = {
    "data": "records.lance/data/*.lance",
    "manifest": "records.lance/_versions/*.manifest",
    "deletions": "records.lance/_deletions/*",
    "transaction": "records.lance/_transactions/*.txn",
    "journal": "journal.sqlite",
}


def read(store):
    """What the store answers; the text of the error if it refuses."""
    try:
        return [one.id for one in store.history.get_messages("a", session_id="s")]
    except StorageError as error:
        return str(error)


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("sort", SORTS)
@pytest.mark.filterwarnings("ignore")
def test_damage_gives_right_answers_or_one_error_that_names_the_file(
    made, tmp_path, sort, how, where
):
    place = tmp_path / "store"
    shutil.copytree(made, place)
    file = max(place.glob(SORTS[sort]), key=lambda one: one.stat().st_mtime_ns)
    data = bytearray(file.read_bytes())
    how(data, WHERE[where](len(data)))
    if bytes(data) == file.read_bytes():
        return
    file.write_bytes(data)
    with ContextStore.open(place, maintenance=None) as store:
        answer = read(store)
        if isinstance(answer, str):
            assert file.name in answer or str(file.parent.relative_to(place)) in answer
        else:
            assert answer == EXPECTED
        found = store.verify()
        if isinstance(answer, str) or how is truncated:
            assert any(file.name in one.where + one.what for one in found.problems), found.problems
