"""One class for each message of released Kafka, and for each struct in it: for instance `CreateTopicsRequest` and
`CreateTopicsRequest_CreatableTopic`.

A class has the fields of all versions, with Kafka's names in snake case and the schema's defaults. The version
determines which of them are on the wire. The classes are msgspec structs, created from native/protocol/schema on first
use: importing this module costs nothing. messages.pyi, which is generated from the same schemas, shows them to readers
and type checkers.

LeaderAndIsr, StopReplica and UpdateMetadata are only used between brokers. Their classes in this module are the classes
of `pybroker.protocol.interbroker`.
"""

from pybroker.native import message_class, message_names

_BETWEEN_BROKERS = ("LeaderAndIsr", "StopReplica", "UpdateMetadata")


def __getattr__(name: str) -> type:
    found = message_class(name, interbroker=name.startswith(_BETWEEN_BROKERS))
    if found is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return message_names()
