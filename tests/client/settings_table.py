"""The table of settings in docs/client.md: `python -m tests.client.settings_table` writes it from the code."""

from __future__ import annotations

from pathlib import Path

from pybroker.client.config import ADMIN, CONSUMER, PRODUCER, SHARE_CONSUMER, TRANSACTIONAL
from pybroker.config.setting_values import ConfigKey

PAGE = Path(__file__).parents[2] / "docs" / "client.md"
BEGIN, END = "<!-- settings: written by tests.client.settings_table -->\n", "<!-- end of settings -->\n"


def table() -> str:
    """Return every setting of every client, once."""
    lines = ["| setting | of | default | what |", "|---|---|---|---|"]
    own = {name: key for name, key in TRANSACTIONAL.items() if name not in PRODUCER}
    kinds = (
        ("producer", PRODUCER),
        ("consumer", CONSUMER),
        ("share consumer", SHARE_CONSUMER),
        ("transactional producer", own),
    )
    for name in dict.fromkeys((*ADMIN, *PRODUCER, *CONSUMER, *SHARE_CONSUMER, *TRANSACTIONAL)):
        whose = [(kind, keys[name]) for kind, keys in kinds if name in keys]
        everybody = name in ADMIN
        key = ADMIN[name] if everybody else whose[0][1]
        of = "all" if everybody else " and ".join(kind for kind, _ in whose)
        lines.append(f"| `{name}` | {of} | {_default(key)} | {key.documentation} |")
    return "\n".join(lines) + "\n"


def _default(key: ConfigKey) -> str:
    value = key.default
    if value is None or value in ("", ()):
        return ""
    if value is True or value is False:
        return f"`{str(value).lower()}`"
    if key.name == "acks":
        return "`all`"
    return f"`{','.join(value) if isinstance(value, tuple) else value}`"


def main() -> None:
    """Write the table into the page."""
    text = PAGE.read_text()
    head, rest = text.split(BEGIN)
    PAGE.write_text(f"{head}{BEGIN}{table()}{END}{rest.split(END)[1]}")


if __name__ == "__main__":
    main()
