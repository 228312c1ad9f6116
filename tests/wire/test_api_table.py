"""A key is advertised exactly if a handler exists, and each handler can be imported: brokers import it at the first
request."""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any

import pytest

from pybroker import native
from pybroker.broker import api
from pybroker.broker.api.client_routes import Routes, client_routes, routes
from pybroker.broker.requests.context import RequestContext

METADATA = 3  # native, but Rust passes unknown requests on


class _Anything(SimpleNamespace):
    """Services to which the table only keeps references."""

    def __getattr__(self, name: str) -> Any:
        return _Anything()

    def __getitem__(self, name: str) -> Any:
        return _Anything()


ROUTES: Routes = routes(_Anything())  # type: ignore[arg-type]  # answers to every name


def test_python_answers_exactly_the_served_keys_of_its_plane() -> None:
    served = {row.key for row in native.api_table() if row.served and row.plane == "python"}
    assert set(ROUTES) - {METADATA} == served


@pytest.mark.parametrize("key", ROUTES)
def test_each_key_is_answered_by_the_file_named_after_it(key: int) -> None:
    name = next(row.name for row in native.api_table() if row.key == key)
    snake = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
    file = importlib.import_module(f"pybroker.broker.api.k{key:02}{snake}")
    handler: Any = ROUTES[key]()
    assert (key, file.handle) == (file.API_KEY, handler.func)


def test_a_handler_is_bound_at_the_first_request_and_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    table = client_routes(_Anything())  # type: ignore[arg-type]  # answers to every name
    first = table[METADATA]
    monkeypatch.setattr("pybroker.broker.api.k03_metadata.handle", lambda *arguments: asked.append(arguments[-1]))
    context = RequestContext(METADATA, 12, None, "User:ANONYMOUS", "PLAINTEXT", "127.0.0.1", 1)
    first(context, "one")
    assert table[METADATA] is not first
    table[METADATA](context, "two")
    assert asked == ["one", "two"]


def test_the_files_of_the_api_are_known_by_their_names_only() -> None:
    assert not hasattr(api, "k999_nothing")
