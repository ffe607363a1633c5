"""The pages of a PDF one after the other, of which pypdf itself makes a list of all."""

from collections.abc import Iterator
from typing import Any, NamedTuple

_KEPT_OBJECTS = 500
"""Of those that were read; one page is rarely made of as many."""
_MOST_DEPTH = 100
_INHERITED = ("/Resources", "/MediaBox", "/CropBox", "/Rotate")


class _Node(NamedTuple):
    """A branch of the tree that is being walked."""

    reference: Any
    kids: Iterator[Any]
    inherited: dict[Any, Any]


class Pages:
    """The pages of a `pypdf.PdfReader`; what it keeps of those that are done is let go of."""

    def __init__(self, reader: Any, *, most_entries: int) -> None:
        """They are the leaves of a tree of at most so many: a node may be in it many times, in a small file."""
        self._reader = reader
        self._most_entries = most_entries

    def __iter__(self) -> Iterator[Any]:
        """A `pypdf.PageObject` each. Raises anything where the tree is none, has a circle, or is too large."""
        from pypdf import PageObject

        way = [self._entered(self._reader.root_object.raw_get("/Pages"), {})]
        n_entries = 0
        while way:
            if (kid := next(way[-1].kids, None)) is None:
                way.pop()
                continue
            n_entries += 1
            if n_entries > self._most_entries or len(way) > _MOST_DEPTH:
                raise ValueError("the tree of its pages is too large or too deep")
            if len(self._reader.resolved_objects) > _KEPT_OBJECTS:
                self._reader.resolved_objects.clear()
            node = kid.get_object()
            if not hasattr(node, "raw_get") or not node:
                continue  # of a broken file
            reference, type = _reference(kid), node.get("/Type")
            if type == "/Pages" or (type is None and "/Kids" in node):
                if reference is not None and any(one.reference == reference for one in way):
                    raise ValueError("its pages hold each other")
                way.append(self._entered(kid, way[-1].inherited))
                continue
            if type not in {"/Page", None}:
                continue
            page = PageObject(self._reader, None if reference is None else kid)
            page.update(node)
            for name, value in way[-1].inherited.items():
                page.setdefault(name, value)
            yield page

    def _entered(self, kid: Any, inherited: dict[Any, Any]) -> _Node:
        from pypdf.generic import NameObject

        node = kid.get_object()
        own = {NameObject(name): node.raw_get(name) for name in _INHERITED if name in node}
        return _Node(_reference(kid), iter(node.get("/Kids", [])), {**inherited, **own})


def _reference(kid: Any) -> tuple[int, int] | None:
    """Which object it is; None where it stands there itself."""
    number = getattr(kid, "idnum", None)
    return None if number is None else (number, kid.generation)
