"""Broker settings: data directories, log management, and the defaults of topics."""

from __future__ import annotations

from pybroker.config.setting_values import (
    CENTURY_MS,
    ConfigKey,
    ConfigType,
    InvalidValue,
    Scope,
    Value,
    at_least,
    between,
    gzip_level,
    items_of,
    not_empty,
    one_of,
    unlike,
)

BOOLEAN, STRING, INT, SHORT, LONG, DOUBLE, LIST = (
    ConfigType.BOOLEAN,
    ConfigType.STRING,
    ConfigType.INT,
    ConfigType.SHORT,
    ConfigType.LONG,
    ConfigType.DOUBLE,
    ConfigType.LIST,
)
CLUSTER = Scope.CLUSTER_WIDE
LONG_MAX = 9223372036854775807
INT_MAX = 2147483647


def minus_one_or_more(value: Value) -> None:
    """Accept -1 (no bound) and higher numbers."""
    if value is not None and (not isinstance(value, int) or value < -1):
        raise InvalidValue("must be -1 (no limit) or more")


COMPRESSIONS = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")

DIRECTORIES = (
    ConfigKey(
        "log.dir",
        LIST,
        ("./pybroker-data",),
        (
            "Data directory, used if log.dirs is not set. A relative path starts at the working directory. It is "
            "created if it does not exist."
        ),
        not_empty,
    ),
    ConfigKey(
        "log.dirs",
        LIST,
        None,
        "Data directories, separated by commas. The first one also holds the metadata of the cluster.",
    ),
    ConfigKey(
        "num.recovery.threads.per.data.dir",
        INT,
        2,
        "Threads per data directory that check logs after a crash and flush them at a clean stop.",
        at_least(1),
        CLUSTER,
    ),
    ConfigKey(
        "log.dir.layout",
        STRING,
        "topic-name",
        (
            "Naming of partition directories: topic-name (like Apache Kafka, for its tools) or topic-id (KIP-516's "
            "future layout). Not one of Kafka's settings."
        ),
        one_of("topic-name", "topic-id"),
    ),
    ConfigKey(
        "cordoned.log.dirs",
        LIST,
        (),
        (
            "Directories of log.dirs that get no new partitions (KIP-1066); * means all. A broker whose "
            "directories are all cordoned gets no new replicas."
        ),
        unlike,
        Scope.PER_BROKER,
    ),
    ConfigKey(
        "log.dirs.group.access",
        STRING,
        "none",
        (
            "Access of the group of the broker's user to new files and directories: none (0600, 0700), read "
            "(0640, 0750) or write (0660, 0770). Other users have no access, regardless of the umask. Not one of "
            "Kafka's settings."
        ),
        one_of("none", "read", "write"),
    ),
    ConfigKey(
        "delete.topic.delay.ms",
        LONG,
        14400000,
        (
            "Time that the data of a deleted topic stays in the directory `deleting` before it is removed, in ms "
            "(KIP-516). A change applies to later deletions; `pybroker topics deletions --shorten` applies a shorter "
            "delay to pending ones."
        ),
        between(0, CENTURY_MS),
        CLUSTER,
    ),
    ConfigKey(
        "stale.replicas.max.percent",
        INT,
        10,
        (
            "Maximum percentage of a broker's replicas (always at least ten partitions) that are set aside because the "
            "controller does not know them and no deletion explains it. Above it nothing is moved until an operator "
            "decides. Not one of Kafka's settings."
        ),
        between(0, 100),
    ),
    ConfigKey(
        "topic.history.max.incarnations",
        INT,
        10000,
        (
            "Number of deleted topics to remember after their data is removed, for the history of topics and to "
            "recognize replicas of deleted topics. Not one of Kafka's settings."
        ),
        at_least(1),
    ),
)

DURABILITY = (
    ConfigKey(
        "log.flush.mode",
        STRING,
        "commit",
        (
            "commit: records are acknowledged (acks=all) and visible after they are on disk (group commit). os: the "
            "operating system decides when to write, as in Apache Kafka. Not one of Kafka's settings."
        ),
        one_of("commit", "os"),
    ),
    ConfigKey(
        "log.flush.interval.messages",
        LONG,
        LONG_MAX,
        "Records after which a log is flushed, in addition to log.flush.mode.",
        at_least(1),
        CLUSTER,
    ),
    ConfigKey(
        "log.flush.interval.ms",
        LONG,
        None,
        (
            "Time after which records are flushed, in ms, in addition to log.flush.mode. Unset: "
            "log.flush.scheduler.interval.ms."
        ),
        at_least(0),
        CLUSTER,
    ),
    ConfigKey(
        "log.flush.scheduler.interval.ms",
        LONG,
        LONG_MAX,
        "Interval at which the broker looks for logs to flush, in ms.",
        at_least(1),
    ),
    ConfigKey(
        "log.flush.offset.checkpoint.interval.ms",
        INT,
        60000,
        "Interval at which recovery points are written, in ms. After a crash the check of a log starts there.",
        at_least(0),
    ),
    ConfigKey(
        "log.flush.start.offset.checkpoint.interval.ms",
        INT,
        60000,
        "Interval at which log start offsets are written, in ms.",
        at_least(0),
    ),
    ConfigKey(
        "replica.high.watermark.checkpoint.interval.ms",
        LONG,
        5000,
        "Interval at which high watermarks are written, in ms.",
        at_least(1),
    ),
)

SEGMENTS = (
    ConfigKey(
        "log.segment.bytes",
        INT,
        1073741824,
        "Size at which a new segment file starts.",
        at_least(1024 * 1024),
        CLUSTER,
    ),
    ConfigKey(
        "log.roll.ms",
        LONG,
        None,
        "Age at which a new segment file starts, in ms. Unset: log.roll.hours.",
        at_least(1),
        CLUSTER,
    ),
    ConfigKey("log.roll.hours", INT, 168, "Age at which a new segment file starts, in hours.", at_least(1)),
    ConfigKey(
        "log.roll.jitter.ms",
        LONG,
        None,
        "Maximum random reduction of the segment age, in ms. Unset: log.roll.jitter.hours.",
        at_least(0),
        CLUSTER,
    ),
    ConfigKey(
        "log.roll.jitter.hours",
        INT,
        0,
        "Maximum random reduction of the segment age, in hours.",
        at_least(0),
    ),
    ConfigKey(
        "log.index.interval.bytes",
        INT,
        4096,
        "Bytes of log between two entries of the offset index.",
        at_least(0),
        CLUSTER,
    ),
    ConfigKey("log.index.size.max.bytes", INT, 10485760, "Maximum size of an index file.", at_least(4), CLUSTER),
    ConfigKey(
        "log.segment.delete.delay.ms",
        LONG,
        60000,
        "Delay between the removal of a segment from the log and the removal of its file, in ms.",
        at_least(0),
        CLUSTER,
    ),
    ConfigKey(
        "log.preallocate",
        BOOLEAN,
        False,
        "Preallocate the disk space of a new segment.",
        None,
        CLUSTER,
    ),
)

RETENTION = (
    ConfigKey(
        "log.retention.ms",
        LONG,
        None,
        "Retention of records, in ms; -1 for no limit. Unset: log.retention.minutes.",
        minus_one_or_more,
        CLUSTER,
    ),
    ConfigKey(
        "log.retention.minutes",
        INT,
        None,
        "Retention of records, in minutes; -1 for no limit. Unset: log.retention.hours.",
        minus_one_or_more,
    ),
    ConfigKey(
        "log.retention.hours",
        INT,
        168,
        "Retention of records, in hours; -1 for no limit.",
        minus_one_or_more,
    ),
    ConfigKey(
        "log.retention.bytes",
        LONG,
        -1,
        "Maximum size of a partition; -1 for no limit.",
        None,
        CLUSTER,
    ),
    ConfigKey(
        "log.retention.check.interval.ms",
        LONG,
        300000,
        "Interval of the check for segments to remove, in ms.",
        at_least(1),
    ),
    ConfigKey(
        "log.initial.task.delay.ms",
        LONG,
        30000,
        "Delay after the start before background work on logs begins, in ms.",
        at_least(0),
        Scope.READ_ONLY,
        True,
    ),
    ConfigKey(
        "log.cleanup.policy",
        LIST,
        ("delete",),
        "Policy for old segments: delete, compact (keep the last record of each key), or both.",
        items_of("compact", "delete"),
        CLUSTER,
    ),
)

COMPACTION = (
    ConfigKey("log.cleaner.enable", BOOLEAN, True, "Run the log cleaner, which compacts logs."),
    ConfigKey("log.cleaner.threads", INT, 1, "Threads that compact logs.", at_least(0), CLUSTER),
    ConfigKey(
        "log.cleaner.backoff.ms",
        LONG,
        15000,
        "Pause of the cleaner when nothing needs compaction, in ms.",
        at_least(0),
        CLUSTER,
    ),
    ConfigKey(
        "log.cleaner.dedupe.buffer.size",
        LONG,
        134217728,
        "Memory in bytes for the keys of a cleaning pass, over all cleaner threads.",
        at_least(1048576),
        CLUSTER,
    ),
    ConfigKey(
        "log.cleaner.io.max.bytes.per.second",
        DOUBLE,
        1.7976931348623157e308,
        "Bytes per second that the cleaner may read and write together.",
        at_least(1),
        CLUSTER,
    ),
    ConfigKey(
        "log.cleaner.min.cleanable.ratio",
        DOUBLE,
        0.5,
        "Uncompacted share of a log at which it is compacted.",
        between(0, 1),
        CLUSTER,
    ),
    ConfigKey(
        "log.cleaner.min.compaction.lag.ms",
        LONG,
        0,
        "Minimum age at which compaction may drop a record, in ms.",
        at_least(0),
        CLUSTER,
    ),
    ConfigKey(
        "log.cleaner.max.compaction.lag.ms",
        LONG,
        LONG_MAX,
        "Longest time that a record may wait for compaction, in ms.",
        at_least(1),
        CLUSTER,
    ),
    ConfigKey(
        "log.cleaner.delete.retention.ms",
        LONG,
        86400000,
        "Time that a compacted log keeps tombstones, in ms.",
        at_least(0),
        CLUSTER,
    ),
)

RECORDS = (
    ConfigKey(
        "message.max.bytes",
        INT,
        1048588,
        "Maximum size of a record batch, after compression.",
        at_least(0),
        CLUSTER,
    ),
    ConfigKey(
        "log.message.timestamp.type",
        STRING,
        "CreateTime",
        "Source of record timestamps: the producer (CreateTime) or the broker (LogAppendTime).",
        one_of("CreateTime", "LogAppendTime"),
        CLUSTER,
    ),
    ConfigKey(
        "log.message.timestamp.before.max.ms",
        LONG,
        LONG_MAX,
        "Maximum time by which a record's timestamp may precede the broker's clock, in ms.",
        at_least(0),
        CLUSTER,
    ),
    ConfigKey(
        "log.message.timestamp.after.max.ms",
        LONG,
        3600000,
        "Maximum time by which a record's timestamp may be ahead of the broker's clock, in ms.",
        at_least(0),
        CLUSTER,
    ),
    ConfigKey(
        "compression.type",
        STRING,
        "producer",
        "Compression of stored batches: producer keeps the producer's compression, any other codec recompresses.",
        one_of(*COMPRESSIONS),
        CLUSTER,
    ),
    ConfigKey(
        "compression.gzip.level",
        INT,
        -1,
        "Level of gzip compression by the broker.",
        gzip_level,
        CLUSTER,
    ),
    ConfigKey(
        "compression.lz4.level",
        INT,
        9,
        "Validated like in Kafka, but has no effect: this broker's lz4 has a single, fast level.",
        between(1, 17),
        CLUSTER,
    ),
    ConfigKey(
        "compression.zstd.level",
        INT,
        3,
        "Level of zstd compression by the broker.",
        between(-131072, 22),
        CLUSTER,
    ),
    ConfigKey(
        "producer.id.expiration.ms",
        INT,
        86400000,
        "Time that the state of an idle producer is kept, in ms.",
        at_least(1),
        CLUSTER,
    ),
    ConfigKey(
        "producer.ids.per.partition.max",
        INT,
        20000,
        (
            "Maximum number of producer ids that a partition remembers, about 250 bytes each. At the limit the least "
            "recently active ones are forgotten, as after producer.id.expiration.ms, but never one with an open "
            "transaction; if all have one, a new producer gets NOT_ENOUGH_REPLICAS and retries. Not one of Kafka's "
            "settings."
        ),
        at_least(1),
        CLUSTER,
    ),
    ConfigKey(
        "producer.ids.max",
        INT,
        500000,
        (
            "Maximum number of producer ids that all partitions of a broker remember. At the limit a partition "
            "with more than 100 ids forgets one of its own for each new one. Not one of Kafka's settings."
        ),
        at_least(1),
        CLUSTER,
    ),
)

TOPICS = (
    ConfigKey(
        "auto.create.topics.enable",
        BOOLEAN,
        True,
        "Create a topic when a client uses a missing one and allows its creation.",
    ),
    ConfigKey(
        "auto.create.deleted.topics.enable",
        BOOLEAN,
        True,
        (
            "With auto.create.topics.enable: also create a name whose last topic was deleted and can still be "
            "undeleted. false: clients get UNKNOWN_TOPIC_OR_PARTITION until the topic is undeleted, purged or "
            "removed, or CreateTopics creates the name. Not one of Kafka's settings."
        ),
        None,
        CLUSTER,
    ),
    ConfigKey(
        "num.partitions", INT, 1, "Partitions of a topic, unless its creator chooses another number.", at_least(1)
    ),
    ConfigKey(
        "default.replication.factor",
        INT,
        1,
        "Replicas of a topic, unless its creator chooses another number.",
        at_least(1),
    ),
    ConfigKey(
        "min.insync.replicas",
        INT,
        1,
        "In-sync replicas required to accept a produce request with acks=all.",
        at_least(1),
        CLUSTER,
    ),
    ConfigKey("delete.topic.enable", BOOLEAN, True, "Allow topics to be deleted."),
    ConfigKey(
        "unclean.leader.election.enable",
        BOOLEAN,
        False,
        "Let an out-of-sync replica become leader if no other is left; this loses records.",
        None,
        CLUSTER,
    ),
)
