"""What is wrong with the links of a built site: ``problems(folder)``.

A link within the site must lead to a file and, with an anchor, to an element in it. A link to elsewhere must be an https
URL; one into the PTX ISA manual must have an anchor that is known. Nothing may be loaded from elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

from generate import MANUAL, anchors

_LOADED = {
    ("script", "src"),
    ("img", "src"),
    ("iframe", "src"),
    ("link", "href"),
    ("source", "src"),
    ("use", "href"),
}
_CSS = re.compile(r"(?:url\(\s*|@import\s+)['\"]?((?:https?:)?//[^'\")\s]+)")
_HERE = "https://site.invalid"


class _Page(HTMLParser):
    """The ids and the links of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[tuple[str, bool]] = []
        """URL, and whether it is loaded with the page."""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.ids.add(value)
            elif name in ("href", "src") and value is not None:
                self.links.append((value, (tag, name) in _LOADED))


def problems(site: Path) -> Iterator[str]:
    """One line for each link that is wrong."""
    pages = {
        path.relative_to(site).as_posix(): _Page(path.read_text(encoding="utf-8"))
        for path in sorted(site.rglob("*.html"))
    }
    for name, page in pages.items():
        for url, loaded in dict.fromkeys(page.links):
            if why := _wrong(site, pages, name, url, loaded):
                yield f"{name}: {url}: {why}"
    for path in sorted(site.rglob("*.css")):
        for url in _CSS.findall(path.read_text(encoding="utf-8")):
            yield f"{path.relative_to(site)}: {url}: is loaded from elsewhere"


def _wrong(site: Path, pages: dict[str, _Page], name: str, url: str, loaded: bool) -> str:
    parts = urlsplit(url)
    if parts.scheme or parts.netloc:
        if loaded:
            return "is loaded from elsewhere"
        if parts.scheme != "https" or "." not in parts.netloc or re.search(r"\s", url):
            return "is not an https URL"
        if url.startswith(MANUAL) and parts.fragment and parts.fragment not in anchors().values():
            return "no such anchor is known"
        return ""
    if name == "404.html" and url.startswith("/"):
        return ""  # served for any path, so it starts from the root of the host
    target, anchor = urldefrag(urljoin(f"{_HERE}/{name}", url))
    path = unquote(target.removeprefix(f"{_HERE}/"))
    path = f"{path}index.html" if path.endswith("/") or not path else path
    if not (site / path).is_file():
        return "leads nowhere"
    if anchor and path in pages and unquote(anchor) not in pages[path].ids:
        return "no such anchor"
    return ""
