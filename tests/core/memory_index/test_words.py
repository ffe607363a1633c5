"""Words cut in the process, against those of the engine's index: BM25 over both has the same scores."""

import random
import unicodedata

import lancedb
import numpy as np
import pyarrow as pa
import pytest
from lancedb.query import MatchQuery

from lance_context_core.memory_index.bm25 import Postings, are_sure, words_of
from lance_context_core.settings import TextIndex
from lance_context_core.text.analysis import index_words

ALPHABETS = {
    "ASCII": [(0x20, 0x7E)],
    "Latin": [(0x20, 0x7E), (0xA0, 0x24F), (0x1E00, 0x1EFF), (0x300, 0x362)],
    "phonetic": [(0x61, 0x7A), (0x250, 0x2FF)],
    "Greek": [(0x20, 0x20), (0x370, 0x3FF), (0x1F00, 0x1FFF)],
    "Cyrillic": [(0x20, 0x20), (0x400, 0x52F)],
    "signs": [(0x20, 0x7E), (0x2000, 0x20FF)],
    "Korean": [(0x20, 0x20), (0xAC00, 0xAD00)],
    "Arabic": [(0x20, 0x20), (0x61, 0x7A), (0x620, 0x64A)],
}
BETWEEN = [" ", " ", " ", "-", ".", ",", "'", "_", ":", "/", "@", " 12 ", "3.5", "1,000", "\u2019"]
ENDINGS = {
    "English": [
        "s",
        "es",
        "ed",
        "ing",
        "ings",
        "ly",
        "est",
        "ational",
        "fulness",
        "ments",
        "ied",
        "y",
        "ously",
        "ible",
        "ization",
        "'s",
    ],
    "German": [
        "en",
        "er",
        "ern",
        "es",
        "e",
        "ung",
        "ungen",
        "heit",
        "keit",
        "lich",
        "ig",
        "isch",
        "end",
        "ß",
        "ös",
    ],
    "French": [
        "s",
        "es",
        "ée",
        "ées",
        "ement",
        "issement",
        "eux",
        "euse",
        "atrice",
        "ation",
        "é",
        "è",
        "amment",
    ],
    "Turkish": [
        "lar",
        "ler",
        "\u0131n",
        "in",
        "\u0131",
        "i",
        "da",
        "dan",
        "\u0131ndan",
        "ğ\u0131",
        "ş\u0131",
        "çu",
        "imiz",
    ],
    "Russian": ["ами", "ями", "ов", "ев", "ий", "ость", "ости", "ировать", "ается", "ившись", "ё"],
    "Danish": ["erne", "ernes", "hed", "heden", "else", "løs", "øst", "æt", "å"],
}


def drawn(rng, alphabet, endings=("",)):
    """A text of words and what stands between them."""
    letters = [one for one in alphabet if one.isalpha()]

    def word():
        n = rng.randrange(1, 6)
        picked = (rng.choice(letters if rng.random() < 0.85 else alphabet) for _ in range(n))
        return "".join(picked) + rng.choice(endings)

    return word() + "".join(rng.choice(BETWEEN) + word() for _ in range(rng.randrange(8)))


def alphabet_of(name):
    return [
        chr(one)
        for first, last in ALPHABETS[name]
        for one in range(first, last + 1)
        if unicodedata.category(chr(one)) != "Cn"
    ]


async def assert_alike(texts, settings):
    """Ask for each of some of the texts: all scores are equal, so all words and lengths are."""
    texts = [*filter(are_sure, texts), "?!", " "]
    words = words_of(settings)
    engine = await lancedb.connect_async("memory://")
    table = await engine.create_table("t", pa.table({"text": texts, "n": range(len(texts))}))
    await table.create_index("text", config=settings.config())
    postings, all_of_them = Postings(map(words, texts)), np.ones(len(texts), bool)
    for text in [text for text in texts if words(text)][:40]:
        asked = table.query().nearest_to_text(MatchQuery(text, column="text")).limit(len(texts))
        found = {row["n"]: row["_score"] for row in await asked.select(["n", "_score"]).to_list()}
        bm25 = postings.bm25(words(text), all_of_them)
        mine = {int(n): float(bm25[n]) for n in np.flatnonzero(bm25)}
        assert found == pytest.approx(mine, rel=1e-5), text
    return len(texts)


@pytest.mark.parametrize("tokenizer", ["icu/split", pytest.param("simple", marks=pytest.mark.slow)])
@pytest.mark.parametrize("script", ALPHABETS)
async def test_texts_are_cut_as_the_engine_cuts_them(script, tokenizer):
    rng, alphabet = random.Random(script), alphabet_of(script)
    for prepared in (index_words, str):  # as we write texts, and as somebody's own composer may
        texts = [prepared(drawn(rng, alphabet)) for _ in range(300)]
        n_compared = await assert_alike(texts, TextIndex(tokenizer=tokenizer, stem=False))
        assert n_compared > 100


@pytest.mark.parametrize("language", ENDINGS)
async def test_words_are_stemmed_as_the_engine_stems_them(language):
    rng = random.Random(language)
    letters = "".join(ENDINGS[language]).replace("'", "")
    alphabet = letters + ("бгкмнптш" if language == "Russian" else "bcdgklmnoprtuv")
    texts = [drawn(rng, alphabet, ENDINGS[language]) for _ in range(300)]
    await assert_alike(texts, TextIndex(language=language))


async def test_texts_without_words_count_in_no_statistics():
    await assert_alike(["red kite", "blue", "...", "", "kite"], TextIndex())


async def test_letters_are_folded_as_the_engine_folds_them():
    alphabet = [one for one in alphabet_of("Latin") if one.isalpha()]
    texts = [f"x{one}x {one}" for one in alphabet]
    plain = [f"x{''.join(pair)}x" for pair in zip("aeiouaeo", "      ee", strict=True)]
    settings = TextIndex(stem=False)
    await assert_alike([*plain, *texts], settings)
    assert words_of(settings)("Łódź, Bjørn, Þór, Æsir, \u0131l\u0131k") == [
        "lodz",
        "bjorn",
        "thor",
        "aesir",
        "ilik",
    ]


@pytest.mark.parametrize(
    "text", ["我们搬到了上海", "เราย้ายบ้าน", "x\u0363x", "10²", "שלום", "हिन्दी", "🎉"]
)
def test_what_may_be_cut_otherwise_is_left_to_the_engine(text):
    assert not are_sure(text)
