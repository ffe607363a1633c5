"""PDFium crashes, hangs or fills the memory: the file is read another way, or refused, and this process goes on."""

import os
import subprocess
import sys
import time

import pytest
from core.documents.files import pdf

from lance_context_core import ContextStore
from lance_context_core.documents import PdfReader
from lance_context_core.documents.readers import pdfium
from lance_context_core.errors import UnreadableDocumentError

pytestmark = pytest.mark.process

FAKE = """
import os, time
class PdfDocument:
    def __init__(self, file, password):
        self.n_bytes = len(file.read())
        {opening}
    def __getitem__(self, index):
        return Page(index)
    def close(self):
        pass
class Page:
    def __init__(self, index):
        self.index = index
    def get_textpage(self):
        return self
    def get_text_range(self):
        {reading}
        return f"shown {{self.index}}"
    def close(self):
        pass
"""


@pytest.fixture(autouse=True)
def no_process_is_left():
    """Each test starts its own processes."""
    while pdfium._idle:
        pdfium._idle.pop().end()
    yield
    while pdfium._idle:
        pdfium._idle.pop().end()


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """Has another package in the place of PDFium, in the processes that are started from then on."""

    def made(*, opening="pass", reading="pass"):
        folder = tmp_path / "fake"
        folder.mkdir()
        (folder / "pypdfium2.py").write_text(FAKE.format(opening=opening, reading=reading))
        monkeypatch.syspath_prepend(folder)

    return made


def read(*pages, **options):
    return PdfReader(**options).read(pdf(*pages), name="a.pdf").text.split("\n\n")


def test_what_pdfium_shows_is_what_is_read(fake):
    fake()
    assert read("one", "two") == ["shown 0", "shown 1"]


def test_a_file_that_pdfium_cannot_open_is_read_by_pypdf(fake):
    fake(opening="raise ValueError")
    assert read("one", "two") == ["one", "two"]


def test_a_page_that_pdfium_cannot_read_is_read_by_pypdf(fake):
    fake(reading="if self.index == 1: raise ValueError")
    assert read("one", "two", "three") == ["shown 0", "two", "shown 2"]


@pytest.mark.parametrize("ends", ["os.abort()", "os._exit(0)", "os.kill(os.getpid(), 9)"])
def test_the_pages_behind_a_crash_are_read_by_pypdf_and_the_next_file_by_pdfium(fake, ends):
    fake(reading=f"if self.index == 1: {ends}")
    assert read("one", "two", "three") == ["shown 0", "two", "three"]
    assert read("one") == ["shown 0"]


def test_a_file_that_crashes_while_it_is_opened_is_read_by_pypdf(fake):
    fake(opening="os.abort()")
    assert read("one") == ["one"]


def test_a_page_that_is_read_for_ever_is_given_up_and_the_others_go_in(fake, tmp_path):
    fake(reading="time.sleep(600 if self.index == 1 else 0)")
    begun = time.monotonic()
    with ContextStore.open(tmp_path / "store") as store:
        given = [pdf("one", "two"), pdf("three")]
        done = store.documents.add_many(given, type="pdf", reader=PdfReader(max_seconds=1))
        assert time.monotonic() - begun < 300
        assert [type(one.error) for one in done.failed] == [UnreadableDocumentError]
        assert "page 2 of 2" in str(done.failed[0].error)
        assert "max_seconds=1" in str(done.failed[0].error)
        assert [store.documents.text(one.id) for one in store.documents.list()] == ["shown 0"]


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is the system's")
def test_what_fills_the_memory_ends_at_the_limit(fake):
    fake(reading="self.all = bytearray(5 << 30)")
    assert read("one") == ["one"]


def test_one_process_reads_file_after_file(monkeypatch):
    started, popen = [], subprocess.Popen

    def noted(*args, **kwargs):
        started.append(args)
        return popen(*args, **kwargs)

    monkeypatch.setattr(subprocess, "Popen", noted)
    assert [read(f"file {n}") for n in range(5)] == [[f"file {n}"] for n in range(5)]
    assert len(started) == 1


def test_a_process_that_was_killed_meanwhile_is_replaced():
    read("one")
    (idle,) = pdfium._idle
    idle._process.kill()
    idle._process.wait()
    assert read("two") == ["two"]


def test_a_child_of_this_process_starts_its_own():
    read("one")
    child = os.fork()
    if not child:
        os._exit(0 if read("two") == ["two"] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert read("three") == ["three"]


@pytest.mark.parametrize("executable", ["", "/bin/false", "/not/there"])
def test_where_no_process_can_be_started_pypdf_reads(monkeypatch, executable):
    monkeypatch.setattr(sys, "executable", executable)
    assert read("one", "two") == ["one", "two"]


def test_no_process_is_left_when_the_interpreter_ends(tmp_path):
    path = tmp_path / "a.pdf"
    path.write_bytes(pdf("one"))
    program = (
        "import sys; from lance_context_core.documents import PdfReader\n"
        "from lance_context_core.documents.readers import pdfium\n"
        "PdfReader().read(open(sys.argv[1], 'rb').read(), name='a.pdf')\n"
        "print(pdfium._idle[0]._process.pid)"
    )
    command = [sys.executable, "-c", program, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    with pytest.raises(ProcessLookupError):
        os.kill(int(done.stdout), 0)
