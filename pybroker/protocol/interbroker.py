"""The inter-broker messages, in the versions of the KIP-516 text.

Otherwise as `pybroker.protocol.messages`; a name in both modules is two different classes: `FetchRequest` here is the
text's version 13, by topic id.
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
