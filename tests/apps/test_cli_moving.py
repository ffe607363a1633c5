"""`lance-ctx export`, `import`, `verify` and `replay`."""

import json
import os
from pathlib import Path

from lance_context_core import ContextStore


def test_a_store_goes_out_and_comes_into_another_place(ctx, tmp_path):
    file = str(tmp_path / "out.jsonl")
    told = json.loads(ctx("--json", "export", file).out)
    assert told["rows"] == 4
    assert ctx("export", file).code == 4
    other = str(tmp_path / "other")
    done = json.loads(ctx("--json", "-C", other, "import", file).out)
    assert done["added"] == 4
    assert ctx("-C", other, "ls").out == ctx("ls").out
    assert json.loads(ctx("--json", "-C", other, "import", file).out)["added"] == 0
    assert ctx("--user", "bob", "-C", other, "import", file).code == 2
    assert ctx("-C", other, "import", str(tmp_path / "nowhere")).code == 2
    assert ctx("export", str(tmp_path / "said"), "--format", "openai").code == 0
    assert json.loads((tmp_path / "said").read_text().splitlines()[0])["session_id"] == "monday"


def test_a_whole_store_is_told_to_be_and_a_damaged_file_is_named(ctx, place):
    with ContextStore.open(place) as store:  # Branches know where they are: it was copied.
        store.delete_branch("try")
        store.delete_tag("before-lunch")
    assert json.loads(ctx("--json", "verify").out)["is_whole"] is True
    ended = ctx("verify")
    assert (ended.code, ended.out) == (0, "")
    assert "all is well" in ended.err
    data = Path(place) / "records.lance" / "data"
    file = max(data.iterdir(), key=os.path.getsize)
    file.write_bytes(file.read_bytes()[:-9])
    ended = ctx("verify")
    assert ended.code == 1
    assert str(file) in [row[1] for row in ended.rows]


def test_a_question_is_asked_again_in_another_way(ctx):
    told = json.loads(ctx("--json", "replay", "who is allergic", "--mode", "text").out)
    assert told[0]["question"] == "who is allergic"
    assert "nuts" in told[0]["before"]
    session = json.loads(ctx("--json", "replay", "--session", "monday").out)
    assert next((one["id"], one["before"]) for one in session) == ("nuts", [])
    assert ctx("replay").code == 2
    assert ctx("replay", "--session", "no-such").code == 3


def test_a_copy_has_the_versions_and_the_branches(ctx, tmp_path):
    goal = str(tmp_path / "copy")
    assert ctx("copy", goal).code == 0
    assert ctx("copy", goal).code == 4
    for asked in (["tag"], ["branch"], ["history", "monday"], ["--branch", "try", "ls"]):
        assert ctx("-C", goal, *asked).out == ctx(*asked).out
