"""A text is read in the encoding that it is in, and what is broken in it spoils nothing else."""

import pytest

from lance_context_core.documents import CsvReader, HtmlReader, TextReader
from lance_context_core.errors import UnreadableDocumentError

RUSSIAN = "Привет, как дела? Всё хорошо, спасибо."
TEXTS = [
    *((RUSSIAN, encoding) for encoding in ("cp1251", "koi8-r", "cp866", "iso8859-5")),
    ("Καλημέρα, τι κάνεις; Όλα καλά, ευχαριστώ πολύ.", "cp1253"),
    ("お茶は四時です。どうぞよろしく。", "cp932"),
    ("お茶は四時です。どうぞよろしく。", "euc_jp"),
    ("id,name\n1,髙橋一郎\n2,佐藤花子\n", "cp932"),
    ("今天下午四点我们一起喝茶，你来吗？", "gb18030"),  # noqa: RUF001
    ("今天下午四點我們一起喝茶，你來嗎？", "big5hkscs"),  # noqa: RUF001
    ("오후 네 시에 같이 차를 마셔요.", "cp949"),
    ("Größe: 3 €, naïve café, ÄRGER ÜBER ALLES, “smart”", "cp1252"),
    ("L'été à Orléans, où la forêt brûle; ça ira mieux dès demain, Éric.", "cp1252"),
    ("Das Mädchen läßt die Öfen fürs Frühstück glühen. Ärzte, Äpfel, Öl, Übel.", "cp1252"),
]


@pytest.mark.parametrize(("text", "encoding"), TEXTS)
def test_a_text_without_a_mark_is_read_in_the_encoding_in_which_it_makes_words(text, encoding):
    assert TextReader().read(text.encode(encoding), name="a.txt").text == text


@pytest.mark.parametrize(
    ("content", "text"),
    [
        pytest.param(
            "お茶は四時です。".encode() * 9 + b"\xff.",
            "お茶は四時です。" * 9 + "\ufffd.",
            id="a byte",
        ),
        pytest.param(("é" * 50).encode()[:-1], "é" * 49 + "\ufffd", id="an end in a letter"),
        pytest.param(
            b"\xff\xfe" + "tea".encode("utf-16-le") + b"x", "tea\ufffd", id="half a letter"
        ),
        pytest.param(b"\xef\xbb\xbftea\xff", "tea\ufffd", id="behind a mark"),
        pytest.param(b"green tea " * 20 + b"\0.", "green tea " * 20 + "\ufffd.", id="a zero"),
    ],
)
def test_what_is_broken_in_a_text_spoils_one_character(content, text):
    assert TextReader().read(content, name="a.txt").text == text


def test_an_encoding_that_is_given_is_not_guessed_at():
    with pytest.raises(UnreadableDocumentError, match="is not in utf-8"):
        TextReader(encoding="utf-8").read(b"tea\xff", name="a.txt")


@pytest.mark.parametrize(
    ("said", "real", "text"),
    [
        ("gb2312", "gbk", "镕基"),
        ("shift_jis", "cp932", "①髙橋"),
        ("euc-kr", "cp949", "똠방"),
        ("iso-8859-1", "cp1252", "“smart”"),
        ("us-ascii", "cp1252", "é"),
        ("iso-8859-9", "cp1254", "ığ"),
    ],
)
def test_a_page_is_read_in_what_browsers_take_for_the_encoding_that_it_names(said, real, text):
    page = f"<meta charset={said}><p>{text}</p>".encode(real)
    assert HtmlReader().read(page, name="a.html").text == text
    page = f'<?xml version="1.0" encoding="{said}"?><p>{text}</p>'.encode(real)
    assert HtmlReader().read(page, name="a.xhtml").text == text


def test_the_mark_of_a_page_goes_before_what_it_says():
    page = b"\xef\xbb\xbf" + "<meta charset=iso-8859-1><p>café</p>".encode()
    assert HtmlReader().read(page, name="a.html").text == "café"


@pytest.mark.parametrize(
    ("text", "columns", "row"),
    [
        (
            "Name;Preis, netto\nTee;3,50\n",
            ["Name", "Preis, netto"],
            "Name: Tee; Preis, netto: 3,50",
        ),
        ('"Name, a";"b, c"\n"Ada";36\n', ["Name, a", "b, c"], "Name, a: Ada; b, c: 36"),
        ("sep=;\nname;price\ntea;3\n", ["name", "price"], "name: tea; price: 3"),
        ("a,b\n1," + "x" * 200_000, ["a", "b"], "a: 1; b: " + "x" * 200_000),
        ('a,b\n"1 ""and"" 2","x\n,y"\n', ["a", "b"], 'a: 1 "and" 2; b: x ,y'),
        ('a,b\n1" wide,"never ends', ["a", "b"], 'a: 1" wide; b: "never ends'),
        ("a\tb\r\n1, 2\t3\r\n", ["a", "b"], "a: 1, 2; b: 3"),
    ],
)
def test_a_table_is_cut_where_its_columns_are(text, columns, row):
    read = CsvReader().read(text.encode(), name="a.csv")
    assert (read.properties["columns"], read.text) == (columns, row)
