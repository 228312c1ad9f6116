"""Brokers for users' own tests: `Broker` is one broker in a child process; `Cluster` is several.

`fixtures` is the pytest plugin, and the only module that needs pytest. Every pytest run in an environment with pybroker
loads the plugin. Therefore this package imports nothing before its first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pybroker.testing.broker import Broker, BrokerProcessError
    from pybroker.testing.cluster import Cluster

__all__ = ["Broker", "BrokerProcessError", "Cluster"]

_PLACES = {"Broker": "broker", "BrokerProcessError": "broker", "Cluster": "cluster"}


def __getattr__(name: str) -> Any:
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module 'pybroker.testing' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"pybroker.testing.{place}"), name)
