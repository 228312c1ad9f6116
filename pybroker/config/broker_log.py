"""Broker settings: data directories, log management, and the defaults of topics."""

# ruff: noqa: E501  (one table row and one sentence per setting)
from __future__ import annotations

from pybroker.config.values import (
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
        raise InvalidValue("must be -1 (no bound) or more")


COMPRESSIONS = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")

DIRECTORIES = (
    ConfigKey(
        "log.dir",
        LIST,
        ("./pybroker-data",),
        "Data directory, used when log.dirs is not set. A relative path starts at the working directory. It is made if it is absent.",
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
        "Threads a data directory that check logs after a crash and flush them at a clean stop.",
        at_least(1),
        CLUSTER,
    ),
    ConfigKey(
        "log.dir.layout",
        STRING,
        "topic-name",
        "How partition directories are named: topic-name (as Apache Kafka does, so that its tools find them) or topic-id (KIP-516's future layout). Not one of Kafka's settings.",
        one_of("topic-name", "topic-id"),
    ),
    ConfigKey(
        "cordoned.log.dirs",
        LIST,
        (),
        "Directories of log.dirs that get no new partitions (KIP-1066); * names all. A broker with all of them cordoned gets no new replicas.",
        unlike,
        Scope.PER_BROKER,
    ),
    ConfigKey(
        "log.dirs.group.access",
        STRING,
        "none",
        "What the group of the broker's user may do with new files and directories of the broker: none (0600, 0700), read (0640, 0750) or write (0660, 0770). Other users have no access, whatever the umask of the process. Not one of Kafka's settings.",
        one_of("none", "read", "write"),
    ),
    ConfigKey(
        "delete.topic.delay.ms",
        LONG,
        14400000,
        "How long the data of a deleted topic waits in the directory `deleting` before it is removed, in ms (KIP-516). A change counts for later deletions; `pybroker topics deletions --shorten` has a shorter delay hold for those under way.",
        at_least(0),
        CLUSTER,
    ),
    ConfigKey(
        "stale.replicas.max.percent",
        INT,
        10,
        "At most so much of what lies on a broker is put aside (and always ten partitions) because the controller does not name it and no deletion proves why; above that nothing is touched and an operator is asked. Not one of Kafka's settings.",
        between(0, 100),
    ),
    ConfigKey(
        "topic.history.max.incarnations",
        INT,
        10000,
        "How many deleted topics are remembered after their data is gone: what the history of topics shows, and what proves that a replica that turns up belongs to a deleted topic. Not one of Kafka's settings.",
        at_least(1),
    ),
)

DURABILITY = (
    ConfigKey(
        "log.flush.mode",
        STRING,
        "commit",
        "commit: a produce with acks=all is answered, and records become visible, after they are on disk (group commit). os: as Apache Kafka, the operating system writes when it likes. Not one of Kafka's settings.",
        one_of("commit", "os"),
    ),
    ConfigKey(
        "log.flush.interval.messages",
        LONG,
        LONG_MAX,
        "Records that a log may gather before it is flushed, besides what log.flush.mode does.",
        at_least(1),
        CLUSTER,
    ),
    ConfigKey(
        "log.flush.interval.ms",
        LONG,
        None,
        "Longest time that records stay unflushed, in ms, besides what log.flush.mode does. Unset: log.flush.scheduler.interval.ms.",
        at_least(0),
        CLUSTER,
    ),
    ConfigKey(
        "log.flush.scheduler.interval.ms",
        LONG,
        LONG_MAX,
        "How often the broker looks for logs that are due for a flush, in ms.",
        at_least(1),
    ),
    ConfigKey(
        "log.flush.offset.checkpoint.interval.ms",
        INT,
        60000,
        "How often the recovery points are written, in ms. After a crash logs are checked from there.",
        at_least(0),
    ),
    ConfigKey(
        "log.flush.start.offset.checkpoint.interval.ms",
        INT,
        60000,
        "How often the log start offsets are written, in ms.",
        at_least(0),
    ),
    ConfigKey(
        "replica.high.watermark.checkpoint.interval.ms",
        LONG,
        5000,
        "How often the high watermarks are written, in ms.",
        at_least(1),
    ),
)

SEGMENTS = (
    ConfigKey(
        "log.segment.bytes",
        INT,
        1073741824,
        "Size at which a new segment file is begun.",
        at_least(1024 * 1024),
        CLUSTER,
    ),
    ConfigKey(
        "log.roll.ms",
        LONG,
        None,
        "Age at which a new segment file is begun, in ms. Unset: log.roll.hours.",
        at_least(1),
        CLUSTER,
    ),
    ConfigKey("log.roll.hours", INT, 168, "Age at which a new segment file is begun, in hours.", at_least(1)),
    ConfigKey(
        "log.roll.jitter.ms",
        LONG,
        None,
        "Most that is taken off the rolling age by chance, in ms. Unset: log.roll.jitter.hours.",
        at_least(0),
        CLUSTER,
    ),
    ConfigKey(
        "log.roll.jitter.hours",
        INT,
        0,
        "Most that is taken off the rolling age by chance, in hours.",
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
    ConfigKey("log.index.size.max.bytes", INT, 10485760, "Largest size of an index file.", at_least(4), CLUSTER),
    ConfigKey(
        "log.segment.delete.delay.ms",
        LONG,
        60000,
        "Time between taking a segment out of the log and removing its file, in ms.",
        at_least(0),
        CLUSTER,
    ),
    ConfigKey(
        "log.preallocate",
        BOOLEAN,
        False,
        "Take the room of a segment on disk when it is begun.",
        None,
        CLUSTER,
    ),
)

RETENTION = (
    ConfigKey(
        "log.retention.ms",
        LONG,
        None,
        "How long records are kept, in ms; -1 for ever. Unset: log.retention.minutes.",
        minus_one_or_more,
        CLUSTER,
    ),
    ConfigKey(
        "log.retention.minutes",
        INT,
        None,
        "How long records are kept, in minutes; -1 for ever. Unset: log.retention.hours.",
        minus_one_or_more,
    ),
    ConfigKey(
        "log.retention.hours",
        INT,
        168,
        "How long records are kept, in hours; -1 for ever.",
        minus_one_or_more,
    ),
    ConfigKey(
        "log.retention.bytes",
        LONG,
        -1,
        "Size to which a partition is cut back; -1 no bound.",
        minus_one_or_more,
        CLUSTER,
    ),
    ConfigKey(
        "log.retention.check.interval.ms",
        LONG,
        300000,
        "How often logs are looked over for segments to remove, in ms.",
        at_least(1),
    ),
    ConfigKey(
        "log.initial.task.delay.ms",
        LONG,
        30000,
        "Pause between the start and the first run of the background work on logs, in ms.",
        at_least(0),
        Scope.READ_ONLY,
        True,
    ),
    ConfigKey(
        "log.cleanup.policy",
        LIST,
        ("delete",),
        "What happens to old segments: delete, compact (keep the last record of each key), or both.",
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
        "Memory in bytes for the keys of one pass of the cleaner, over all its threads.",
        at_least(1048576),
        CLUSTER,
    ),
    ConfigKey(
        "log.cleaner.io.max.bytes.per.second",
        DOUBLE,
        1.7976931348623157e308,
        "Bytes a second that the cleaner may read and write together.",
        at_least(1),
        CLUSTER,
    ),
    ConfigKey(
        "log.cleaner.min.cleanable.ratio",
        DOUBLE,
        0.5,
        "Share of a log that must be uncompacted before it is compacted.",
        between(0, 1),
        CLUSTER,
    ),
    ConfigKey(
        "log.cleaner.min.compaction.lag.ms",
        LONG,
        0,
        "Least age of a record before compaction may drop it, in ms.",
        at_least(0),
        CLUSTER,
    ),
    ConfigKey(
        "log.cleaner.max.compaction.lag.ms",
        LONG,
        LONG_MAX,
        "Longest time a record may wait for compaction, in ms.",
        at_least(1),
        CLUSTER,
    ),
    ConfigKey(
        "log.cleaner.delete.retention.ms",
        LONG,
        86400000,
        "How long a compacted log keeps the mark of a deleted key, in ms.",
        at_least(0),
        CLUSTER,
    ),
)

RECORDS = (
    ConfigKey(
        "message.max.bytes",
        INT,
        1048588,
        "Largest record batch accepted, after compression.",
        at_least(0),
        CLUSTER,
    ),
    ConfigKey(
        "log.message.timestamp.type",
        STRING,
        "CreateTime",
        "Whose clock stamps a record: the producer's (CreateTime) or the broker's (LogAppendTime).",
        one_of("CreateTime", "LogAppendTime"),
        CLUSTER,
    ),
    ConfigKey(
        "log.message.timestamp.before.max.ms",
        LONG,
        LONG_MAX,
        "How far before the broker's clock a record's timestamp may be, in ms.",
        at_least(0),
        CLUSTER,
    ),
    ConfigKey(
        "log.message.timestamp.after.max.ms",
        LONG,
        3600000,
        "How far after the broker's clock a record's timestamp may be, in ms.",
        at_least(0),
        CLUSTER,
    ),
    ConfigKey(
        "compression.type",
        STRING,
        "producer",
        "Compression of stored batches: producer keeps what came, any other name recompresses.",
        one_of(*COMPRESSIONS),
        CLUSTER,
    ),
    ConfigKey(
        "compression.gzip.level",
        INT,
        -1,
        "Level used when the broker itself compresses with gzip.",
        gzip_level,
        CLUSTER,
    ),
    ConfigKey(
        "compression.lz4.level",
        INT,
        9,
        "Checked as Kafka checks it and otherwise without effect: the lz4 of this broker has one level, its fast one.",
        between(1, 17),
        CLUSTER,
    ),
    ConfigKey(
        "compression.zstd.level",
        INT,
        3,
        "Level used when the broker itself compresses with zstd.",
        between(-131072, 22),
        CLUSTER,
    ),
    ConfigKey(
        "producer.id.expiration.ms",
        INT,
        86400000,
        "How long an idle producer's sequence is remembered, in ms.",
        at_least(1),
        CLUSTER,
    ),
    ConfigKey(
        "producer.ids.per.partition.max",
        INT,
        20000,
        "Producer ids that a partition remembers, about 250 bytes each. At the limit those that appended longest ago are forgotten, as after producer.id.expiration.ms, and never one with an open transaction; if all have one, another producer gets NOT_ENOUGH_REPLICAS and tries again. Not one of Kafka's settings.",
        at_least(1),
        CLUSTER,
    ),
    ConfigKey(
        "producer.ids.max",
        INT,
        500000,
        "The same for all partitions of a broker together. At the limit a partition with more than 100 of them forgets one of its own for each new one. Not one of Kafka's settings.",
        at_least(1),
        CLUSTER,
    ),
)

TOPICS = (
    ConfigKey(
        "auto.create.topics.enable",
        BOOLEAN,
        True,
        "Create a topic when a client that asks for it allows that.",
    ),
    ConfigKey(
        "auto.create.deleted.topics.enable",
        BOOLEAN,
        True,
        "With auto.create.topics.enable: create a name again whose last topic was deleted and can still be undeleted. false: clients that ask for it get UNKNOWN_TOPIC_OR_PARTITION until the topic is undeleted, purged or gone, or CreateTopics makes the name. Not one of Kafka's settings.",
        None,
        CLUSTER,
    ),
    ConfigKey("num.partitions", INT, 1, "Partitions of a topic whose creator does not say.", at_least(1)),
    ConfigKey("default.replication.factor", INT, 1, "Replicas of a topic whose creator does not say.", at_least(1)),
    ConfigKey(
        "min.insync.replicas",
        INT,
        1,
        "Replicas that must be in sync for a produce with acks=all to be accepted.",
        at_least(1),
        CLUSTER,
    ),
    ConfigKey("delete.topic.enable", BOOLEAN, True, "Allow topics to be deleted."),
    ConfigKey(
        "unclean.leader.election.enable",
        BOOLEAN,
        False,
        "Let a replica that is not in sync become leader when no other is left, which loses records.",
        None,
        CLUSTER,
    ),
)
