"""Pictures: what is believed of them, how they are found, and that nothing is left of them."""

import io
import random
import struct
import zlib
from functools import cache
from pathlib import Path

import pillow_heif
import pytest
from core.conformance.doubles import WordVectors
from PIL import Image, ImageOps

from lance_context_core import ContextStore, Message
from lance_context_core._util import extras
from lance_context_core.errors import (
    InvalidRequestError,
    MissingExtraError,
    NotFoundError,
    UnreadableDocumentError,
)
from lance_context_core.media import ImageAnalysis

KINDS = ["PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF", "AVIF"]


def picture(format="PNG", size=(40, 30), seed=1, **options):
    """A file of pixels that no two seeds have in common."""
    pixels = random.Random(seed).randbytes(size[0] * size[1] * 3)
    written = io.BytesIO()
    Image.frombytes("RGB", size, pixels).save(written, format, **options)
    return written.getvalue()


def chunk(kind, data):
    whole = kind + data
    return struct.pack(">I", len(data)) + whole + struct.pack(">I", zlib.crc32(whole))


def png(width, height, data=b""):
    """A PNG whose header says what we like."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = chunk(b"IHDR", header), chunk(b"IDAT", data), chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


@pytest.fixture
def store(tmp_path):
    with ContextStore.open(tmp_path / "store", embedder=WordVectors()) as store:
        yield store


class Analyzer:
    def __init__(self, **said):
        self.said, self.types = said, []

    def analyze(self, content, *, content_type):
        self.types.append(content_type)
        return ImageAnalysis(**self.said)


# Adding


@pytest.mark.parametrize("format", KINDS)
def test_a_picture_of_each_format_is_known_by_its_bytes(store, format):
    content = picture(format, size=(400, 300))
    added = store.images.add(content, name="../../lies.exe")
    assert (added.format, added.width, added.height) == (format.lower(), 400, 300)
    assert (added.name, added.size, added.kind) == ("lies.exe", len(content), "image")
    assert store.images.content(added.id) == content
    small = Image.open(io.BytesIO(store.images.thumbnail(added.id)))
    assert small.size == (256, 192)


@pytest.mark.parametrize(
    ("content", "kind", "type"),
    [
        (b"RIFF\x24\0\0\0WAVEfmt ", "audio", "audio/wav"),
        (b"ID3\x03\0\0", "audio", "audio/mpeg"),
        (b"\0\0\0\x20ftypisom\0\0", "video", "video/mp4"),
        (b"\x1aE\xdf\xa3webm", "video", "video/webm"),
    ],
    ids=["wav", "mp3", "mp4", "webm"],
)
def test_sound_and_films_are_kept_and_found_by_what_is_said_of_them(store, content, kind, type):
    added = store.images.add(content, text="Ada speaks about whales", name="x")
    assert (added.kind, added.content_type, added.width) == (kind, type, None)
    assert store.images.thumbnail(added.id) is None
    assert store.search("whales")[0].record.id == added.id


def heic(size=(40, 30)):
    written = io.BytesIO()
    image = Image.open(io.BytesIO(picture(size=size)))
    pillow_heif.from_pillow(image).save(written, quality=50)
    return written.getvalue()


def test_a_photo_of_a_telephone_is_a_picture(store):
    content = heic(size=(400, 300))
    added = store.images.add(content, name="IMG_1.HEIC")
    assert (added.kind, added.content_type, added.format) == ("image", "image/heic", "heic")
    assert (added.width, added.height) == (400, 300)
    small = Image.open(io.BytesIO(store.images.thumbnail(added.id)))
    assert small.size == (256, 192)
    assert store.images.content(added.id) == content
    with pytest.raises(UnreadableDocumentError, match="max_pixels=1000"):
        store.images.add(heic(size=(50, 50)), max_pixels=1000)
    with pytest.raises(UnreadableDocumentError, match="cannot be read as image/heic"):
        store.images.add(heic()[:200])


def test_a_photo_of_a_telephone_needs_the_extra(store, monkeypatch):
    content = heic()
    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match=r"pillow.heif.*lance-context-core\[images\]"):
        store.images.add(content)


def test_a_drawing_is_not_drawn(store):
    drawn = (
        b'<?xml version="1.0"?><svg xmlns="x" width="120" height="80px"><script>1</script></svg>'
    )
    added = store.images.add(drawn, name="a.svg")
    assert (added.format, added.width, added.height) == ("svg", 120, 80)
    assert store.images.thumbnail(added.id) is None


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_picture_that_was_turned_has_the_size_that_is_seen(store, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    content = picture("JPEG", size=(600, 400), exif=exif)
    added = store.images.add(content)
    seen = ImageOps.exif_transpose(Image.open(io.BytesIO(content)))
    assert (added.width, added.height) == seen.size
    assert seen.size == ((600, 400) if orientation < 5 else (400, 600))
    small = Image.open(io.BytesIO(store.images.thumbnail(added.id)))
    assert small.size == ((256, 171) if orientation < 5 else (171, 256))


def test_the_same_bytes_are_there_once_in_a_session_and_once_more_in_another(store):
    content = picture()
    first = store.images.add(content, session_id="a", caption="A cat")
    assert store.images.add(content, session_id="a", caption="A dog") == first
    other = store.images.add(content, session_id="b", caption="A dog")
    alone = store.images.add(content)
    assert len({first.id, other.id, alone.id}) == 3
    assert len(store.blobs.list()) == 1
    assert [one.id for one in store.images.list(session_id="b")] == [other.id]
    store.images.delete(first.id)
    store.images.delete(other.id)
    assert store.images.content(alone.id) == content
    store.images.delete(alone.id)
    assert store.blobs.list() == []


# Bad files


def lying(format, width, height):
    """A small picture whose header says that it is of another size."""
    content = picture(format)

    def with_bytes(place, *parts):
        new = b"".join(parts)
        return content[:place] + new + content[place + len(new) :]

    def short(value, order="little"):
        return value.to_bytes(2, order)

    match format:
        case "JPEG":
            place = content.index(b"\xff\xc0") + 5
            return with_bytes(place, short(height, "big"), short(width, "big"))
        case "GIF":  # The frame, not the screen that it is on.
            return with_bytes(content.index(b",\0\0\0\0") + 5, short(width), short(height))
        case "WEBP":
            return with_bytes(content.index(b"\x9d\x01\x2a") + 3, short(width), short(height))
        case _:
            return with_bytes(18, struct.pack("<ii", width, height))


@cache
def broken():
    whole = picture("PNG", size=(200, 200))
    jpeg = picture("JPEG", size=(200, 200))
    return {
        "nothing": b"",
        "no picture": b"hello, I am a text",
        "a program": b"\x7fELF" + bytes(100),
        "cut short": whole[: len(whole) // 2],
        "a JPEG cut short": jpeg[: len(jpeg) // 2],
        "a head alone": b"\x89PNG\r\n\x1a\n",
        "a header of a trillion pixels": png(1_000_000, 1_000_000),
        "a header of more than there is": png(6000, 6000, zlib.compress(b"\0" * 100)),
        "a bomb": png(30_000, 30_000, zlib.compress(bytes(90_001 * 30_000 // 1000), 9)),
        "a header of nothing": png(0, 0),
        **{
            f"a {format} that is said to be {n} pixels wide": lying(format, n, n)
            for format in ("JPEG", "GIF", "WEBP", "BMP")
            for n in (5_000, 15_000)
        },
        "a GIF of nothing": b"GIF89a" + bytes(20),
        "a text bomb": b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0))
        + chunk(b"zTXt", b"k\0\0" + zlib.compress(bytes(50_000_000)))
        + chunk(b"IDAT", zlib.compress(bytes(4)))
        + chunk(b"IEND", b""),
    }


@pytest.mark.parametrize("name", list(broken()))
def test_a_broken_picture_is_refused_in_one_error_and_leaves_nothing(store, name):
    with pytest.raises(UnreadableDocumentError):
        store.images.add(broken()[name], name="x.png")
    assert store.images.count() == 0
    assert store.blobs.list() == []


@pytest.mark.parametrize("mode", ["baseline", "progressive"])
def test_a_large_picture_of_one_colour_is_no_lie_however_small_its_file(store, mode):
    written = io.BytesIO()
    plain = Image.new("RGB", (4000, 4000), "white")
    plain.save(written, "JPEG", quality=1, optimize=True, progressive=mode == "progressive")
    assert store.images.add(written.getvalue()).width == 4000


def test_a_picture_over_the_bound_is_refused_before_it_is_decoded(store):
    content = picture(size=(100, 100))
    with pytest.raises(UnreadableDocumentError, match="max_pixels=9999"):
        store.images.add(content, max_pixels=9_999)
    assert store.images.add(content, max_pixels=10_000).width == 100
    with pytest.raises(UnreadableDocumentError, match="max_bytes"):
        store.images.add(content, max_bytes=100)


def test_what_is_not_said_well_is_refused(store):
    content = picture()
    wrong = [
        {"tags": "one"},
        {"tags": [1]},
        {"caption": 3},
        {"analyzer": Analyzer},
        {"analyzer": "ocr"},
        {"max_pixels": 0},
        {"metadata": {"a": object()}},
    ]
    for arguments in wrong:
        with pytest.raises(InvalidRequestError):
            store.images.add(content, **arguments)

    class Wrong:
        def analyze(self, content, *, content_type):
            return "a cat"

    with pytest.raises(InvalidRequestError, match="ImageAnalysis"):
        store.images.add(content, analyzer=Wrong())
    assert store.images.count() == 0


# Finding


def test_captions_text_and_tags_are_found_beside_messages(store):
    store.history.append("helper", Message.user("Whales are mammals."), session_id="s")
    caption = store.images.add(picture(seed=1), caption="A whale jumps", session_id="s")
    text = store.images.add(picture(seed=2), text="INVOICE 4711", session_id="s")
    tags = store.images.add(picture(seed=3), tags=["sunset", "sunset"], session_id="s")
    silent = store.images.add(picture(seed=4), session_id="s")
    kinds = {hit.record.kind for hit in store.search("whale whales")}
    assert kinds == {"message", "image"}
    assert store.search("4711")[0].record.id == text.id
    assert store.images.search("sunset")[0].record == tags
    assert tags.tags == ("sunset",)
    assert {hit.record.id for hit in store.images.search("whale", mode="text")} == {caption.id}
    assert store.images.get(silent.id) == silent
    assert store.history.count("helper", session_id="s") == 1


def test_an_analyzer_says_what_the_caller_does_not(store):
    analyzer = Analyzer(caption="A cat", text="MEOW", tags=("cat",), vector=[1.0, 0.0])
    added = store.images.add(picture("JPEG"), caption="My cat Ada", analyzer=analyzer)
    assert (added.caption, added.text, added.tags) == ("My cat Ada", "MEOW", ("cat",))
    assert analyzer.types == ["image/jpeg"]
    plain = store.images.add(picture(seed=2))
    changed = store.images.update(plain.id, analyzer=Analyzer(caption="A dog barks"), tags=["pet"])
    assert (changed.caption, changed.tags) == ("A dog barks", ("pet",))
    assert store.images.search("barks")[0].record == changed
    again = store.images.update(plain.id, metadata={"a": 1})
    assert (again.caption, again.tags, again.metadata) == ("A dog barks", ("pet",), {"a": 1})
    with pytest.raises(NotFoundError):
        store.images.update("img_none", caption="x")


def test_a_picture_that_is_changed_is_no_more_found_by_what_it_said(store):
    added = store.images.add(picture(), caption="A whale jumps")
    store.images.update(added.id, caption="A submarine dives")
    assert store.images.search("whale", mode="text") == []
    best = store.images.search("submarine", mode="vector", limit=1)[0]
    assert best.channels["vector"].raw > 0.5


def test_pictures_are_found_by_vectors_of_a_space_of_their_own(store):
    axes = {"red": [1.0, 0.0, 0.0], "pink": [0.9, 0.3, 0.0], "blue": [0.0, 0.0, 1.0]}
    added = {
        name: store.images.add(picture(seed=n), name=name, vector=vector)
        for n, (name, vector) in enumerate(axes.items())
    }
    store.images.add(picture(seed=9), name="without")
    near = store.images.similar([1.0, 0.0, 0.0])
    assert [hit.record.name for hit in near] == ["red", "pink", "blue"]
    assert [hit.record.name for hit in store.images.similar(added["red"].id, limit=1)] == ["pink"]
    with pytest.raises(NotFoundError):
        store.images.similar("img_none")
    store.images.delete(added["pink"].id)
    assert [hit.record.name for hit in store.images.similar([1.0, 0.0, 0.0])] == ["red", "blue"]


# Walls, versions, forgetting


def test_pictures_of_one_scope_are_not_there_for_another(store):
    ada, bob = store.scope(user_id="ada"), store.scope(user_id="bob")
    content = picture()
    mine = ada.images.add(content, caption="Ada at the sea", vector=[1.0, 0.0])
    assert bob.images.get(mine.id) is None
    assert bob.images.search("sea") == bob.images.list() == bob.images.similar([1.0, 0.0]) == []
    for ask in (bob.images.content, bob.images.thumbnail):
        with pytest.raises(NotFoundError):
            ask(mine.id)
    assert not bob.images.delete(mine.id)
    assert store.images.content(mine.id) == content
    theirs = bob.images.add(content, caption="Bob's")
    ada.images.delete(mine.id)
    assert bob.images.content(theirs.id) == content


def test_pictures_are_branched_merged_and_looked_back_at(store):
    store.images.add(picture(seed=1), name="old", caption="An old picture")
    store.tag("before")
    draft = store.create_branch("draft")
    new = draft.images.add(picture(seed=2), name="new", caption="A new picture", vector=[1.0, 0.0])
    assert [one.name for one in store.images.list()] == ["old"]
    store.merge("draft")
    assert store.images.content(new.id) == picture(seed=2)
    assert store.images.similar([1.0, 0.0])[0].record == new
    assert [one.name for one in store.checkout("before").images.list()] == ["old"]


def test_an_erased_picture_is_in_no_file(store, tmp_path):
    content = picture(size=(300, 300), seed=7)
    vector = [0.123456, 0.654321, 0.222222, 0.777777]
    added = store.images.add(content, name="zq7.png", caption="zqcaption", vector=vector)
    kept = store.images.add(picture(seed=8), caption="stays", vector=vector[::-1])
    small = store.images.thumbnail(added.id)
    store.flush()

    def files_with(marker):
        return [
            one for one in Path(tmp_path).rglob("*") if one.is_file() and marker in one.read_bytes()
        ]

    markers = [content[200:260], small[-60:], b"zqcaption", struct.pack("<4f", *vector)]
    assert all(files_with(marker) for marker in markers[:2])
    erased = store.erase(ids=[added.id], sole_writer=True)
    assert (erased.records, erased.blobs) == (1, 1)
    assert [files_with(marker) for marker in markers] == [[], [], [], []]
    assert store.images.content(kept.id) == picture(seed=8)
    assert [hit.record for hit in store.images.similar(vector)] == [kept]
