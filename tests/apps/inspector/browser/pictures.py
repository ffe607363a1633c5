"""Takes the pictures that docs/cli.md shows:

PYTHONPATH=tests .venvs/inspector/bin/python -m apps.inspector.browser.pictures
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

from apps.inspector.browser.conftest import browsing, served

from apps.inspector import stores

IMAGES = Path(__file__).parents[4] / "docs" / "images"
SHOWN = {
    "inspector-search": ("/search?q=What+did+she+say+about+the+oven", "light", 1280),
    "inspector-session": ("/session?id=trip", "light", 1280),
    "inspector-fact": ("fact", "dark", 1280),
    "inspector-timeline": ("/timeline", "light", 1280),
    "inspector-window": ("/window?session=call-1&agent=wren&step=2", "dark", 1280),
    "inspector-person": ("/person?user=tilda", "light", 390),
}
"""By its name: the page, the scheme, and how wide it is."""
LARGEST = 200_000


def main() -> None:
    """Take all of them. Ends with an exit code other than 0 if one is too heavy for a page."""
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        place = stores.used(Path(scratch) / "memory")
        with served(place) as server, browsing() as browser:
            take(browser, server, IMAGES)
    if heavy := [one.name for one in IMAGES.glob("*.png") if one.stat().st_size > LARGEST]:
        sys.exit(f"too heavy: {heavy}")


def take(browser: Any, server: Any, folder: Path) -> None:
    """Take all of them, of the pages of a store that an agent has used."""
    base = server.link.partition("/enter")[0]
    for name, (path, scheme, width) in SHOWN.items():
        context = browser.new_context(
            color_scheme=scheme, viewport={"width": width, "height": 820}, reduced_motion="reduce"
        )
        page = context.new_page()
        page.goto(server.link)
        if path == "fact":
            page.goto(f"{base}/facts?hidden=1")
            page.get_by_role("link", name="I live in Oslo.").first.click()
        else:
            page.goto(f"{base}{path}")
        if name == "inspector-search":
            page.locator(".why summary").first.click()
        page.locator(".where .place").evaluate_all(
            "all => all.forEach(one => { one.firstChild.textContent = '~/memory' })"
        )
        page.screenshot(path=folder / f"{name}.png")
        context.close()


if __name__ == "__main__":
    main()
