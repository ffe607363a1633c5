"""What templates are filled in with, and what they must not see."""

import builtins

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_context_core import ContextStore
from lance_context_core.coordination import templates
from lance_context_core.coordination.templates import braced, rendered, variables_of
from lance_context_core.errors import InvalidRequestError, MissingExtraError

NAMES = st.sampled_from(["a", "b_1", "Name"])
PIECES = st.lists(
    st.tuples(
        st.text("{}a \n%"),
        NAMES.map(lambda name: f"{{{{{name}}}}}") | st.sampled_from(["", "{{'{{'}}", '{{ "}}" }}']),
    )
)
VALUES = (
    st.text("{}ab_1 ")
    | st.integers(-9, 10**12)
    | st.sampled_from(["{{a}}", "{{b_1}}", "{0}", "\\1"])
)


@given(PIECES, st.fixed_dictionaries({"a": VALUES, "b_1": VALUES, "Name": VALUES}))
def test_what_values_hold_is_never_filled_in_itself(pieces, values):
    text = "".join(part for pair in pieces for part in pair)
    plain = rendered(text, "plain", values, what="it")
    # Another way to one pass: the text between the places is taken literally by str.format.
    assert plain == braced(text).format(**values)


def test_the_variables_of_a_text_are_told_once_each_and_in_order():
    assert variables_of("{{b}} {{ a }} {{b}} {{1}} {{a.b}} {c}", "plain") == ("a", "b")
    assert variables_of("{% for x in xs %}{{ x.name }}{{ y }}{% endfor %}", "jinja") == ("xs", "y")


@pytest.mark.parametrize("syntax", ["plain", "jinja"])
def test_braces_themselves_are_written_as_in_jinja(syntax):
    text = """Answer {{'{{'}}name{{ "}}" }} for {{ a }}, {b}."""
    assert rendered(text, syntax, {"a": "{{x}}"}, what="it") == "Answer {{name}} for {{x}}, {b}."
    assert variables_of(text, syntax) == ("a",)


@pytest.mark.parametrize("name", ["a.b", "user-name", "1", "", "a | upper", "größe"])
def test_a_name_that_no_value_can_have_is_refused_before_anything_is_kept(name):
    with ContextStore.open("memory://") as store:
        with pytest.raises(InvalidRequestError, match="which cannot be filled in: a name is made"):
            store.templates.save("review", f"Review {{{{{name}}}}}, {{{{path}}}}.")
        assert store.templates.list() == []
        store.templates.save("review", "Review {{ path }}, {x}, {{'{{'}}a.b{{'}}'}}.")
        text = store.templates.render("review", {"path": "a.py"})
        assert text == "Review a.py, {x}, {{a.b}}."


def test_jinja_has_loops_conditions_and_filters():
    text = "{% for one in mails if one.unread %}- {{ one.title | upper }}\n{% endfor %}"
    mails = [{"title": "a", "unread": True}, {"title": "b", "unread": False}]
    assert rendered(text, "jinja", {"mails": mails}, what="it") == "- A\n"
    assert rendered("{{ x }}\n", "jinja", {"x": "{{ y }}"}, what="it") == "{{ y }}\n"


@pytest.mark.parametrize(
    "text",
    [
        "{{ x.__class__ }}",
        "{{ x['__class__'] }}",
        "{{ x | attr('__class__') }}",
        "{{ ''.__class__.__mro__ }}",
        "{{ x.format.__globals__ }}",
        "{{ '{0.__class__}'.format(x) }}",
        "{{ cycler.__init__.__globals__ }}",
        "{% set _ = xs.append(1) %}",
        "{{ 'a' * 100000000 }}",
        "{{ xs * 100000000 }}",
        "{{ '%1000000000d' % 1 }}",
        "{{ 9 ** 999 }}",
        "{% for n in range(10 ** 9) %}{% endfor %}",
        "{{ missing }}",
        "{{ x.missing.more }}",
        "{{ 1 / 0 }}",
        "{% if %}",
        "{{ x",
        "{% include 'other' %}",
        "{% extends 'other' %}",
    ],
)
def test_what_a_template_must_not_see_or_do_is_refused(text):
    with pytest.raises(InvalidRequestError, match=r"cannot be filled in|refers to another"):
        rendered(text, "jinja", {"x": "x", "xs": [1]}, what="it")


@pytest.mark.parametrize("value", [None, True, [1], {"a": 1}], ids=repr)
def test_a_plain_template_takes_texts_and_numbers(value):
    with pytest.raises(InvalidRequestError, match="texts and numbers"):
        rendered("{{a}}", "plain", {"a": value}, what="it")


def test_without_jinja_its_templates_are_refused_by_the_command_that_installs_it(monkeypatch):
    real = builtins.__import__

    def refuse(name, *arguments, **more):
        if name.startswith("jinja2"):
            raise ImportError(name)
        return real(name, *arguments, **more)

    monkeypatch.setattr(builtins, "__import__", refuse)
    templates._jinja.cache_clear()
    with pytest.raises(MissingExtraError, match=r"lance-context-core\[templates\]"):
        variables_of("{{ a }}", "jinja")
    assert rendered("{{a}}", "plain", {"a": 1}, what="it") == "1"


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"name": ""}, "name is empty"),
        ({"name": "a\0"}, "NUL"),
        ({"text": "  "}, "text is blank"),
        ({"text": 7}, "text must be a str"),
        ({"syntax": "mustache"}, "syntax='mustache': use one of plain, jinja"),
        ({"tags": "abc"}, "pass a list"),
        ({"category": ""}, "category is empty"),
        ({"syntax": "jinja", "text": "{% if %}"}, "line 1"),
    ],
    ids=lambda value: value if isinstance(value, str) else next(iter(value)),
)
async def test_a_wrong_template_is_refused_and_nothing_is_written(store, request_, message):
    with pytest.raises(InvalidRequestError, match=message):
        await store.templates.save(**{"name": "n", "text": "t", **request_})
    assert await store.templates.list() == []
    with pytest.raises(InvalidRequestError, match="query is blank"):
        await store.templates.search(" ")


async def test_names_may_hold_quotes_and_any_letters(store):
    for name in ("it's", 'a "b"', "ä\n", "%_;--", "../x"):
        await store.templates.save(name, "{{a}}")
        assert await store.templates.render(name, {"a": name}) == name
    with pytest.raises(InvalidRequestError, match="only a plain one"):
        (await store.templates.save("j", "{{ a }}", syntax="jinja")).as_format()
