"""Broker settings: transactions."""


from __future__ import annotations

from pybroker.config.setting_values import ConfigKey, ConfigType, at_least

INT, LONG, SHORT = ConfigType.INT, ConfigType.LONG, ConfigType.SHORT

TRANSACTIONS = (
    ConfigKey(
        "transaction.max.timeout.ms",
        INT,
        900000,
        "Longest transaction.timeout.ms that a producer may request, in ms.",
        at_least(1),
    ),
    ConfigKey(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        INT,
        10000,
        "Interval of the check for transactions that exceed their timeout, in ms; they are aborted.",
        at_least(1),
    ),
    ConfigKey(
        "transactional.id.expiration.ms",
        INT,
        604800000,
        "Time after which an unused transactional id is forgotten, in ms.",
        at_least(1),
    ),
    ConfigKey(
        "transactional.id.max.bytes.total",
        LONG,
        268435456,
        (
            "Maximum bytes of all transactional ids that a broker coordinates: twice their names, and 500 bytes for "
            "each. A new id beyond it gets POLICY_VIOLATION (pybroker's own setting)."
        ),
        at_least(1),
    ),
    ConfigKey(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        INT,
        3600000,
        "Interval of the check for unused transactional ids, in ms.",
        at_least(1),
    ),
    ConfigKey(
        "transaction.state.log.num.partitions",
        INT,
        50,
        "Partitions of __transaction_state. Do not change it once the topic exists.",
        at_least(1),
    ),
    ConfigKey(
        "transaction.state.log.replication.factor",
        SHORT,
        3,
        "Replicas of __transaction_state; 1 on a single node.",
        at_least(1),
    ),
    ConfigKey(
        "transaction.state.log.min.isr",
        INT,
        2,
        "min.insync.replicas of __transaction_state; 1 on a single node.",
        at_least(1),
    ),
    ConfigKey(
        "transaction.state.log.segment.bytes",
        INT,
        104857600,
        "Segment size of __transaction_state; a small value speeds up compaction and loading.",
        at_least(1),
    ),
    ConfigKey(
        "transaction.state.log.load.buffer.size",
        INT,
        5242880,
        "Bytes per read when a coordinator loads its transactions.",
        at_least(1),
    ),
)
