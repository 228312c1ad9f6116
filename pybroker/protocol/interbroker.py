"""The messages that brokers speak among themselves in the KIP-516 text's own versions.

Same manner as `pybroker.protocol.messages`; a name that stands in both is another class there: `FetchRequest` here is
version 13 of the text, by topic id.
"""

from pybroker.native import message_class, message_names


def __getattr__(name: str) -> type:
    found = message_class(name, interbroker=True)
    if found is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return message_names(interbroker=True)
