"""Equations of Office as a line of text: `(a + b)/(2 a)`, `x^2`, `√(y)`."""

from collections.abc import Iterable
from xml.etree.ElementTree import Element

from lance_context_core.documents.readers.packages import child, local, value

_MOST_DEPTH = 100


def linear(one: Element | None, depth: int = 0) -> str:
    """An element of an equation, in a line."""
    if one is None or depth > _MOST_DEPTH or not isinstance(one.tag, str):
        return ""

    def part(name: str) -> str:
        return linear(child(one, name), depth + 1)

    def grouped(name: str) -> str:
        text = part(name)
        return text if len(text) < 2 or text.isalnum() else f"({text})"

    def all_of(kids: Iterable[Element], between: str) -> str:
        return between.join(filter(None, (linear(kid, depth + 1) for kid in kids)))

    name = local(one.tag)
    if name == "t":
        return one.text or ""
    if name.endswith("Pr"):
        return ""
    if name == "f":
        return f"{grouped('num')}/{grouped('den')}"
    if name in {"sSup", "sSub", "sSubSup", "sPre"}:
        below, over = part("sub"), part("sup")
        marks = (f"_{grouped('sub')}" if below else "") + (f"^{grouped('sup')}" if over else "")
        return f"{grouped('e')}{marks}"
    if name == "rad":
        degree = part("deg")
        return f"{degree}√({part('e')})"
    if name == "nary":
        sign = value(child(one, "naryPr", "chr"), "val") or "∫"
        below, over = part("sub"), part("sup")
        marks = (f"_({below})" if below else "") + (f"^({over})" if over else "")
        return f"{sign}{marks} {part('e')}"
    if name == "d":
        begin = value(child(one, "dPr", "begChr"), "val")
        end = value(child(one, "dPr", "endChr"), "val")
        kids = [kid for kid in one if isinstance(kid.tag, str) and local(kid.tag) == "e"]
        return f"{'(' if begin is None else begin}{all_of(kids, '|')}{')' if end is None else end}"
    if name == "func":
        return f"{part('fName')} {part('e')}"
    if name in {"m", "eqArr", "oMathPara"}:
        return all_of(one, "; ")
    if name == "mr":
        return all_of(one, ", ")
    return all_of(one, "")
