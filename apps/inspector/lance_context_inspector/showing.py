"""Pages as HTML: the templates, and how values stand in them. All of it is escaped."""

import json
import re
import shlex
from datetime import UTC, datetime
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from lance_context_core.adapting import plain
from lance_context_inspector.page import Page
from lance_context_inspector.safe import brief, cut, is_web, marked
from lance_context_inspector.view import View

MENU = (
    ("/", "Overview", True),
    ("/search", "Search", True),
    ("/sessions", "Sessions", True),
    ("/facts", "Facts", True),
    ("/people", "People", True),
    ("/graph", "Graph", True),
    ("/timeline", "Timeline", False),
    ("/jobs", "Jobs", True),
    ("/windows", "Windows", True),
    ("/runs", "Runs", True),
    ("/tasks", "Tasks", True),
    ("/health", "Health", False),
    ("/sql", "SQL", True),
)
"""Path, name, and whether it is there in a scope, too."""

_LONGEST_JSON, _LONGEST_LINE = 20_000, 80


def rendered(page: Page, view: View, form: str) -> str:
    """The page as HTML. `form` is what its forms have to bring back."""
    menu = [(path, name) for path, name, is_scoped in MENU if is_scoped or view.is_whole]
    return _ENVIRONMENT.get_template(page.template).render(
        **page.data, title=page.title, place=page.place, view=view, menu=menu, form=form
    )


def as_json(value: Any) -> str:
    """The value as JSON to be read, as far as it is not too long."""
    simple = plain(value)
    line = json.dumps(simple, ensure_ascii=False, default=str)
    if len(line) <= _LONGEST_LINE:
        return line
    return cut(json.dumps(simple, ensure_ascii=False, indent=2, default=str), _LONGEST_JSON)


def size(n_bytes: float) -> str:
    """Such as `3.4 MB`."""
    for unit in ("B", "kB", "MB", "GB"):
        if n_bytes < 1000:
            return f"{n_bytes:.0f} {unit}" if unit == "B" else f"{n_bytes:.1f} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:.1f} TB"


def moment(value: datetime | None) -> str:
    """In UTC, to the minute."""
    return "" if value is None else f"{value.astimezone(UTC):%Y-%m-%d %H:%M}"


def iso(value: datetime) -> str:
    """In UTC, exactly."""
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _shown(value: object) -> str:
    return "" if value is None else marked(cut(str(value)))


def _brief(text: object, longest: int = 240) -> str:
    return marked(brief("" if text is None else str(text), longest))


def _as_json(value: Any) -> str:
    return marked(as_json(value))


def _label(word: object) -> str:
    return _brief(str(word).replace("_", " "), 80)


def _table(name: str) -> str:
    """A table by its family and its own name, such as `kv/tasks`."""
    family, _, rest = name.partition(".")
    own = re.sub(r"\.([0-9a-f]{2})", lambda found: chr(int(found[1], 16)), rest)
    return _brief(f"{family}/{own}" if own else family, 60)


def _in_shell(word: str) -> str:
    """A word of a command that someone copies into a terminal, whatever is in it."""
    return shlex.quote(marked(word).replace("\n", " "))


def _number(n: int) -> str:
    return f"{n:,}".replace(",", "\u2009")


_ENVIRONMENT = Environment(
    loader=PackageLoader("lance_context_inspector"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_ENVIRONMENT.filters |= {
    "shown": _shown,
    "brief": _brief,
    "as_json": _as_json,
    "size": size,
    "moment": moment,
    "iso": iso,
    "number": _number,
    "label": _label,
    "is_web": is_web,
    "table": _table,
    "in_shell": _in_shell,
}
