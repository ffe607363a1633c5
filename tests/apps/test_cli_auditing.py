"""`lance-ctx audit`: who did what, and whether that holds."""

import json

import lancedb


def test_it_tells_who_did_what_to_a_record(ctx):
    sealed = json.loads(ctx("--json", "audit", "--seal").out)
    lines = ctx("audit").rows
    assert len(lines) == sealed["n"]
    assert lines[0][2:5] == ["begin", "", "1 named"]
    assert [line[2:5] for line in ctx("audit", "nuts").rows] == [["write", "records", "added"]]
    plain = json.loads(ctx("--json", "audit", "nuts").out)
    assert [row["id"] for entry in plain for row in entry["rows"]] == ["nuts"]


def test_what_was_changed_ends_with_1(ctx, place):
    head = json.loads(ctx("--json", "audit", "--seal").out)
    kept = f"{head['n']}:{head['hash']}"
    assert ctx("audit", "--verify", "--head", kept).code == 0
    lancedb.connect(place).open_table("audit").delete(f"key >= '{head['n']:012d}'")
    assert ctx("audit", "--verify").code == 0
    ended = ctx("audit", "--verify", "--head", kept)
    assert (ended.code, ended.rows[0][:2]) == (1, ["chain", f"entry {head['n']}"])


def test_an_export_is_a_file(ctx, tmp_path):
    ctx("audit", "--seal")
    assert ctx("audit", "--export", str(tmp_path / "a.jsonl")).code == 0
    assert len((tmp_path / "a.jsonl").read_text().splitlines()) == len(ctx("audit").rows)


def test_two_wishes_at_once_are_refused(ctx):
    assert ctx("audit", "--seal", "--verify").code == 2
    assert ctx("audit", "--verify", "--head", "x").code == 2
