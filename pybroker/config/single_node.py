"""Settings of a cluster with a single broker: they may require more replicas than there are brokers.

Unchanged, such settings would let the broker start. But automatic creation of topics would fail, and produce requests
with acks=all and offset commits would wait for replicas that cannot exist. A single broker has only one replica of a
partition: 1 is the effective value, DescribeConfigs shows it, and one warning reports it. A topic's own
`min.insync.replicas` is not lowered: an operator who sets it on a topic wants writes to be refused.
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
"""Settings with a number of replicas; their defaults for several brokers do not fit one."""


def problem(name: str, text: str) -> str | None:
    """Return why a valid text cannot be set on the running broker: it requires more replicas than there are brokers.
    None if it can be set."""
    if name in REPLICAS and int(text) > BROKERS:
        return "a single broker keeps one replica of each partition"
    return None


def fit(static: MutableMapping[str, str]) -> str | None:
    """Lower each setting that requires more replicas than there are brokers; the texts must be valid. Return the
    warning; None if no setting was lowered."""
    above = {name: static[name] for name in REPLICAS if name in static and problem(name, static[name])}
    if not above:
        return None
    static.update(dict.fromkeys(above, str(BROKERS)))
    asked = ", ".join(f"{name}={text}" for name, text in above.items())
    return (
        f"{asked}: a single broker keeps one replica of each partition, so the effective value is "
        f"1{'' if len(above) == 1 else ' for each'}"
    )
