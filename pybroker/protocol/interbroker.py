"""The inter-broker messages, in the versions that the text of KIP-516 describes.

The module works like `pybroker.protocol.messages`. A name that is in both modules denotes two different classes:
`FetchRequest` here is the version 13 of KIP-516's text, by topic id.
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
