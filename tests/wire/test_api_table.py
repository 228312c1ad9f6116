"""A key is advertised exactly if somebody answers it."""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any

from pybroker import native
from pybroker.dispatch import routes

METADATA = 3  # native, but Rust hands over what it does not know


class _Anything(SimpleNamespace):
    """Services of which the table only takes references."""

    def __getattr__(self, name: str) -> Any:
        return _Anything()

    def __getitem__(self, name: str) -> Any:
        return _Anything()


def test_python_answers_exactly_the_served_keys_of_its_plane() -> None:
    served = {row.key for row in native.api_table() if row.served and row.plane == "python"}
    assert set(routes(_Anything())) - {METADATA} == served  # type: ignore[arg-type]  # answers to every name


def test_each_file_of_the_api_is_named_after_its_key() -> None:
    for key in routes(_Anything()):  # type: ignore[arg-type]  # answers to every name
        name = next(row.name for row in native.api_table() if row.key == key)
        snake = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
        assert key == importlib.import_module(f"pybroker.api.k{key:02}{snake}").API_KEY
