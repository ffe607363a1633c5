import asyncio
import unicodedata
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone

import lancedb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_context_core.storage.lance.indexes import TextIndex
from lance_context_core.text.analysis import index_words, query_words
from lance_context_core.text.composer import DEFAULT_COMPOSER, Composer, dated, spoken


@dataclass(frozen=True)
class Turn:
    text: str | None = None
    name: str | None = None
    captions: tuple[str, ...] = ()
    kind: str = "message"
    role: str | None = "user"
    created_at: datetime = datetime(2023, 5, 8, 13, 56, tzinfo=UTC)
    metadata: dict = field(default_factory=dict)


BLANK = st.text(st.sampled_from(" \t\n\u3000\u00a0"))
HOSTILE = st.sampled_from(
    ["", "Ann", "O'Hara", 'a "quoted" name', "\x00", "\ud83d", "'; DROP TABLE r; --", "안녕하세요"]
)
TEXTS = HOSTILE | st.text(st.characters())


def test_a_turn_is_embedded_as_who_said_what():
    assert spoken(Turn("I adopted a dog.", name="Ann")) == 'Ann said, "I adopted a dog."'


def test_a_turn_is_indexed_with_its_date_and_speaker():
    turn = Turn("I adopted a dog.", name="Ann")
    assert dated(turn) == "[8 May 2023] Ann: I adopted a dog."


def test_captions_are_embedded_and_indexed_with_the_text():
    turn = Turn("Look!", name="Ann", captions=("a red kite", "a beach"))
    assert spoken(turn) == 'Ann said, "Look!" (a red kite) (a beach)'
    assert dated(turn) == "[8 May 2023] Ann: Look! (a red kite) (a beach)"


def test_an_image_without_text_is_found_by_its_caption():
    turn = Turn(" ", name="Ann", captions=("a red kite",))
    assert spoken(turn) == "Ann shared (a red kite)"
    assert dated(turn) == "[8 May 2023] Ann: (a red kite)"


@pytest.mark.parametrize("name", [None, "", " \t"])
def test_without_a_name_the_plain_text_is_embedded_and_the_role_is_no_name(name):
    assert spoken(Turn("  I adopted a dog.\n", name=name)) == "  I adopted a dog.\n"
    assert dated(Turn("I adopted a dog.", name=name)) == "[8 May 2023] I adopted a dog."


@pytest.mark.parametrize("kind", ["record", "memory", "Message", ""])
def test_what_is_no_message_is_found_by_its_plain_text(kind):
    record = Turn("Dogs need walks.", name="Ann", kind=kind)
    assert spoken(record) == dated(record) == "Dogs need walks."


@given(TEXTS, st.sampled_from(["message", "record"]))
def test_the_plain_text_of_a_nameless_record_is_embedded_to_the_letter(text, kind):
    expected = text if text.strip() else None
    assert spoken(Turn(text, kind=kind)) == expected


@given(
    st.none() | BLANK, HOSTILE | st.none(), st.lists(BLANK), st.sampled_from(["message", "record"])
)
def test_where_there_is_neither_text_nor_caption_there_is_nothing_to_find(
    text, name, captions, kind
):
    turn = Turn(text, name=name, captions=tuple(captions), kind=kind)
    assert spoken(turn) is None
    assert dated(turn) is None


@given(TEXTS, TEXTS, st.lists(TEXTS, max_size=3))
def test_the_embedded_text_holds_all_that_was_said_and_shown(text, name, captions):
    made = spoken(Turn(text, name=name, captions=tuple(captions)))
    for part in (text, name.strip(), *captions):
        assert not part.strip() or made is None or part in made
    assert (made is None) == (not any(part.strip() for part in (text, *captions)))


@given(st.datetimes())
def test_the_date_in_the_index_reads_back_as_the_day(moment):
    made = dated(Turn("x", created_at=moment.replace(tzinfo=UTC)))
    day, month, year = made[1 : made.index("]")].split()
    months = "January February March April May June July August September October November December"
    assert (int(day), months.split().index(month) + 1, int(year)) == (
        moment.day,
        moment.month,
        moment.year,
    )


def test_the_date_is_that_of_utc_whatever_the_zone_of_the_clock():
    tokyo = timezone(timedelta(hours=9))
    made = dated(Turn("Good morning", created_at=datetime(2024, 1, 1, 8, 30, tzinfo=tokyo)))
    assert made == "[31 December 2023] Good morning"


def test_a_caller_replaces_one_composition_and_keeps_the_others():
    composer = Composer(index_text=lambda record: f"{record.role}/{record.text}")
    assert composer.index_text(Turn("hello", role="user")) == "user/hello"
    assert composer.embed_text is DEFAULT_COMPOSER.embed_text
    assert composer.query_text("where is it") == DEFAULT_COMPOSER.query_text("where is it")


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("When did Ann go to the museum?", "Ann go museum?"),
        ("what's Ann's favourite dance", "Ann's favourite dance"),
        ("Where has Will been in May?", "Will May?"),
        ("Is the US team in the IT department?", "US team IT department?"),
        ("IT budget", "IT budget"),
        ("dishes that I like and I've cooked", "dishes like cooked"),
        ("Hello Ann. What did you buy? I don\u2019t recall", "Hello Ann. buy? don\u2019t recall"),
        ("to-do list of get_user_by_id", "to-do list get_user_by_id"),
        ("WHO ARE YOU", "WHO ARE YOU"),
    ],
)
def test_words_that_only_ask_are_left_out_of_the_query(query, words):
    assert query_words(query) == words


@pytest.mark.parametrize("query", ["Who are you?", "it", "I", "who\u2019s that?", "???", "", " "])
def test_a_query_of_nothing_but_such_words_is_left_as_it_is(query):
    assert query_words(query) == query


@given(st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("가나다 .'whatis")))
def test_a_query_never_loses_its_last_word(query):
    has_words = any(map(str.isalnum, index_words(query)))
    assert any(map(str.isalnum, query_words(query))) or not has_words


@given(st.text(st.characters(max_codepoint=0x7F)))
def test_indexing_leaves_plain_text_alone(text):
    assert index_words(text.lower()) == text.lower()


def test_letters_written_in_two_ways_become_the_same():
    decomposed = unicodedata.normalize("NFD", "Müller")
    assert len(decomposed) == 7
    assert index_words(decomposed) == index_words("Müller")
    assert index_words(decomposed).split()[0] == "Muller"
    assert index_words("ｶﾞﾑ \uff21\uff22\uff23") == index_words("ガム ABC")


def test_korean_words_are_indexed_in_overlapping_pairs():
    assert index_words("서울타워에 갔다, OK") == "서울 울타 타워 워에 갔다 갔, OK"
    assert index_words("책") == "책"


@given(st.text("가나다라", min_size=1, max_size=4), st.sampled_from(["", "에", "에서", "를", "은"]))
def test_a_korean_word_shares_a_piece_with_itself_and_any_particle(word, particle):
    pieces = set(index_words(word + particle).split())
    if len(word) > 1 or len(particle) < 2:
        assert pieces & set(index_words(word).split())


LANGUAGES = {
    "Chinese": ("我上周末和家人去爬山了", ["爬山", "家人"]),
    "Japanese": ("昨日は友達と東京タワーに行きました", ["東京", "タワー", "友達"]),
    "Korean": ("친구와 서울타워에 가서 책을 샀어요", ["친구", "서울", "타워", "책", "친구가"]),
    "German": ("Gestern sahen wir zwei Häuser an der Straße", ["Häuser", "hauser", "STRAßE"]),
    "French": ("Mon frère a mangé des crêpes au café", ["frère", "frere", "café", "cafe"]),
    "Spanish": ("Mi niño canta una canción en el corazón", ["niño", "nino", "canción"]),
    "Russian": ("Моя сестра купила книги в Москве", ["сестра", "КНИГИ", "Москве"]),
    "Arabic": ("ذهبت أمس إلى المتحف مع أطفالي", ["المتحف", "أمس"]),
    "Hindi": ("मेरी बहन अस्पताल में काम करती है", ["बहन", "अस्पताल"]),
    "English": ("We went hiking with our two dogs", ["hike", "dog", "Dogs"]),
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_word_of_each_language_finds_the_one_text_that_holds_it(language):
    texts = {name: text for name, (text, _) in LANGUAGES.items()}

    async def found(queries):
        database = await lancedb.connect_async("memory://")
        rows = {"name": list(texts), "words": [index_words(text) for text in texts.values()]}
        table = await database.create_table("texts", pa.table(rows))
        await table.create_index("words", config=TextIndex().config())
        hits = []
        for query in queries:
            search = table.query().nearest_to_text(query_words(query), columns=["words"])
            rows = await search.select(["name", "_score"]).to_list()
            hits.append({row["name"] for row in rows})
        return hits

    queries = LANGUAGES[language][1]
    assert asyncio.run(found(queries)) == [{language}] * len(queries)
