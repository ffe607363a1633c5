"""A record is found by its words in each language that the documentation names."""

# ruff: noqa: RUF001 - these are the letters of other scripts, none is a slip

import re
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_context_core import ContextStore, Document, Message
from lance_context_core.settings import Composer, TextIndex
from lance_context_core.text.analysis import index_words, query_words

SENTENCES = {
    "English": [
        ("We went hiking around the lake.", ["hike", "hiked", "LAKE", "lakes"]),
        ("My cats broke the blue vase yesterday.", ["cat", "Vase", "break broke"]),
    ],
    "German": [
        (
            "Wir haben in Köln alte Häuser gesehen.",
            ["hauser", "HÄUSER", "Ha\u0308user", "koln", "Haus"],
        ),
        (
            "Mein Fußball liegt auf der Straße.",
            ["straße", "STRASSE", "fußball", "Ball", "Straßen", "Hauptstraße"],
        ),
    ],
    "French": [
        (
            "L'été dernier nous avons mangé à la crêperie.",
            ["été", "ete", "CRÊPERIE", "creperie", "mange", "manger"],
        ),
        ("Ma sœur a oublié son garçon à l'école.", ["sœur", "soeur", "garcon", "école", "ecole"]),
    ],
    "Spanish": [
        ("El niño comió una piña esta mañana.", ["niño", "nino", "PIÑA", "pina", "niños", "piñas"]),
        ("¿Dónde está la biblioteca?", ["biblioteca", "DÓNDE"]),
    ],
    "Turkish": [
        (
            "Yarın arkadaşımla çalışacağız.",
            ["çalışacağız", "calisacagiz", "yarin", "arkadaşlar", "arkadaş"],
        ),
        ("Kız kardeşim ışığı açtı.", ["ışığı", "IŞIĞI", "kardesim", "ışık", "kardeşler"]),
    ],
    "Russian": [
        ("Моя сестра купила новые книги.", ["книги", "КНИГИ", "сестра", "книга", "сёстры"]),
        ("В Москве вчера шёл снег.", ["москве", "шёл", "шел", "Снег", "Москва", "снега"]),
    ],
    "Greek": [
        ("Η αδελφή μου αγόρασε ένα βιβλίο.", ["βιβλίο", "ΒΙΒΛΊΟ", "Αγόρασε"]),
        ("Χθες πήγαμε στη θάλασσα.", ["θάλασσα", "χθες"]),
    ],
    "Arabic": [
        ("ذهبت أمس إلى السوق مع صديقي.", ["السوق", "صديقي", "سوق", "صديق"]),
        ("اشترت أختي كتابا جديدا.", ["كتابا", "أختي", "كتاب", "الكتاب"]),
    ],
    "Hebrew": [
        ("אתמול הלכתי לשוק עם חבר.", ["לשוק", "חבר"]),
        ("הילדים אוהבים גלידה.", ["גלידה", "הילדים"]),
    ],
    "Hindi": [
        ("मेरी बहन ने नई किताब खरीदी।", ["किताब", "बहन", "किताबें", "बहनों", "खरीदी", "ख़रीदी"]),
        ("कल हम दिल्ली गए थे।", ["दिल्ली", "कल"]),
    ],
    "Chinese": [
        ("我上周末和家人去爬山了。", ["爬山", "家人", "山", "什么时候爬山"]),
        ("他在北京大学学习计算机科学。", ["北京", "计算机", "学习"]),
        ("我們昨天在臺灣吃了牛肉麵。", ["牛肉麵", "昨天"]),
    ],
    "Japanese": [
        ("昨日は友達と東京タワーに行きました。", ["東京タワー", "友達"]),
        ("来週の会議は月曜日です。", ["会議", "月曜日"]),
        ("新しいカメラを買いました。", ["カメラ", "ｶﾒﾗ"]),
    ],
    "Thai": [
        ("เมื่อวานฉันไปตลาดกับเพื่อน", ["ตลาด", "เพื่อน", "ไปตลาดไหม"]),
        ("แมวของฉันชอบกินปลา", ["แมว", "ปลา", "กิน"]),
    ],
    "Korean": [
        ("어제 친구와 서울타워에 갔어요.", ["서울타워", "서울타워를", "친구는"]),
        ("고양이가 꽃병을 깼다.", ["고양이", "고양이는", "꽃병"]),
        ("집에 개가 있다.", ["개", "집"]),
    ],
}

each_language = pytest.mark.parametrize("language", SENTENCES)


@pytest.fixture(scope="module")
def polyglot():
    """All sentences in one store: as messages, as memories and as documents."""
    with ContextStore.open("memory://") as store:
        texts = [text for sentences in SENTENCES.values() for text, _ in sentences]
        store.memory.add(texts)
        store.vectors("docs").add([Document(text=text) for text in texts])
        messages = [Message.user(text, name="Ann") for text in texts]
        store.history.append_many("", messages, session_id="s")
        yield store


@each_language
def test_a_sentence_is_found_by_each_of_its_words(polyglot, language):
    for text, words in SENTENCES[language]:
        for word in words:
            for room in (polyglot.memory, polyglot.vectors("docs"), polyglot.history):
                found = [hit.record.text for hit in room.search(word, mode="text", limit=3)]
                assert text in found, word


@each_language
def test_a_word_of_one_sentence_does_not_find_the_others(polyglot, language):
    for text, words in SENTENCES[language]:
        others = {other for other, _ in SENTENCES[language]} - {text}
        hits = polyglot.memory.search(words[0], mode="text", limit=99)
        assert others.isdisjoint(hit.record.text for hit in hits)


@each_language
def test_a_whole_question_finds_its_sentence_first(polyglot, language):
    for text, _ in SENTENCES[language]:
        for room in (polyglot.memory, polyglot.vectors("docs"), polyglot.history):
            assert room.search(text, mode="text", limit=1)[0].record.text == text


def test_the_documentation_names_the_languages_that_are_tested():
    page = (Path(__file__).parents[3] / "docs" / "search.md").read_text(encoding="utf-8")
    table = page.split("| language |")[1].split("\n\n")[0]
    named = re.findall(r"[A-Z][a-z]+", "".join(re.findall(r"^\| ([^|]+) \|", table, re.MULTILINE)))
    assert sorted(named) == sorted(SENTENCES)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "Der Haustürschlüssel liegt beim Nachbarn",
            ["Schlüssel", "Haus", "Haustür", "Schlüsseln"],
        ),
        ("Der Schlüssel liegt beim Nachbarn", ["Haustürschlüssel", "Schlüsseldienst"]),
        ("Oma hat drei Apfelbäume gepflanzt", ["Apfel", "Baum", "Bäume", "Apfelbaum"]),
    ],
)
def test_a_compound_is_found_by_its_parts_and_they_are_found_by_it(text, words):
    with ContextStore.open("memory://") as store:
        store.memory.add([text, "Der Autoreifen ist geplatzt", "The key is under the mat"])
        for word in words:
            hits = store.memory.search(f"Wo ist {word}?", mode="text")
            assert [hit.record.text for hit in hits] == [text]


def test_compounds_that_share_a_part_do_not_find_each_other():
    with ContextStore.open("memory://") as store:
        store.memory.add(["Der Haustürschlüssel ist weg"])
        assert store.memory.search("Autoschlüssel", mode="text") == []


@pytest.mark.parametrize(
    "text", ["We went to the museum in May", "Die Hard was on TV", "Wow!", "the café"]
)
def test_english_texts_have_no_other_words(text):
    assert index_words(text) == text.replace("é", "e")


def test_a_question_does_not_look_up_the_words_that_only_ask_in_its_language():
    for question, words in (
        ("Wo ist der Hund?", "Hund 00hund 0hund?"),
        ("谁在上海?", "谁在上海? x5728 x4h0g x6d77 x57284h0g x4h0g6d77"),
        ("¿Dónde está el perro?", "perro 00perr?"),
    ):
        assert query_words(question) == words


def test_what_was_written_with_words_of_an_earlier_way_is_found():
    texts = ["我上周末和家人去爬山了", "แมวชอบกินปลา", "Она купила книги", "Mein Fußball ist weg"]
    kept = Composer(index_text=lambda record: index_once(record.text or ""))
    with ContextStore.open("memory://", composer=kept) as store:
        store.memory.add(texts)
        for text, word in zip(texts, ["爬山", "ปลา", "книги", "Fußball"], strict=True):
            (hit,) = store.memory.search(word, mode="text")
            assert hit.record.text == text


def index_once(text):
    """As words were indexed before they had their stems beside them."""
    plain = unicodedata.normalize("NFKD", text).replace("ß", "ss")
    return unicodedata.normalize("NFKC", re.sub("[\u0300-\u036f]", "", plain))


def test_a_language_s_own_endings_are_stripped_where_it_is_the_store_s():
    for language, text, word in (
        ("Italian", "Abbiamo comprato due libri", "libro"),
        ("Finnish", "Uudet kirjat", "kirja"),
    ):
        with ContextStore.open("memory://") as english:
            english.memory.add([text])
            assert english.memory.search(word, mode="text") == []
        index = TextIndex(language=language)
        with ContextStore.open("memory://", text_index=index) as store:
            store.memory.add([text])
            assert len(store.memory.search(word, mode="text")) == 1


@given(st.sampled_from([word for some in SENTENCES.values() for _, ws in some for word in ws]))
def test_the_way_a_word_is_composed_does_not_matter(polyglot, word):
    found = {
        form: {hit.record.id for hit in polyglot.memory.search(written, mode="text", limit=99)}
        for form in ("NFC", "NFD", "NFKC", "NFKD")
        if (written := unicodedata.normalize(form, word))
    }
    assert found["NFC"] == found["NFD"] == found["NFKC"] == found["NFKD"] != set()


@pytest.mark.parametrize(
    "query",
    [
        "",
        "  ",
        "?!",
        "。",
        "🐶",
        "\x00",
        "' OR 1=1 --",
        '"',
        "*",
        "AND OR NOT",
        "a:b^2~",
        "((((",
    ],
)
def test_a_question_without_words_or_full_of_syntax_raises_nothing(polyglot, query):
    for room in (polyglot.memory, polyglot.vectors("docs"), polyglot.history):
        assert isinstance(room.search(query, mode="text"), list)
