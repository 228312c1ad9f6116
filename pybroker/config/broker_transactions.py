"""Broker settings: transactions."""

# ruff: noqa: E501  (one table row and one sentence per setting)
from __future__ import annotations

from pybroker.config.values import ConfigKey, ConfigType, at_least

INT, SHORT = ConfigType.INT, ConfigType.SHORT

TRANSACTIONS = (
    ConfigKey(
        "transaction.max.timeout.ms",
        INT,
        900000,
        "Longest transaction.timeout.ms that a producer may ask for, in ms.",
        at_least(1),
    ),
    ConfigKey(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        INT,
        10000,
        "How often transactions are looked for that have been open for longer than their producer asked for, in ms; they are aborted.",
        at_least(1),
    ),
    ConfigKey(
        "transactional.id.expiration.ms",
        INT,
        604800000,
        "A transactional id that nobody has used for so long is forgotten, in ms.",
        at_least(1),
    ),
    ConfigKey(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        INT,
        3600000,
        "How often transactional ids are looked for that nobody uses any more, in ms.",
        at_least(1),
    ),
    ConfigKey(
        "transaction.state.log.num.partitions",
        INT,
        50,
        "Partitions of __transaction_state. It must not change once the topic exists.",
        at_least(1),
    ),
    ConfigKey(
        "transaction.state.log.replication.factor",
        SHORT,
        3,
        "Replicas of __transaction_state; one node holds one.",
        at_least(1),
    ),
    ConfigKey(
        "transaction.state.log.min.isr",
        INT,
        2,
        "min.insync.replicas of __transaction_state; of one node it is one.",
        at_least(1),
    ),
    ConfigKey(
        "transaction.state.log.segment.bytes",
        INT,
        104857600,
        "Segment size of __transaction_state; small, so that it compacts and loads quickly.",
        at_least(1),
    ),
    ConfigKey(
        "transaction.state.log.load.buffer.size",
        INT,
        5242880,
        "Bytes that are read at a time when a coordinator loads its transactions.",
        at_least(1),
    ),
)
