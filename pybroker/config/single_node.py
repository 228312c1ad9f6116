"""Settings of a cluster with a single broker. They may require more replicas than there are brokers.

If such settings were left unchanged, the broker would start. But automatic creation of topics would fail, and produce
requests with acks=all and offset commits would wait for replicas that cannot exist. A single broker can only have one
replica of a partition. Therefore the effective value is 1; DescribeConfigs shows it, and one warning reports it. A
topic's own `min.insync.replicas` is not lowered, because an operator who sets it on a topic wants writes to be refused.
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
"""Settings with a number of replicas. Their defaults are for several brokers, and too high for one."""


def problem(name: str, text: str) -> str | None:
    """Return the reason why a valid text cannot be set on the running broker: it requires more replicas than there are
    brokers. None if it can be set."""
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
