"""Archives and mails: the files in them are read, each by the reader of its type, and cited by name."""

import io
import random
import zipfile
from datetime import UTC, datetime

import pytest
from core.documents.files import pdf, word
from core.documents.outlook import mail, ole, ticks

from lance_context_core import ContextStore
from lance_context_core.documents import EmailReader, OutlookReader, ZipReader
from lance_context_core.documents.readers.mail import unpacked_rtf
from lance_context_core.errors import UnreadableDocumentError


def zipped(files):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in files.items():
            packed.writestr(name, content)
    return made.getvalue()


def with_letter(text):
    return word(lambda document: document.add_paragraph(text))


FILES = {
    "notes/tea.md": b"# Tea\n\nTea is at four.",
    "report.pdf": pdf("Cake is at five.", "Bread is at six."),
    "letter.docx": with_letter("Dinner is at eight."),
    "prices.csv": b"name,price\nmilk,2",
    "inner.zip": zipped({"deep/salt.txt": b"Salt is on the table."}),
}


@pytest.mark.parametrize(
    ("question", "citation"),
    [
        ("Tea at four", "all.zip, notes/tea.md > Tea"),
        ("Bread at six", "all.zip, p. 2, report.pdf"),
        ("Dinner at eight", "all.zip, letter.docx"),
        ("milk price", "all.zip, prices.csv > row 2"),
        ("Salt table", "all.zip, inner.zip > deep/salt.txt"),
    ],
)
def test_what_is_in_an_archive_is_found_and_cited_by_its_path(question, citation):
    with ContextStore.open("memory://") as store:
        added = store.documents.add(zipped(FILES), name="all.zip")
        hit = store.documents.search(question, limit=1)[0].record
        text = store.documents.text(added.id)
        assert hit.citation == citation
        assert added.type == "zip"
        # Offsets count in the whole text.
        assert text[hit.start : hit.end] == hit.text


def test_what_cannot_be_read_in_an_archive_is_told_and_the_rest_is_read():
    files = {
        "a.txt": b"Tea is at four.",
        "broken.pdf": b"%PDF-1.7 and no more",
        "empty.txt": b"",
        "photo.png": b"\x89PNG\r\n\x1a\n" + bytes(50),
        ".hidden": b"no",
        "__MACOSX/a.txt": b"no",
    }
    read = ZipReader().read(zipped(files), name="all.zip")
    assert read.text == "Tea is at four."
    assert [one.partition(":")[0] for one in read.properties["unread"]] == [
        "broken.pdf",
        "empty.txt",
        "photo.png",
    ]


def locked(files):
    """An archive whose files say that they are encrypted."""
    content = bytearray(zipped(files))
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = -1
        while (at := content.find(mark, at + 1)) >= 0:
            content[at + offset] |= 1
    return bytes(content)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        pytest.param(zipped({}), "no file in it", id="nothing"),
        pytest.param(
            zipped({"a.class": b"\xca\xfe\xba\xbe" + bytes(60)}), "is not text", id="no text"
        ),
        pytest.param(zipped({"a.txt": b"tea"})[:-30], "broken", id="cut short"),
        pytest.param(locked({"a.txt": b"tea"}), "encrypted", id="encrypted"),
    ],
)
def test_an_archive_of_which_nothing_can_be_read_is_refused_with_the_reason(content, said):
    with ContextStore.open("memory://") as store:
        with pytest.raises(UnreadableDocumentError, match=said) as raised:
            store.documents.add(content, name="all.zip")
        assert "'all.zip'" in str(raised.value)
        assert store.documents.count() == 0


def test_an_archive_may_not_unpack_to_more_than_is_said_however_deep_it_is_packed():
    bomb = zipped({f"{n}.txt": b"x" * 1_000_000 for n in range(5)})
    around = zipped({f"{n}.zip": bomb for n in range(5)})
    with pytest.raises(UnreadableDocumentError, match="max_unpacked_bytes"):
        ZipReader(max_unpacked_bytes=10_000_000).read(around, name="a.zip")
    with pytest.raises(UnreadableDocumentError, match="max_files"):
        ZipReader(max_files=4).read(bomb, name="a.zip")


def test_archives_in_archives_are_read_as_deep_as_is_said():
    packed = b"Tea is at four."
    name = "tea.txt"
    for depth in range(4):
        packed, name = zipped({name: packed, "a.txt": b"here %d" % depth}), f"{depth}.zip"
    read = ZipReader(max_depth=2).read(packed, name="a.zip")
    assert read.text.split("\n\n") == ["here 2", "here 3"]
    assert "max_depth" in read.properties["unread"][0]
    assert "Tea is at four." in ZipReader(max_depth=4).read(packed, name="a.zip").text


def test_random_damage_to_an_archive_is_refused_or_read():
    content = zipped(FILES)
    drawn = random.Random(7)
    for _ in range(60):
        damaged = bytearray(content)
        for _ in range(drawn.randrange(1, 20)):
            damaged[drawn.randrange(len(damaged))] = drawn.randrange(256)
        try:
            ZipReader().read(bytes(damaged), name="a.zip")
        except UnreadableDocumentError:
            continue


INNER_MAIL = (
    b"From: Bob <b@x.y>\r\nSubject: Before\r\nContent-Type: text/plain\r\n\r\nIt was at three.\r\n"
)
MAIL = (
    b"From: Ada <a@x.y>\r\nSubject: Tea\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n"
    b"--b\r\nContent-Type: text/plain\r\n\r\nSee the files.\r\n"
    b"--b\r\nContent-Type: text/csv\r\nContent-Disposition: attachment; filename=p.csv\r\n\r\n"
    b"name,price\r\nmilk,2\r\n"
    b"--b\r\nContent-Type: image/png\r\nContent-Disposition: attachment; filename=p.png\r\n\r\n"
    b"\x89PNG\r\n"
    b"--b\r\nContent-Type: message/rfc822\r\n\r\n" + INNER_MAIL + b"\r\n--b--\r\n"
)


def test_the_attachments_of_a_mail_are_read_and_cited_by_name():
    with ContextStore.open("memory://") as store:
        added = store.documents.add(MAIL, name="a.eml")
        assert added.properties["attachments"] == ["p.csv", "p.png", "Before.eml"]
        assert [one.partition(":")[0] for one in added.properties["unread"]] == ["p.png"]
        hit = store.documents.search("milk", limit=1)[0].record
        assert (hit.section, hit.text) == ("p.csv > row 2", "name: milk; price: 2")
        assert store.documents.search("three", limit=1)[0].record.section == "Before.eml"
    alone = EmailReader(attachments=False).read(MAIL, name="a.eml")
    assert alone.text == "From: Ada <a@x.y>\nSubject: Tea\n\nSee the files."


def test_a_mail_of_outlook_is_read_with_its_attachments_and_the_mails_in_it():
    inner = mail([("0037", "Before"), ("1000", "It was at three.")], head=24)
    content = ole(
        mail(
            [
                ("0037", "Téa"),
                ("0C1A", "Ada"),
                ("5D01", "ada@x.y"),
                ("0E04", "Bob"),
                ("1000", "See the files.\r\n" + "Tea is hot. " * 400),
            ],
            numbers=[(0x0039, ticks(datetime(2026, 5, 3, 10, 30, tzinfo=UTC)))],
            files=[("p.csv", b"name,price\nmilk,2"), ("p.png", b"\x89PNG\r\n")],
            within=[inner],
        )
    )
    with ContextStore.open("memory://") as store:
        added = store.documents.add(content, name="a.bin")
        assert (added.type, added.title) == ("outlook", "Téa")
        assert added.properties["from"] == "Ada <ada@x.y>"
        assert added.properties["date"] == "2026-05-03T10:30:00+00:00"
        assert added.properties["attachments"] == ["p.csv", "p.png", "Before.txt"]
        assert [one.partition(":")[0] for one in added.properties["unread"]] == ["p.png"]
        assert store.documents.search("milk price", limit=1)[0].record.section == "p.csv > row 2"
        assert store.documents.search("three", limit=1)[0].record.section == "Before.txt"
        assert store.documents.text(added.id).count("Tea is hot.") == 400


PLAIN = rb"{\rtf1\ansi\pard tea tea tea tea tea tea\par}"


@pytest.mark.parametrize(
    ("property", "content"),
    [
        ("1000001E", "Tea for two — caf\xe9".encode("cp1252")),
        ("10130102", "<p>Tea for two — café".encode("cp1252")),
        ("10090102", b"\0" * 8 + b"MELA" + b"\0" * 4 + rb"{\rtf1 Tea for two \'97 caf\'e9}"),
    ],
)
def test_a_mail_of_outlook_is_read_in_each_form_of_its_text(property, content):
    packed = ole(mail([("0037", "x")], raw=[(property, content)]))
    assert OutlookReader().read(packed, name="a.msg").text == "Subject: x\n\nTea for two — café"


def lz(content):
    """Packed as [MS-OXRTFCP] has it, by the plainest search for what was written before."""
    start = (
        rb"{\rtf1\ansi\mac\deff0\deftab720{\fonttbl;}{\f0\fnil \froman \fswiss \fmodern \fscript "
        rb"\fdecor MS Sans SerifSymbolArialTimes New RomanCourier{\colortbl\red0\green0\blue0"
        b"\r\n"
        rb"\par \pard\plain\f0\fs20\b\i\u\tab\tx"
    )
    whole, at, tokens = start, 0, []
    while at < len(content):
        for length in range(min(17, len(content) - at), 1, -1):
            found = whole.find(content[at : at + length])
            if found >= 0:
                tokens.append((1, (found << 4 | length - 2).to_bytes(2, "big")))
                break
        else:
            length = 1
            tokens.append((0, content[at : at + 1]))
        whole += content[at : at + length]
        at += length
    tokens.append((1, (len(whole) << 4).to_bytes(2, "big")))
    body = b""
    for index in range(0, len(tokens), 8):
        group = tokens[index : index + 8]
        body += bytes([sum(flag << bit for bit, (flag, _) in enumerate(group))])
        body += b"".join(token for _, token in group)
    sizes = (len(body) + 12).to_bytes(4, "little") + len(content).to_bytes(4, "little")
    return sizes + b"LZFu" + bytes(4) + body


@pytest.mark.parametrize("content", [PLAIN, b"x", bytes(range(256)) * 3, b"ab" * 900])
def test_packed_rich_text_is_unpacked(content):
    assert unpacked_rtf(lz(content)) == content


def test_a_mail_of_outlook_that_is_cut_short_is_refused_or_read():
    content = ole(mail([("0037", "x"), ("1000", "Tea. " * 1000)]))
    for end in range(1, len(content), 97):
        try:
            OutlookReader().read(content[:end], name="a.msg")
        except UnreadableDocumentError as error:
            assert "'a.msg'" in str(error)  # noqa: PT017 - either may happen
