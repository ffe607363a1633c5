"""The example, run as a user runs it: what it prints, what it leaves, and what it refuses."""

import json
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from unicodedata import east_asian_width
from urllib.request import HTTPCookieProcessor, build_opener

import pytest

import lance_context_core
from lance_context_core import ContextStore

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "examples" / "data" / "conversation.json"
HOUSE = SAMPLE.parent / "house"
PACKAGE = Path(lance_context_core.__file__).parents[1]
TAG = "before-the-last-session"


def quickstart(*arguments, cwd, columns=80):
    """The example as a process of its own, on lines of `columns`."""
    path = os.pathsep.join(filter(None, [str(PACKAGE), os.environ.get("PYTHONPATH")]))
    return subprocess.run(
        [sys.executable, str(ROOT / "examples" / "quickstart.py"), *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": path, "PYTHONUTF8": "1", "COLUMNS": str(columns)},
        capture_output=True,
        encoding="utf-8",
        timeout=300,
        check=False,
    )


def printed(*arguments, cwd, columns=80):
    """What a run prints that goes well."""
    done = quickstart(*arguments, cwd=cwd, columns=columns)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def section(output, number):
    """What stands below one of the headings."""
    headed = re.split(r"^(\d)  .*─$", output, flags=re.MULTILINE)
    return headed[headed.index(str(number)) + 1].strip("\n")


def flowed(text):
    """`text` as one line, however it was broken."""
    return " ".join(text.split())


ABOUT = re.compile(
    r"   (?P<label>\S.*?|  0\.\d\d|  1\.00)  (?P<speaker>\S+)  (?P<date>\d+ [A-Z][a-z]{2} \d{4})"
    r"(?:  (?P<channels>text \+ vector|text|vector|beside))?"
)


@dataclass
class Shown:
    """A turn in the output: the line about it, and its text."""

    label: str
    speaker: str
    date: str
    channels: str | None
    text: str = ""

    @property
    def is_marked(self):
        return self.label.startswith("✓")

    def is_of(self, turn):
        """Whether it shows `turn`, or as much of it as there was room for."""
        caption = turn["image_caption"]
        whole = flowed(turn["text"] + (f" [photo: {caption}]" if caption else ""))
        start = self.text.removesuffix(" …")
        is_whole = start == self.text
        return self.speaker == turn["speaker"] and (
            whole == start if is_whole else whole.startswith(start)
        )


def shown(part):
    """The turns in a part of the output, in order."""
    turns = []
    for line in part.splitlines():
        if about := ABOUT.fullmatch(line):
            turns.append(Shown(**about.groupdict()))
        elif turns and line.startswith(" " * 5):
            turns[-1].text = flowed(f"{turns[-1].text} {line}")
    return turns


MISSED = "Words and vectors alone"
"""How it begins to speak of a question that these do not answer."""


def answers(output):
    """The turns below each question."""
    found = {}
    for block in section(output, 2).split("\n\n")[1:]:
        if flowed(block).startswith(MISSED):
            continue
        question, _, rest = block.partition("?\n")
        found[flowed(question) + "?"] = shown(rest)
    return found


# The conversation that ships with it


@pytest.fixture(scope="module")
def sample():
    return json.loads(SAMPLE.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    return tmp_path_factory.mktemp("quickstart") / "kept"


@pytest.fixture(scope="module")
def first(kept):
    return printed("--store", kept, cwd=kept.parent)


@pytest.fixture(scope="module")
def second(kept, first):
    assert first
    return printed("--store", kept, cwd=kept.parent)


@pytest.fixture
def last_session(sample):
    last = sample["turns"][-1]["session"]
    return [turn for turn in sample["turns"] if turn["session"] == last]


def test_two_processes_take_part_and_neither_is_this_one(first):
    ids = set(re.findall(r"Process (\d+)", first))
    assert len(ids) == 2
    assert str(os.getpid()) not in ids


def test_it_says_how_much_it_remembers_of_whom(first, sample):
    n_sessions = len({turn["session"] for turn in sample["turns"]})
    said = flowed(section(first, 1))
    assert f"{len(sample['turns'])} turns of Tilda and Wren in {n_sessions} sessions" in said
    assert "3 February 2025 to 4 October 2025" in said


def test_the_featured_questions_are_asked_and_each_is_answered(first, sample):
    featured = [one["question"] for one in sample["questions"] if one.get("featured")]
    assert list(answers(first)) == featured
    assert len(featured) > 4
    for hits in answers(first).values():
        assert len(hits) == 3
        assert any(hit.is_marked for hit in hits)


def test_the_marked_turns_are_those_that_the_file_names_as_evidence(first, sample):
    turns = {turn["id"]: turn for turn in sample["turns"]}
    for question in sample["questions"]:
        for hit in answers(first).get(question["question"], []):
            is_evidence = any(hit.is_of(turns[one]) for one in question["evidence"])
            assert hit.is_marked == is_evidence
            assert hit.channels


def test_a_question_that_words_and_vectors_miss_is_answered_and_says_why(first, sample):
    (block,) = [one for one in section(first, 2).split("\n\n") if flowed(one).startswith(MISSED)]
    turns = {turn["id"]: turn for turn in sample["turns"]}
    (asked,) = [one for one in sample["questions"] if one["question"] in flowed(block)]
    (hit,) = shown(block)
    assert hit.is_marked
    assert any(hit.is_of(turns[one]) for one in asked["evidence"])
    parts = dict(re.findall(r"(\w+) (\d\.\d\d)", flowed(block).partition("of which ")[2]))
    assert len(parts) > 1
    assert float(parts.pop("channels")) > 0


def test_new_since_the_tag_is_the_last_session(first, last_session):
    assert f"{len(last_session)} added, 0 changed, 0 removed" in section(first, 3)
    new = shown(section(first, 3))
    assert len(new) == 3
    assert all(one.is_of(turn) for one, turn in zip(new, last_session, strict=False))


def test_the_memory_as_it_was_lacks_the_last_session(first, sample, last_session):
    n_turns = len(sample["turns"])
    counts = f"It holds {n_turns - len(last_session)} records instead of {n_turns}"
    assert counts in flowed(section(first, 4))
    now, then = shown(section(first, 4))
    assert (now.label[:4], then.label[:4]) == ("now ", "then")
    assert now.is_of(last_session[-1])
    assert not any(then.is_of(turn) for turn in last_session)


def test_a_branch_knows_what_main_does_not_until_it_is_merged(first):
    part = section(first, 5)
    before, on_branch, merged = shown(part)
    assert "Merged: 1 added, 0 changed, 0 removed." in flowed(part)
    assert before.speaker != "Visitor"
    assert (on_branch.speaker, merged.speaker) == ("Visitor", "Visitor")
    assert "555-0199" in merged.text == on_branch.text


def test_a_person_who_is_erased_is_in_no_file(first, kept):
    part = flowed(section(first, 6))
    assert part.startswith("1 record and ")
    assert re.search(r"stood in [1-9]\d* files? of the store; now it stands in 0 files\.", part)
    files = [path for path in kept.rglob("*") if path.is_file()]
    assert files
    assert [path for path in files if b"555-0199" in path.read_bytes()] == []


def test_what_is_known_of_somebody_is_proved_undone_and_forgotten(first):
    part = flowed(section(first, 7))
    assert "residence: Oslo → Bergen “We moved to Bergen yesterday.”, 21 Apr 2025" in part
    assert re.search(r"Undone: [1-9]\d* things are hidden, and 0 fields are left\.", part)
    assert re.search(r"Forgotten: [1-9]\d* records are in no file, and 0 are found\.", part)


def test_a_question_is_answered_from_a_document_with_the_page(first, kept):
    part = flowed(section(first, 8))
    assert part.startswith("lease.pdf, 'Lease of flat 5': 3 pages, 3 passages")
    assert "three months notice, in writing, to the end of a month. ✓ lease.pdf, p. 2," in part
    with ContextStore.open(kept) as store:
        (lease,) = store.documents.list()
        assert store.blobs.get(lease.hash) == (HOUSE / "lease.pdf").read_bytes()
        assert f"all {lease.size} bytes" in part


def test_it_ends_with_the_command_that_shows_what_it_made(first, kept):
    *_, command = first.splitlines()
    program, *arguments = shlex.split(command)
    assert Path(kept.parent, program).resolve() == Path(sys.executable).with_name("lance-ctx")
    assert arguments == ["-C", str(kept), "ui", "--embedder", "local"]
    with subprocess.Popen(
        [program, *arguments, "--no-open"], cwd=kept.parent, stdout=subprocess.PIPE, text=True
    ) as shown:
        (link,) = re.findall(r"http://\S+", shown.stdout.readline())
        browser = build_opener(HTTPCookieProcessor())
        with browser.open(link) as page:
            assert "tilda-and-wren" in page.read().decode()
        shown.terminate()


def test_no_line_is_longer_than_the_terminal_or_ends_in_spaces(first):
    *lines, _command = first.splitlines()
    assert max(map(len, lines)) == 80
    assert [line for line in lines if line != line.rstrip()] == []


def test_a_second_run_over_the_same_directory_adds_nothing(first, second, kept, sample):
    assert "0 of them are new" in section(second, 1)
    assert answers(second) == answers(first)
    assert section(second, 3) == section(first, 3)
    assert section(second, 4) == section(first, 4)
    with ContextStore.open(kept) as store:
        assert store.context().entries() == len(sample["turns"])
        assert store.tags().keys() == {TAG}
        assert store.branches() == []
        messages = store.history.get_messages("", session_id="tilda-and-wren/1")
    assert [(one.id, one.role, one.name, one.text) for one in messages] == [
        (
            turn["id"],
            {"Tilda": "user", "Wren": "assistant"}[turn["speaker"]],
            turn["speaker"],
            turn["text"],
        )
        for turn in sample["turns"]
        if turn["session"] == 1
    ]


# A conversation of one's own


def turn(id, session, speaker, text, caption=None):
    return {
        "id": id,
        "session": session,
        "session_time": f"2026-03-0{session}T10:00:00+01:00",
        "speaker": speaker,
        "text": text,
        "image_caption": caption,
    }


CONVERSATION = {
    "conversation_id": "two-brothers",
    "speakers": ["Ivo", "Jan"],
    "turns": [
        turn("a", 1, "Ivo", "I finally sold the motorbike!"),
        turn("b", 1, "Jan", "To whom?"),
        turn("c", 1, "Ivo", "To a beekeeper, here she is.", "a woman in a white veil"),
        turn("d", 2, "Jan", "蜂蜜で払ったそうだね。" * 12),
    ],
    "questions": [
        {"question": "Who wears a veil [red]?", "category": "single-hop", "evidence": ["c"]},
        {"question": "Who never sang?", "category": "adversarial", "evidence": []},
    ],
}


def test_a_conversation_of_one_s_own_fits_any_width_and_leaves_nothing_behind(tmp_path):
    file = tmp_path / "brothers.json"
    file.write_text(json.dumps(CONVERSATION), encoding="utf-8")
    (tmp_path / "here").mkdir()

    output = printed(file, cwd=tmp_path / "here", columns=60)

    assert "4 turns of Ivo and Jan in 2 sessions" in flowed(section(output, 1))
    ((question, hits),) = answers(output).items()
    assert question == "Who wears a veil [red]?"
    (marked,) = [hit for hit in hits if hit.is_marked]
    assert marked.text == "To a beekeeper, here she is. [photo: a woman in a white veil]"
    assert "1 added, 0 changed, 0 removed" in section(output, 3)
    assert "…" in section(output, 3)
    widths = [sum(1 + (east_asian_width(c) in "WF") for c in line) for line in output.splitlines()]
    assert max(widths) == 60
    assert list((tmp_path / "here").iterdir()) == []


# What it refuses


def without(key):
    return {name: value for name, value in CONVERSATION.items() if name != key}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "No such file"),
        ("{", "line 1"),
        ("[]", "another shape"),
        (json.dumps(without("turns")), "'turns'"),
        (json.dumps({**CONVERSATION, "turns": []}), "no turns"),
        (json.dumps({**CONVERSATION, "turns": [{"id": "a"}]}), "lacks 'speaker'"),
        (json.dumps({**CONVERSATION, "turns": [turn("a", 1, "Ivo", 7)]}), "not a string"),
    ],
)
def test_a_bad_file_is_refused_in_one_line_before_anything_is_written(tmp_path, content, reason):
    if content is not None:
        (tmp_path / "bad.json").write_text(content, encoding="utf-8")
    before = list(tmp_path.iterdir())

    done = quickstart("bad.json", "--store", "kept", cwd=tmp_path)

    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("quickstart: bad.json is no conversation: ")
    assert reason in line
    assert list(tmp_path.iterdir()) == before


def test_a_place_where_no_store_can_be_ends_the_run_in_one_line(tmp_path):
    (tmp_path / "file").write_text("here already", encoding="utf-8")

    done = quickstart("--store", "file", cwd=tmp_path)

    assert done.returncode == 1
    assert "Recall" not in done.stdout
    (line,) = done.stderr.splitlines()
    assert line.startswith("quickstart: ")
    assert str(tmp_path / "file") in line
