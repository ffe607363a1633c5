"""The part of a page that a command writes: between two comments that name the command."""

import re


def replaced(page: str, made: str, *, command: str) -> str:
    """`page` with `made` in place of what `command` wrote before.

    Raises ValueError if the page has no such part.
    """
    begin, end = f"<!-- made by python -m {command} -->", f"<!-- end of {command} -->"
    pattern = re.compile(f"{re.escape(begin)}.*{re.escape(end)}", re.DOTALL)
    if not pattern.search(page):
        raise ValueError(f"the page has no part for {command}: write {begin} and {end} into it")
    return pattern.sub(lambda _: f"{begin}\n\n{made.strip()}\n\n{end}", page)
