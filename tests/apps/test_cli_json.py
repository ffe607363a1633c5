"""Every command speaks JSON, in fields that are called today as they will be tomorrow."""

import json

import click
import pytest
from lance_context_cli import named
from lance_context_cli.main import cli

from lance_context_core import ContextStore

RECORD = (
    "agent_id author content_type context created_at expires_at external_id id kind "
    "layer lifecycle_status metadata name payload_checksum payload_size payload_uri "
    "relationships retention_policy retired_at retired_reason role run_id session_id "
    "source source_ids state_metadata superseded_by_id supersedes_id tags tenant text "
    "updated_at user_id"
)
SPOKEN = {
    "status": "branches last_error place sessions tables tags version",
    "sessions": "agent_id author created_at ended_at expires_at id metadata n_messages status tenant title updated_at user_id",
    "ls": RECORD,
    "show nuts": RECORD,
    "show monday": "agent_id author created_at ended_at expires_at id metadata n_messages status tenant title updated_at user_id",
    "history monday": RECORD,
    "tail monday": RECORD,
    "store add work /nowhere": "name place",
    "store": "name place",
    "store list": "name place",
    "store remove mine": "removed",
    "search nuts": "channels record score why",
    "ask nuts": "id kind score text why",
    "remember Hm": "id is_new",
    "say monday Hm": "id session",
    "log": "created_at did number tags",
    "log --stat": "added changed created_at did number removed tags",
    "diff before-lunch": "change record",
    "tag": "tag version",
    "tag new": "tag version",
    "tag -d before-lunch": "deleted",
    "branch": "forked_at name parent",
    "branch new": "branch",
    "branch -d try --yes": "deleted",
    "merge try": "added deleted kept table updated",
    "restore before-lunch --yes": "version",
    "erase nuts --yes": "blobs branches bytes_removed derived documents engines_pending graph items may_linger mentions records sessions tags versions_removed",
    "forget nuts --yes": "forgotten",
    "thin": "branch bytes_freed dropped kept table",
    "maintain": "fragments_added fragments_removed indexes_built skipped table versions_removed",
    "facts": " ".join(sorted([*RECORD.split(), "parts"])),
    "facts Oslo": "evidence layer outdated record score",
    "explain FACT": "id links quotes records",
    "jobs": "agent_id attempts branch created_at error fence id input_ids kind lease_until parent_id producer result scheduled_at session_id state tenant undone_by updated_at usage user_id",
    "undo JOB --yes": "conflicts is_dry_run job_id reduced retired revived",
    "review --stale-days 1": "call command ids job_id kind rule texts user_id why",
    "distill": "branch faults job report",
    "context monday": "asked at breakpoints citations dialect messages report room sizes tokens tokens_by_section",
    "sql SELECT+1+AS+one": "one",
    "why allergic nuts": "channels found rank score why",
    "why lunch nuts": "found reason",
    "verify": "files indexes is_whole problems rows",
    "bench -n 2": "median_ms p95_ms times what",
    "audit --seal": "hash n",
    "audit --verify": "is_whole n_entries n_rows n_unsealed problems",
    "tasks": "assigned_to attempt created_at depends_on due ended_at id n_retries note order parent_id payload priority process result started_at status ticks title until updated_at",
    "tasks --tree": "by_status eta_seconds mean_seconds n_tasks progress",
    "replay nuts": "after asked_at before gained id lost question",
    "export NEW": "file rows tables",
    "import NEW": "added tables there",
    "copy NEW": "bytes files to",
    "sync NEW": "done file why",
    "worker --once": "errors jobs stores tables",
}

NO_DATA = {"completion", "hooks", "mcp", "serve", "ui"}
"""What they print is no answer about the store."""


@pytest.fixture
def known(place, monkeypatch, tmp_path):
    """What may be asked about, in a store in which something is known."""
    with ContextStore.open(place) as store:
        said = store.knowledge.add("I live in Oslo.", user_id="ada", session_id="spring")
        store.tasks.board().add("Call Ada")
    with ContextStore.open(place) as store:
        (fact,) = store.context("knowledge").list(filters={"kind": "fact"})
    monkeypatch.setattr(click, "get_app_dir", lambda _: str(tmp_path / "config"))
    named.write({"mine": "/elsewhere"})
    return {"FACT": fact["id"], "JOB": said.job_ids[0]}


def fields(told):
    """The names of the fields of an answer, or of each thing that it lists."""
    things = told if isinstance(told, list) else [told]
    return sorted({name for one in things for name in one})


@pytest.mark.parametrize("command", SPOKEN)
def test_what_programs_are_told_is_called_as_it_is(ctx, known, tmp_path, command):
    words = [
        known.get(one, one).replace("NEW", str(tmp_path / "new")).replace("+", " ")
        for one in command.split()
    ]
    if words[0] == "import":
        assert ctx("export", str(tmp_path / "new")).code == 0
        words[:0] = ["-C", str(tmp_path / "other")]
    if words[0] == "sync":
        (tmp_path / "new").mkdir()
        (tmp_path / "new" / "tea.md").write_text("tea")
    ended = ctx("--json", *words)
    assert ended.code in (0, 1), ended.err
    assert fields(json.loads(ended.out)) == SPOKEN[command].split()


def test_every_command_is_among_them():
    assert {one.split()[0] for one in SPOKEN} | {"doctor"} == set(cli.commands) - NO_DATA


def test_what_is_due_is_called_as_it_is(ctx, place):
    with ContextStore.open(place, maintenance=None) as store:
        for n in range(40):  # So many files that they are to be merged.
            store.context().add_many([{"role": "user", "content": f"{n}"}] * 40)
            store.flush()
    assert fields(json.loads(ctx("--json", "doctor").out)) == ["command", "what", "where"]
