"""Checks the pages of a site with axe-core: `python docs/site/accessible.py build/site`.

A page of each kind (start, prose, wide tables, pictures, reference, search) is opened in a browser at
the width of a desktop and of a phone: all other pages have the same elements.
"""

import sys
from pathlib import Path

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, sync_playwright

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
from browser import chromium

WIDTHS = (1280, 390)
PAGES = (
    "docs/index.html",
    "docs/quickstart.html",
    "docs/langchain.html",
    "docs/cli.html",
    "docs/evidence/matrix.html",
    "docs/reference/errors.html",
    "search.html",
)
RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]}


def main(out: Path) -> None:
    """Prints each violation, and ends with an exit code other than 0 if there is one."""
    failures = []
    with sync_playwright() as driver:
        # As root there is no sandbox; the browser shows only our own pages.
        browser = driver.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        for width in WIDTHS:
            page = browser.new_page(viewport={"width": width, "height": 900})
            for name in PAGES:
                failures += [f"{name}, {width} px: {one}" for one in of(page, out / name)]
        browser.close()
    for one in failures:
        print(one)
    print(f"{len(PAGES)} pages at {len(WIDTHS)} widths, by axe-core")
    if failures:
        sys.exit(f"{len(failures)} failures in {out}")


def of(page: Page, path: Path) -> list[str]:
    """The violations on one page, and whether it is wider than the window."""
    page.goto(path.resolve().as_uri())
    found = [
        f"{one['id']}: {node['html'][:120]}"
        for one in Axe().run(page, options=RULES).response["violations"]
        for node in one["nodes"][:3]
    ]
    if page.evaluate("document.documentElement.scrollWidth > window.innerWidth"):
        found.append("the page scrolls sideways")
    return found


if __name__ == "__main__":
    main(Path(sys.argv[1]))
