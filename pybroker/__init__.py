"""pybroker: a broker for Apache Kafka's protocol that identifies topics by their ids.

Public names are imported on first use, because `pybroker start` and Spark's workers also import this package but use
none of these names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pybroker.native import Uuid
    from pybroker.testing.broker import Broker, BrokerProcessError

__all__ = ["Broker", "BrokerProcessError", "Uuid"]

_PLACES = {
    "Broker": "pybroker.testing.broker",
    "BrokerProcessError": "pybroker.testing.broker",
    "Uuid": "pybroker.native",
}


def __getattr__(name: str) -> Any:
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module 'pybroker' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(place), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
