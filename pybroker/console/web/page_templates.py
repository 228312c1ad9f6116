"""Jinja templates; every inserted value is escaped."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from pybroker.console.web.template_filters import FILTERS

FOLDER = Path(__file__).parents[1]
STATIC = FOLDER / "static"

NAVIGATION = (
    ("Cluster", (("/", "Overview"), ("/brokers", "Brokers and disks"), ("/live", "Live"))),
    ("Data", (("/topics", "Topics"), ("/groups", "Groups"), ("/deletions", "Deletions"))),
    ("Work", (("/ingests", "Ingests"), ("/transactions", "Transactions"))),
    ("Access", (("/acls", "Access control"), ("/users", "Users"), ("/quotas", "Quotas"))),
)


class Pages:
    """Renders the templates."""

    def __init__(self) -> None:
        self._jinja = Environment(
            loader=FileSystemLoader(FOLDER / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._jinja.filters.update(FILTERS)
        self._jinja.filters["segment"] = lambda text: quote(str(text), safe="")
        self._jinja.globals.update(navigation=NAVIGATION, asset=_assets().__getitem__)

    def render(self, template: str, facts: dict[str, Any]) -> str:
        """Return the page as HTML."""
        return self._jinja.get_template(template).render(facts)


def _assets() -> dict[str, str]:
    """Return URLs by name. A URL changes with the content, so browsers may cache it without limit."""
    return {
        path.name: f"/static/{path.name}?v={hashlib.sha256(path.read_bytes()).hexdigest()[:12]}"
        for path in STATIC.iterdir()
        if path.is_file()
    }
