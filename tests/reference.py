"""Writes the pages under `docs/reference` from the docstrings: `python tests/reference.py`.

One page a public module; a name that several modules have is described in the first of `MODULES`
that has it, and the others point there. Nothing is imported: griffe reads the sources.
"""

import re
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from unittest.mock import patch

import griffe

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs" / "reference"
PACKAGE = "lance_context_core"
BESIDE = ("lance_context_anthropic", "lance_context_opentelemetry", "lance_context_testing")
"""Packages under `packages` with public names, each a distribution."""
OURS = (PACKAGE, *BESIDE)
COMMAND = "python tests/reference.py"
TOP = ""
MODULES = (
    *(
        "settings",
        "results",
        "errors",
        "messages",
        "filters",
        "embedders",
        "rerankers",
        "engines",
        "models",
    ),
    *("documents", "media", "graph", "knowledge", "tiers", "window", "coordination", "protocols"),
    "fleet",
    *(*BESIDE[:2], "adapting", BESIDE[2], "arguments", TOP),
)
SHOWN = (TOP, *MODULES[:2], "arguments", *MODULES[2:-2])
"""The modules in the order in which one wants to read about them."""

WIDTH = 88
_KW_ONLY = {
    f"{PACKAGE}._util.frozen.{how}": how == "frozen_by_name" for how in ("frozen", "frozen_by_name")
}
_MAGIC = re.compile(r"__\w+__")
_GROUP_OR_NAME = re.compile(r'^    (?:# (?P<group>.+)|"(?P<name>\w+)",)$', re.MULTILINE)
_ELSEWHERE = re.compile(r"\s*See `(?P<asynchronous>Async\w+\.\w+)`\.$")
_OVER = {f"{PACKAGE}.sync._blocking.{how}" for how in ("giving", "showing")}
_MADE = _OVER | {
    f"{PACKAGE}.sync._blocking.{how}" for how in ("blocking", "field", "handing", "iterating")
}
_WORD = r"(?P<bare>\b[A-Z][a-z]+(?:[A-Z][a-z]+)+\b)"
_MODULE = re.compile(rf"^(?:{PACKAGE}\.)?(?:(?:{'|'.join(MODULES[:-1])})\.)?")
_LINKED = re.compile(rf"(?P<code>`+)(?P<inside>[^`]+)(?P=code)|{_WORD}")


@dataclass(frozen=True, slots=True)
class Name:
    """A public name, and where it is described."""

    name: str
    module: str
    object: griffe.Object

    @property
    def link(self) -> str:
        return f"{page_of(self.module)}#{self.name.lower()}"


# What is public


@cache
def sources() -> griffe.ModulesCollection:
    """All of ours, by the path of each object."""
    homes = [ROOT, *(ROOT / "packages" / one.replace("_", "-") for one in BESIDE)]
    extensions = griffe.load_extensions(Values())
    loader = griffe.GriffeLoader(search_paths=homes, extensions=extensions)
    # It asks git in a process where each comes from, which no page says.
    with patch.object(griffe.GitInfo, "from_package", lambda _: None):
        for one in OURS:
            loader.load(one)
    loader.resolve_aliases()
    return loader.modules_collection


class Values(griffe.Extension):
    """Has griffe read our decorators of values as the one of `dataclasses` that they apply."""

    def on_class_instance(self, *, cls: griffe.Class, **_: object) -> None:
        for decorator in cls.decorators:
            path = (
                decorator.value.canonical_path if isinstance(decorator.value, griffe.Expr) else ""
            )
            if path in _KW_ONLY:
                applied = griffe.ExprName("dataclasses.dataclass")
                kw_only = griffe.ExprKeyword("kw_only", str(_KW_ONLY[path]), applied)
                decorator.value = griffe.ExprCall(applied, [kw_only])
                cls.labels |= {"dataclass"}


def module(name: str) -> griffe.Module:
    found = sources()[path_of(name)]
    assert isinstance(found, griffe.Module)
    return found


def groups(name: str) -> dict[str, list[str]]:
    """The names of a module's `__all__` under the comments that stand between them, in its order."""
    source = Path(str(module(name).filepath)).read_text(encoding="utf-8")
    listed = source.split("__all__ = [", 1)[1].split("\n]", 1)[0]
    found: dict[str, list[str]] = {}
    group = ""
    for match in _GROUP_OR_NAME.finditer(listed):
        group = match["group"] or group
        if match["name"]:
            found.setdefault(group, []).append(match["name"])
    assert [one for names in found.values() for one in names] == module(name).exports
    return found


@cache
def names() -> dict[str, Name]:
    """Every public object once, by the path at which it is defined."""
    found: dict[str, Name] = {}
    for where in MODULES:
        for name in module(where).exports or ():
            one = target(module(where)[str(name)])
            found.setdefault(one.canonical_path, Name(str(name), where, one))
    return found


@cache
def by_name() -> dict[str, Name]:
    return {one.name: one for one in names().values()}


def target(one: griffe.Object | griffe.Alias) -> griffe.Object:
    return one.final_target if isinstance(one, griffe.Alias) else one


def members(one: griffe.Object) -> dict[str, griffe.Object]:
    """The public members of a class, those of its private bases too, in the order of the source."""
    if not isinstance(one, griffe.Class):
        return {}
    own = {name: stated(target(member)) for name, member in one.members.items()}
    return {n: m for n, m in (own | inherited(one) | own).items() if is_shown(n, m)}


def inherited(one: griffe.Class) -> dict[str, griffe.Object]:
    """What a class has from its private bases, of the nearest first."""
    found: dict[str, griffe.Object] = {}
    for base in private_bases(one):
        further = {n: m for n, m in base.members.items() if n not in found}
        found |= {name: stated(target(member)) for name, member in further.items()}
    return found


def stated(member: griffe.Object) -> griffe.Object:
    """A method of a blocking object, where it is made of the asynchronous one; else the member."""
    value = getattr(member, "value", None)
    if not isinstance(value, griffe.ExprCall) or value.canonical_path not in _MADE:
        return member
    owner, name = str(value.arguments[0].canonical_path).rsplit(".", 1)
    method = target(sources()[owner])
    method = copy({**inherited(method), **method.members}[name])
    method.labels = method.labels - {"async"}
    if value.canonical_path in _OVER:
        setattr(method, "returns" if method.is_function else "annotation", value.arguments[1])
        return method
    if method.is_function and str(method.returns).startswith("AsyncIterator"):
        method.returns = str(method.returns).removeprefix("Async")
    return method


def private_bases(one: griffe.Class) -> list[griffe.Class]:
    return [
        base
        for base in one.mro()
        if base.canonical_path.startswith(OURS) and base.canonical_path not in names()
    ]


def is_shown(name: str, member: griffe.Object) -> bool:
    """Whether a member is for users: no private one, no test, and of the magic ones what says something."""
    if _MAGIC.fullmatch(name):
        return bool(member.docstring) and name not in {"__init__", "__post_init__"}
    # Such as is set in `__init__` alone; what a class declares has a type.
    is_undeclared = member.is_attribute and not (
        member.annotation or "class-attribute" in member.labels
    )
    return not name.startswith(("_", "test_")) and not is_undeclared


def constructor(one: griffe.Object) -> griffe.Function | None:
    """How the class is called; None where nobody calls it, since something else makes it."""
    made = (
        {**inherited(one), **one.members}.get("__init__") if isinstance(one, griffe.Class) else None
    )
    if not isinstance(made, griffe.Function):
        return None
    says = made.docstring.value if made.docstring else ""
    private = any(parameter.name.startswith("_") for parameter in made.parameters)
    if private or says.startswith("Use `"):
        return None
    if any(str(by.value) == "own_first" for by in getattr(one, "decorators", ())):
        order = {name: n for n, name in enumerate(members(one))}
        made = copy(made)
        made.parameters = griffe.Parameters(
            *sorted(made.parameters, key=lambda given: order.get(given.name, -1))
        )
    return made


# What is wrong with it


def undocumented() -> list[str]:
    """The public names, methods and properties without a docstring."""
    found = []
    for one in names().values():
        found += [] if one.object.docstring else [one.name]
        found += [
            f"{one.name}.{name}"
            for name, member in members(one.object).items()
            if not member.docstring and (member.is_function or "property" in member.labels)
        ]
    return found


def unreachable() -> list[str]:
    """The types in public annotations that no public module has, and where they stand."""
    found = []
    for one in names().values():
        for where, annotation in annotations(one):
            for shown, path in paths(annotation):
                if path not in names() or names()[path].name != shown:
                    found.append(f"{where} says {shown}, which is {path}")
    return sorted(set(found))


def annotations(one: Name) -> Iterator[tuple[str, griffe.Expr | str | None]]:
    made = constructor(one.object)
    parts = [
        (one.name, one.object),
        *((f"{one.name}.{n}", m) for n, m in members(one.object).items()),
    ]
    for where, part in [*parts, *([(f"{one.name}()", made)] if made else [])]:
        if isinstance(part, griffe.Function):
            yield where, part.returns
            for parameter in part.parameters:
                yield where, parameter.annotation
        elif isinstance(part, griffe.Attribute):
            yield where, part.annotation
            if part is one.object and not one.name.isupper():
                yield where, part.value


def paths(annotation: griffe.Expr | str | None) -> Iterator[tuple[str, str]]:
    """The names in an annotation that are ours, and where they are defined; no type variables."""
    if not isinstance(annotation, griffe.Expr):
        return
    for part in annotation.iterate(flat=True):
        if isinstance(part, griffe.ExprName) and part.canonical_path.split(".")[0] in OURS:
            found = target(sources()[part.canonical_path])
            value = str(getattr(found, "value", ""))
            if not value.startswith(("TypeVar(", "ParamSpec(")):
                yield part.name, found.canonical_path


# The pages


def pages() -> dict[str, str]:
    """The text of each page by its name."""
    return {"index.md": index()} | {page_of(name): page(name) for name in MODULES}


def page_of(name: str) -> str:
    return f"{name or PACKAGE}.md"


def path_of(name: str) -> str:
    if name in BESIDE:
        return name
    return f"{PACKAGE}.{name}" if name else PACKAGE


def index() -> str:
    lines = [
        "# Reference",
        "",
        f"Every public module and name. The pages are made from the docstrings, by `{COMMAND}`.",
        "",
        "| module | what is in it |",
        "|---|---|",
    ]
    for name in SHOWN:
        says = cell(first_sentence(module(name)), at=name)
        listed = ", ".join(f"[{n}]({link_to(n, name)})" for n in module(name).exports or ())
        lines.append(f"| [`{path_of(name)}`]({page_of(name)}) | {says}<br>{listed} |")
    return "\n".join(lines) + "\n"


def link_to(name: str, where: str) -> str:
    return names()[target(module(where)[name]).canonical_path].link


def page(name: str) -> str:
    says = prose(docstring(module(name)), at=name)
    if name == TOP:
        says = re.sub(r"`(\w+)`", lambda m: f"[{m[0]}]({page_of(m[1])})", says)
    blocks = [f"# {path_of(name)}", says]
    for group, listed in groups(name).items():
        if group:
            blocks.append(f"## {group}")
        found = {one: names()[target(module(name)[one]).canonical_path] for one in listed}
        if pointers := [one for one in found.values() if one.module != name]:
            blocks.append(table(pointers, at=name))
        for one in found.values():
            if one.module == name:
                blocks += described(one)
    return "\n\n".join(block for block in blocks if block) + "\n"


def table(pointers: list[Name], *, at: str) -> str:
    rows = [
        f"| [{one.name}]({one.link}) | {cell(first_sentence(one.object), at=at)} |"
        for one in pointers
    ]
    return "\n".join(["| name | what it is |", "|---|---|", *rows])


def described(one: Name) -> Iterator[str]:
    yield f"### {one.name}"
    thing = one.object
    if isinstance(thing, griffe.Function):
        yield signature(thing, one.name)
    elif isinstance(thing, griffe.Attribute):
        yield code(assigned(one.name, thing.value))
    else:
        assert isinstance(thing, griffe.Class)
        if (made := constructor(thing)) and not is_mapping(thing):
            yield signature(
                made, one.name, is_short=not made.docstring and "dataclass" in thing.labels
            )
        yield linked(bases(thing), at=one.module)
    yield prose(docstring(thing), at=one.module)
    if made := constructor(thing):
        yield prose(docstring(made), at=one.module)
        yield linked(options(made), at=one.module)
    if blocking := blocking_of(one):
        yield from described_by_blocking(one, blocking)
        return
    yield from described_members(one, members(thing))


def described_members(one: Name, found: dict[str, griffe.Object]) -> Iterator[str]:
    """First what is read, as a list; then what is called."""
    yield "\n".join(field(n, m, at=one.module) for n, m in found.items() if is_field(m))
    for name, member in found.items():
        if not is_field(member):
            yield from described_member(one, name, member)


def described_member(one: Name, name: str, member: griffe.Object) -> Iterator[str]:
    assert isinstance(member, griffe.Function)
    heading = f"{one.name}.{name}"
    yield f"#### `{heading}`" if _MAGIC.fullmatch(name) else f"#### {heading}"
    yield signature(member, name)
    yield prose(docstring(member), at=one.module)
    yield linked(options(member), at=one.module)


def described_by_blocking(one: Name, blocking: Name) -> Iterator[str]:
    """The members of an asynchronous class, as far as those of the blocking one do not say it."""
    theirs, awaited, iterated, plain = members(blocking.object), [], [], []
    for name, member in members(one.object).items():
        if name not in theirs:
            continue
        if not isinstance(member, griffe.Function):
            plain.append(name)
        elif "async" in member.labels and "Iterator" not in str(member.returns):
            awaited.append(name)
        else:
            (iterated if "Iterator" in str(member.returns) else plain).append(name)

    def listed(found: list[str]) -> str:
        return linked(", ".join(f"`{blocking.name}.{n}`" for n in found), at=TOP).replace(
            f"`{blocking.name}.", "`"
        )

    says = [f"Like [{blocking.name}](#{blocking.name.lower()}), to be awaited: {listed(awaited)}."]
    says += [f"Iterated with `async for`: {listed(iterated)}."] if iterated else []
    says += [f"Not awaited: {listed(plain)}."] if plain else []
    yield "\n".join(says)
    alone = {name: one for name, one in members(one.object).items() if name not in theirs}
    yield from described_members(one, alone)


def blocking_of(one: Name) -> Name | None:
    """`History` for `AsyncHistory`; None for what is no store."""
    blocking = by_name().get(one.name.removeprefix("Async"))
    return blocking if one.module == TOP and blocking and blocking is not one else None


# What a page is made of


def docstring(one: griffe.Object) -> str:
    """The docstring; that of the asynchronous one, where it says to see there."""
    says = one.docstring.value if one.docstring else ""
    found = _ELSEWHERE.search(says)
    if not found or (one.parent and one.parent.name.startswith("Async")):
        return says
    owner, member = found["asynchronous"].split(".")
    there = members(by_name()[owner].object)[member].docstring
    return there.value if there else says[: found.start()]


def first_sentence(one: griffe.Object) -> str:
    """The first sentence."""
    paragraph = " ".join(docstring(one).split("\n\n", 1)[0].split())
    return re.split(r"(?<=[.!?]) (?=[A-Z`])", paragraph)[0]


def bases(one: griffe.Class) -> str:
    """What a class is, where that says how it is used."""
    named = list(named_bases(one))
    if is_mapping(one):
        known = [
            names()[base.canonical_path] for base in one.mro() if base.canonical_path in names()
        ]
        more = "".join(f", with those of `{base.name}`" for base in known)
        if one.keywords.get("total") != "False":
            return "A `TypedDict`."
        return f"A `TypedDict` of keyword arguments{more}; each may be left out."
    if any(base.split("[")[0] == "Protocol" for base in named):
        return "A protocol: any object with these members is one."
    shown = [base for base in named if base in by_name() or base.endswith(("Error", "Warning"))]
    kinds = [f"{'an' if base[0] in 'AEIOU' else 'a'} `{base}`" for base in shown]
    return f"Is {' and '.join(kinds)}." if kinds else ""


def named_bases(one: griffe.Class) -> Iterator[str]:
    """The bases as they are written; in the place of a private one stand its own."""
    private = {base.name: base for base in private_bases(one)}
    for base in map(str, one.bases):
        hidden = private.get(base.split("[")[0])
        yield from [base] if hidden is None else named_bases(hidden)


def is_mapping(one: griffe.Class) -> bool:
    return any("TypedDict" in str(base) for kind in [one, *one.mro()] for base in kind.bases)


def is_field(member: griffe.Object) -> bool:
    return not isinstance(member, griffe.Function)


def field(name: str, member: griffe.Object, *, at: str) -> str:
    typed = "" if member.annotation is None else f": {source_of(member.annotation)}"
    default = "" if member.value is None else f" = {default_of(member.value)}"
    says = prose(docstring(member), at=at).replace("\n", "\n  ").replace("\n  \n", "\n\n")
    return f"- `{name}{typed}{default}`" + (f": {says}" if says else "")


def default_of(value: griffe.Expr | str) -> str:
    """A default as a reader knows it: also where it stands in a call of `field`, or has a name."""
    written = source_of(value)
    if isinstance(value, griffe.ExprCall) and written.startswith("field("):
        given = {
            one.name: one.value for one in value.arguments if isinstance(one, griffe.ExprKeyword)
        }
        if "default" in given:
            return default_of(given["default"])
        made = source_of(given["default_factory"])
        return {"dict": "{}", "tuple": "()", "list": "[]"}.get(made, f"{made}()")
    if isinstance(value, griffe.ExprName) and written.isupper():
        return default_of(sources()[value.canonical_path].value)
    return {"dict()": "{}"}.get(written, written)


def signature(one: griffe.Function, name: str, *, is_short: bool = False) -> str:
    """How it is called; `is_short` leaves out what the list of its fields says."""
    shown: list[str] = []
    kinds = griffe.ParameterKind
    is_by_place_only = False
    for parameter in one.parameters:
        if parameter.name in {"self", "cls"} and parameter is one.parameters[0]:
            continue
        has_star = any(word.startswith("*") for word in shown)
        if parameter.kind is kinds.keyword_only and not has_star:
            shown.append("*")
        if parameter.kind is not kinds.positional_only and is_by_place_only:
            shown.append("/")
        is_by_place_only = parameter.kind is kinds.positional_only
        star = {kinds.var_positional: "*", kinds.var_keyword: "**"}.get(parameter.kind, "")
        typed = parameter.annotation is not None and not is_short
        text = f"{star}{parameter.name}" + (f": {source_of(parameter.annotation)}" if typed else "")
        if parameter.default is not None and not star:
            text += f"{' = ' if typed else '='}{default_of(parameter.default)}"
        shown.append(text)
    made = one.name == "__init__"
    end = "" if made or one.returns is None else f" -> {source_of(one.returns)}"
    start = "async " if "async" in one.labels else ""
    line = f"{start}{name}({', '.join(shown)}){end}"
    if len(line) > WIDTH:
        inside = "".join(f"    {one},\n" for one in shown)
        line = f"{start}{name}(\n{inside}){end}"
    return code(line)


def assigned(name: str, value: griffe.Expr | str | None) -> str:
    if len(line := f"{name} = {source_of(value)}") <= WIDTH:
        return line
    if isinstance(value, griffe.ExprCall):
        return f"{name} = {source_of(value.function)}(...)"
    if isinstance(value, griffe.ExprTuple):
        return f"{name} = (...)"
    first, *rest = alternatives(value)
    return "\n    | ".join([f"{name} = (\n    {source_of(first)}", *map(source_of, rest)]) + "\n)"


def options(one: griffe.Function) -> str:
    """Where the further keyword arguments are described, if there are any."""
    typed = str(one.parameters[-1].annotation) if len(one.parameters) else ""
    found = re.fullmatch(r"Unpack\[(\w+)\]", typed)
    if not found:
        return ""
    given = ", ".join(f"`{name}`" for name in members(by_name()[found[1]].object))
    return f"`{one.parameters[-1].name}` are those of `{found[1]}`: {given}."


def alternatives(value: object) -> list[object]:
    """What stands between the bars of a union."""
    if isinstance(value, griffe.ExprBinOp) and value.operator == "|":
        return [*alternatives(value.left), *alternatives(value.right)]
    return [value]


def source_of(expression: object) -> str:
    return re.sub(r"'([^'\"]*)'", r'"\1"', str(expression).replace("builtins.", ""))


def code(text: str) -> str:
    return f"```python signature\n{text}\n```"


def prose(text: str, *, at: str) -> str:
    """A docstring as Markdown: names are links, what is drawn keeps its lines."""
    shown = []
    for block in text.strip("\n").split("\n\n"):
        is_code = block.startswith("    ")
        drawn = f"```text\n{block}\n```"
        words = block if is_code else linked(as_list(block), at=at)
        shown.append(drawn if "├" in block else words)
    return "\n\n".join(shown)


def as_list(block: str) -> str:
    """A block of words with what each means further in, below it, as a list."""
    if block.startswith((" ", "- ")) or "\n    " not in block:
        return block
    return "- " + re.sub(
        r"\n(?! )", "\n- ", re.sub(r"(?<=\n)(.+)\n    ", r"\1: ", f"\n{block}")[1:]
    )


def cell(text: str, *, at: str) -> str:
    return linked(text, at=at).replace("|", "\\|")


def linked(text: str, *, at: str) -> str:
    """`text` with links where it names something public."""

    def link(match: re.Match[str]) -> str:
        word = match["inside"] or match["bare"]
        name, _, member = _MODULE.sub("", word).partition(".")
        one = by_name().get(name)
        if one is None or (member and member not in members(one.object)):
            return match[0]
        blocking = blocking_of(one)
        one = blocking if member and blocking and member in members(blocking.object) else one
        if member and is_field(members(one.object)[member]):
            member = ""
        page = "" if one.module == at else page_of(one.module)
        return f"[{match[0]}]({page}#{one.name.lower()}{member.lower()})"

    return _LINKED.sub(link, text)


def write() -> None:
    PAGES.mkdir(exist_ok=True)
    written = pages()
    for old in PAGES.glob("*.md"):
        if old.name not in written:
            old.unlink()
    for name, text in written.items():
        (PAGES / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
