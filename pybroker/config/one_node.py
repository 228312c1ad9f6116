"""A settings file of a cluster on one node: it asks for more replicas than there are brokers.

Taken as they are, such settings would let the broker start, and then every topic that is made by itself would fail, and
every produce with acks=all, and every committed offset, would wait for replicas that cannot be. One broker keeps one
replica whatever the file says; so 1 is what is in force and shown, and one warning says so. Topics keep the
`min.insync.replicas` that they set themselves: whoever set it there asked for that refusal.
"""

from __future__ import annotations

from collections.abc import MutableMapping

BROKERS = 1
"""The embedded metadata store serves one broker."""

REPLICAS = (
    "default.replication.factor",
    "min.insync.replicas",
    "offsets.topic.replication.factor",
    "transaction.state.log.min.isr",
    "transaction.state.log.replication.factor",
)
"""Settings that name a number of replicas; what they say for several brokers is no default for one."""


def problem(name: str, text: str) -> str | None:
    """Why a checked text cannot be in force while the broker runs, if it names more replicas than there are brokers."""
    if name in REPLICAS and int(text) > BROKERS:
        return "this broker is alone and keeps one replica of each partition"
    return None


def fit(static: MutableMapping[str, str]) -> str | None:
    """Cuts what names more replicas than there are brokers, given checked texts; the warning that says so, if any."""
    above = {name: static[name] for name in REPLICAS if name in static and problem(name, static[name])}
    if not above:
        return None
    static.update(dict.fromkeys(above, str(BROKERS)))
    asked = ", ".join(f"{name}={text}" for name, text in above.items())
    return (
        f"{asked}: this broker is alone and keeps one replica of each partition, so 1 is in force for "
        f"{'it' if len(above) == 1 else 'each of them'}"
    )
