"""HTML: what is shown is read, apart where it is shown apart, and nothing else."""

import pytest

from lance_context_core.documents import HtmlReader


def text(page):
    return HtmlReader().read(page.encode(), name="a.html").text


SHOWN = {
    "paragraphs in a cell": ("<table><tr><td><p>one</p><p>two</p><td>x</table>", "one two | x"),
    "a list in a cell": ("<table><tr><td><ul><li>a</li><li>b</li></ul></table>", "a b"),
    "a break in a cell": ("<table><tr><td>a<br>b<td>c</table>", "a b | c"),
    "choices": ("<select><option>One</option><option>Two</select>", "One\n\nTwo"),
    "buttons": ("<p><button>Yes</button><button>No</button></p>", "Yes No"),
    "an object that never ends": ("<p>a</p><object data=x><p>b</p>", "a\n\nb"),
    "a drawing that never ends": ("<p>a</p><svg><path><p>b</p>", "a\n\nb"),
    "an equation": (
        "<math><mi>E</mi><mo>=</mo><mfrac><mn>1</mn><mn>2</mn></mfrac><annotation>E</annotation></math>",
        "E = 1 2",
    ),
    "the text of a picture": ("<p>Look: <img src=x alt='A &amp; B'>.</p>", "Look: [A & B] ."),
    "the empty text of a picture": ('<p>Look<img alt=""></p>', "Look"),
    "a mark of a heading": (
        "<h2>Install<a class=headerlink href=#i>¶</a></h2><p>x</p>",
        "Install\n\nx",
    ),
}
HIDDEN = {
    "a paragraph": "<p hidden>gone</p>",
    "one that does not end": "<p class='a' hidden><p>b</p>",
    "all within": "<div hidden><div>gone</div>gone<p>gone</p></div>",
    "by its style": '<div style="color: red; display:none">gone</div>',
    "an item": "<ul><li hidden>gone<ul><li>gone</ul></ul>",
    "an item that does not end": "<ul><li hidden>gone<li>b</ul>",
    "a cell": "<table><tr><td hidden>gone</table>",
}


@pytest.mark.parametrize("kind", SHOWN)
def test_what_is_shown_apart_is_read_apart(kind):
    page, said = SHOWN[kind]
    assert text(page) == said


@pytest.mark.parametrize("kind", HIDDEN)
def test_what_is_hidden_is_not_read_and_what_follows_is(kind):
    said = text(f"<p>a</p>{HIDDEN[kind]}<p>c</p>")
    assert "gone" not in said
    assert said.startswith("a")
    assert said.endswith("c")
    assert ("b" in said) == ("b</" in HIDDEN[kind])


@pytest.mark.parametrize(
    "shown",
    [
        "<p data-hidden=1>a</p>",
        "<p class=hidden>a</p>",
        "<p class='a hidden b'>a</p>",
        "<input hidden>a",
        "<body hidden>a",
    ],
)
def test_what_only_sounds_hidden_is_read(shown):
    assert text(shown) == "a"


AROUND = {
    "navigation": "<nav><ul><li><a href=/>Home</a></ul></nav>",
    "by its role": "<div role=navigation><div>Home</div><p>Next</p></div>",
    "a search form": "<form role='Search'><input><button>Home</button></form>",
    "one that does not end": "<nav><a href=/>Home</a><article>",
}


@pytest.mark.parametrize("kind", AROUND)
def test_what_leads_to_other_pages_is_read_where_it_is_asked_for(kind):
    page = f"<body>{AROUND[kind]}<h1>Tea</h1><p>Green.</p>"
    assert text(page) == "Tea\n\nGreen."
    assert "Home" in HtmlReader(boilerplate=True).read(page.encode(), name="a.html").text


@pytest.mark.parametrize("shown", ["<nav><p>a</p></nav>", "<nav>a<nav>", "<p role=note>a</p>"])
def test_a_page_that_only_leads_to_others_is_read_whole(shown):
    assert text(shown) == "a"
