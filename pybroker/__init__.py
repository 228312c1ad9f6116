"""pybroker: a broker that speaks Apache Kafka's protocol, in which a topic's identity is its id.

Public names are imported when they are first used, because `pybroker start` and Spark's workers import this
package too and need none of them.
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
