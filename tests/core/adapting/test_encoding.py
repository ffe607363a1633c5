"""Texts that UTF-8 cannot hold are replaced, wherever they stand, and all else stays what it was."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from lance_context_core.adapting import encodable

texts = st.text(st.sampled_from(["a", "ä", "🍵", "\ud83d", "\udf75"]), max_size=4)
anything = st.recursive(
    texts | st.integers() | st.none(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(texts, inner, max_size=3)
    ),
    max_leaves=8,
)


@given(anything)
def test_what_comes_out_is_what_python_writes_as_utf_8(value):
    assert repr(encodable(value)) == repr(_written(value))


@given(anything)
def test_what_can_be_encoded_is_handed_back_itself(value):
    clean = encodable(value)
    assert encodable(clean) is clean


def _written(value):
    """The same by an encoder that replaces, text by text."""
    if isinstance(value, str):
        return bytes(value, "utf-8", "replace").decode("utf-8")
    if isinstance(value, dict):
        return {_written(key): _written(one) for key, one in value.items()}
    return type(value)(map(_written, value)) if isinstance(value, list | tuple) else value


@dataclass
class Model:
    """As Pydantic's models are: they list their fields, and are copied with others."""

    text: object
    other: int = 1

    def __iter__(self):
        return iter(vars(self).items())

    def model_copy(self, *, update):
        return type(self)(**{**vars(self), **update})


def test_a_model_is_copied_only_where_something_is_replaced():
    model = Model(["a"])
    assert encodable(model) is model
    assert encodable([Model(["a\ud83d"])]) == [Model(["a?"])]
    assert encodable(Model) is Model


def test_what_is_nested_too_deep_is_left_to_who_refuses_it():
    deep = []
    deep.append(deep)
    assert encodable(deep) is deep
