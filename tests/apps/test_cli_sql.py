"""`lance-ctx sql`: what it prints, and in which forms."""

import csv
import io
import json
import sys

import pyarrow as pa
import pytest

from lance_context_core import ContextStore, Message


def test_a_question_in_sql_is_answered_within_the_scope_and_of_the_moment(ctx):
    every = "SELECT id FROM records ORDER BY id"
    assert [row[0] for row in ctx("sql", every).rows] == ["lunch", "nuts", "trains", "yes"]
    assert ctx("--user", "ada", "sql", every).rows == [["trains"]]
    assert "lunch" not in ctx("--at", "before-lunch", "sql", every).out
    assert ["soup"] in ctx("--branch", "try", "sql", every).rows
    assert json.loads(ctx("--json", "sql", "SELECT 1 one, NULL none").out) == [
        {"one": 1, "none": None}
    ]
    assert len(ctx("sql", every, "--limit", "2").rows) == 2


def test_a_plan_is_printed_as_the_drawing_that_it_is(ctx):
    query = "EXPLAIN SELECT role FROM messages"
    (row,) = json.loads(ctx("--json", "sql", query).out)
    assert ctx("sql", query).out.rstrip("\n") == row["explain_value"].rstrip("\n")
    assert len(row["explain_value"].splitlines()) > 3


def test_csv_means_what_it_says_to_a_spreadsheet_too(ctx):
    values = """SELECT '=1+1' a, '-2' b, 'a"b,c' c, -3 d, NULL e, chr(27) || '[31m' f"""
    printed = list(csv.reader(io.StringIO(ctx("sql", values, "--csv").out)))
    assert printed == [[*"abcdef"], ["'=1+1", "'-2", 'a"b,c', "-3", "", "␛[31m"]]


def test_the_answer_is_written_as_arrow(ctx, tmp_path):
    file = tmp_path / "found.arrow"
    ended = ctx("sql", "SELECT id FROM messages ORDER BY id", "--arrow", str(file))
    assert (ended.code, ended.out) == (0, "")
    with pa.ipc.open_file(file) as found:
        assert found.read_all()["id"].to_pylist() == ["lunch", "nuts", "yes"]


def read(file):
    with pa.ipc.open_file(file) as found:
        return found.read_all()


def test_any_list_is_written_as_arrow(ctx, tmp_path):
    file = str(tmp_path / "found.arrow")
    for command in (
        ("ls",),
        ("sessions",),
        ("log",),
        ("facts",),
        ("search", "nuts"),
        ("history", "monday"),
    ):
        ended = ctx("--arrow", file, *command)
        assert (ended.code, ended.out) == (0, ""), ended.err
        told = json.loads(ctx("--json", *command).out)
        assert f"{len(told)} rows are in {file}" in ended.err
        found = read(file)
        assert found.num_rows == len(told)
        assert {*found.column_names} == {name for one in told for name in one}
        for name in {"id", "text", "number", "score"} & {*found.column_names}:
            assert found[name].to_pylist() == [one.get(name) for one in told]
    ctx("--arrow", file, "ls")
    assert pa.types.is_timestamp(read(file).schema.field("created_at").type)
    assert ctx("--arrow", file, "--user", "ada", "sql", "SELECT 7 seven, NULL none").code == 0
    assert read(file).to_pylist() == [{"seven": 7, "none": None}]


def test_what_is_no_list_or_has_two_forms_is_refused_before_anything_is_written(ctx, tmp_path):
    file = tmp_path / "found.arrow"
    for arguments in (("show", "nuts"), ("--json", "ls"), ("tag", "new"), ("tasks", "--tree")):
        ended = ctx("--arrow", str(file), *arguments)
        assert (ended.code, ended.out, file.exists()) == (2, "", False)
        assert "--arrow" in ended.err
    assert "new" not in ctx("tag").out


def test_bytes_do_not_reach_the_terminal(ctx, place):
    with ContextStore.open(place) as store:
        store.context().add("user", b"\x1b[2J", content_type="image/png", id="image")
    assert ctx("sql", "SELECT blob FROM records WHERE id = 'image'").out == "<4 bytes>\n"


def test_a_question_may_come_by_a_pipe(ctx, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("SELECT 7 seven"))
    assert ctx("sql", "-").out == "7\n"


@pytest.mark.parametrize("query", ["DELETE FROM messages", "SELECT FROM", "SELECT * FROM nowhere"])
def test_what_is_no_question_is_refused_in_one_line_or_two(ctx, query):
    ended = ctx("sql", query)
    assert (ended.code, ended.out) == (2, "")
    assert "Traceback" not in ended.err


def test_a_hostile_text_is_shown(ctx, place):
    with ContextStore.open(place) as store:
        store.memory.add([Message.user("\x1b]52;c;eA==\x07", id="bad")], user_id="ada")
    assert "\x1b" not in ctx("sql", "SELECT text FROM memories").out


def test_the_views_and_their_columns_are_listed(ctx):
    views = [row[0] for row in ctx("sql", ".tables").rows]
    assert {"messages", "memories", "facts"} <= {*views}
    assert ["facts", "id", "VARCHAR"] in ctx("sql", ".schema facts").rows
    assert [*dict.fromkeys(row[0] for row in ctx("sql", ".schema").rows)] == views
    for wrong, told in ((".tabels", ".tables and .schema"), (".schema mesages", "mean messages?")):
        ended = ctx("sql", wrong)
        assert (ended.code, told in ended.err) == (2, True)


def test_an_answer_that_is_cut_says_so(ctx):
    every = "SELECT id FROM records ORDER BY id"
    cut = ctx("sql", every, "--limit", "2")
    assert [row[0] for row in cut.rows] == ["lunch", "nuts"]
    assert "cut after 2 rows: --limit N prints more" in cut.err
    assert ctx("sql", every, "--limit", "4").err == ""
    many = "SELECT range AS n FROM range(10_001)"
    assert len(ctx("sql", many).rows) == 10_000
    assert len(ctx("sql", many, "--limit", "0").rows) == 10_001
