"""Office documents as packages: zip files of XML parts that name each other."""

import io
import posixpath
import zipfile
from collections.abc import Callable, Iterator
from typing import NamedTuple
from xml.etree.ElementTree import Element, fromstring

from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.documents.reading import ReadDocument
from lance_context_core.errors import InvalidRequestError, UnreadableDocumentError

# Names of elements and attributes are asked for without their namespaces, of which there are two of each:
# those of the strict standard, and those of Office.


def local(name: str) -> str:
    """A name without its namespace."""
    return name.rpartition("}")[2]


def value(one: Element | None, name: str) -> str | None:
    """The attribute of that local name."""
    if one is None:
        return None
    return next((said for key, said in one.attrib.items() if local(key) == name), None)


def child(one: Element | None, *path: str) -> Element | None:
    """The first child of that local name, and so on."""
    for name in path:
        if one is None:
            return None
        one = next((kid for kid in one if local(kid.tag) == name), None)
    return one


def each(one: Element, *names: str) -> Iterator[Element]:
    """All below it that have one of the local names, in order."""
    return (kid for kid in one.iter() if isinstance(kid.tag, str) and local(kid.tag) in names)


def drop_alternatives(root: Element) -> None:
    """Leave what is shown of each thing that is there in several ways."""
    for one in [*each(root, "AlternateContent")]:
        kept = chosen(one)
        for other in [*one]:
            if kept is not one and other is not kept:
                one.remove(other)


def chosen(one: Element) -> Element:
    """What is shown of something that is there in several ways."""
    found = child(one, "Choice")
    found = child(one, "Fallback") if found is None or not len(found) else found
    return one if found is None else found


def within(above: Element, *names: str) -> Iterator[Element]:
    """Those of the local names below it, in order, but none that is below another one."""
    ways: list[Iterator[Element]] = [iter(above)]
    while ways:
        if (one := next(ways[-1], None)) is None:
            ways.pop()
        elif isinstance(one.tag, str) and local(one.tag) in names:
            yield one
        else:
            ways.append(iter(one))


class Relation(NamedTuple):
    """What a part names."""

    type: str
    """The last word of it, such as `footnotes`."""
    target: str
    is_outside: bool


class Package:
    """The parts of a file, once all of them have been unpacked to see how much there is."""

    def __init__(self, content: bytes, *, name: str, max_unpacked_bytes: int, reader: str) -> None:
        """Nothing of it is kept. Raises UnreadableDocumentError for more than so many bytes."""
        self._packed = zipfile.ZipFile(io.BytesIO(content))
        left = max_unpacked_bytes
        for one in self._packed.infolist():
            with self._packed.open(one) as part:
                while piece := part.read(1 << 20):
                    left -= len(piece)
                    if left < 0:
                        raise UnreadableDocumentError(
                            f"{name!r} unpacks to more than max_unpacked_bytes="
                            f"{max_unpacked_bytes}: pass reader={reader}(max_unpacked_bytes=…)"
                        )
        self.names = frozenset(self._packed.namelist())

    def bytes(self, part: str) -> bytes:
        """What is in a part. Raises KeyError if there is none of that name."""
        return self._packed.read(part)

    def xml(self, part: str) -> Element:
        """The root of a part. Raises ValueError for one that declares entities: none has to."""
        content = self.bytes(part)
        if any("<!ENTITY".encode(one) in content for one in ("utf-8", "utf-16-le", "utf-16-be")):
            raise ValueError(f"{part} declares entities")
        return fromstring(content)  # noqa: S314 - see above

    def related(self, part: str = "") -> dict[str, Relation]:
        """What a part names, or the file itself, by id."""
        folder, _, last = part.rpartition("/")
        rels = posixpath.join(folder, "_rels", f"{last}.rels")
        if rels not in self.names:
            return {}
        found = {}
        for one in self.xml(rels):
            target, is_outside = one.get("Target", ""), one.get("TargetMode") == "External"
            if not is_outside:
                at = target if target.startswith("/") else posixpath.join(folder, target)
                target = posixpath.normpath(at).lstrip("/")
            type = one.get("Type", "").rpartition("/")[2]
            found[one.get("Id", "")] = Relation(type, target, is_outside)
        return found

    def main(self) -> str:
        """The part that the document is. Raises KeyError if there is none."""
        found = (one for one in self.related().values() if one.type == "officeDocument")
        if (one := next(found, None)) is None:
            raise KeyError("it names no document")
        return one.target

    def about(self) -> dict[str, str]:
        """What the file says of itself: see `described`."""
        found = (one.target for one in self.related().values() if one.type == "core-properties")
        part = next(found, None)
        return described(self.xml(part)) if part in self.names and part is not None else {}


def said_in(package: Package, drawing: Relation | None) -> str:
    """What a chart or a diagram says, which are parts of their own; each text once."""
    if drawing is None or drawing.is_outside or drawing.target not in package.names:
        return ""
    texts = ((one.text or "").strip() for one in each(package.xml(drawing.target), "t", "v"))
    return ", ".join(dict.fromkeys(filter(None, texts)))


@frozen_by_name
class Packed:
    """Reads what is packed."""

    max_unpacked_bytes: int = 500_000_000
    """Of all that is packed in the file; it may say that there is less, and is not believed."""


def of_package(
    content: bytes, name: str, reader: Packed, read: Callable[[Package], ReadDocument]
) -> ReadDocument:
    """What is read of the parts. Raises UnreadableDocumentError for anything that is broken."""
    most = reader.max_unpacked_bytes
    try:
        kind = type(reader).__name__
        return read(Package(content, name=name, max_unpacked_bytes=most, reader=kind))
    except InvalidRequestError:
        raise
    # Broken XML, parts that are not there, values out of range, what is nested without an end.
    except Exception as error:
        raise UnreadableDocumentError(
            f"{name!r} cannot be read, it is broken or not all there: {error}"
        ) from error


def described(above: Element) -> dict[str, str]:
    """The title, the author and the subject that stand below an element; the first of each."""
    said: dict[str, str] = {}
    for one in each(above, "title", "creator", "subject"):
        if text := (one.text or "").strip():
            said.setdefault("author" if local(one.tag) == "creator" else local(one.tag), text)
    return said
