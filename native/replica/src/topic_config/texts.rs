//! Parser of setting values.

use std::str::FromStr;
use std::sync::Arc;

use pybroker_model::{Codec, CompressionType, TimestampType};
use pybroker_storage::{CleanupPolicy, LogConfig};

use super::{BrokerLogSettings, ThrottledReplicas, TopicConfig};

/// Settings parsed so far.
pub(super) struct Texts {
    log: LogConfig,
    config: TopicConfig,
    /// Codec of `compression.type`; `None` for the value `producer`.
    codec: Option<Codec>,
    gzip_level: Option<i32>,
    zstd_level: Option<i32>,
}

type ParseResult<T> = Result<T, &'static str>;

impl Texts {
    pub(super) fn new(broker: &BrokerLogSettings) -> Self {
        Self {
            log: LogConfig {
                flush_mode: broker.flush_mode,
                producer_id_expiration_ms: broker.producer_id_expiration_ms,
                producer_ids_per_partition_max: broker.producer_ids_per_partition_max,
                producer_ids_max: broker.producer_ids_max,
                ..LogConfig::default()
            },
            config: TopicConfig::default(),
            codec: None,
            gzip_level: None,
            zstd_level: None,
        }
    }

    /// Parse one setting. The error says why its value is invalid.
    pub(super) fn take(&mut self, name: &str, text: &str) -> ParseResult<()> {
        let (log, config) = (&mut self.log, &mut self.config);
        match name {
            "segment.bytes" => log.segment_bytes = size(text)?,
            "segment.ms" => log.segment_ms = whole(text)?,
            "segment.jitter.ms" => log.segment_jitter_ms = whole(text)?,
            "index.interval.bytes" => log.index_interval_bytes = size(text)?,
            "segment.index.bytes" => log.segment_index_bytes = size(text)?,
            "retention.ms" => log.retention_ms = whole(text)?,
            "retention.bytes" => log.retention_bytes = whole(text)?,
            "cleanup.policy" => log.cleanup_policy = cleanup(text)?,
            "min.cleanable.dirty.ratio" => log.min_cleanable_dirty_ratio = ratio(text)?,
            "delete.retention.ms" => log.delete_retention_ms = whole(text)?,
            "min.compaction.lag.ms" => log.min_compaction_lag_ms = whole(text)?,
            "max.compaction.lag.ms" => log.max_compaction_lag_ms = whole(text)?,
            "file.delete.delay.ms" => log.file_delete_delay_ms = whole(text)?,
            "max.message.bytes" => log.max_message_bytes = size(text)?,
            "message.timestamp.type" => log.timestamp_type = timestamp_type(text)?,
            "preallocate" => log.preallocate = flag(text)?,
            "flush.messages" => log.flush_messages = whole(text)?,
            "flush.ms" => log.flush_ms = whole(text)?,
            "min.insync.replicas" => config.min_insync_replicas = size(text)?,
            "message.timestamp.before.max.ms" => config.timestamp_before_max_ms = whole(text)?,
            "message.timestamp.after.max.ms" => config.timestamp_after_max_ms = whole(text)?,
            "compression.type" => self.codec = codec(text)?,
            "compression.gzip.level" => self.gzip_level = Some(whole(text)?),
            "compression.zstd.level" => self.zstd_level = Some(whole(text)?),
            "ingest.quota.topic.bytes.per.second" => config.ingest_bytes_per_second = rate(text)?,
            "leader.replication.throttled.replicas" => {
                config.throttled_as_leader = ThrottledReplicas::parse(text)?;
            }
            "follower.replication.throttled.replicas" => {
                config.throttled_as_follower = ThrottledReplicas::parse(text)?;
            }
            _ => {}
        }
        Ok(())
    }

    pub(super) fn config(self) -> TopicConfig {
        let level = match self.codec {
            // -1 means zlib's default.
            Some(Codec::Gzip) => self.gzip_level.filter(|&level| level >= 0),
            Some(Codec::Zstd) => self.zstd_level,
            // This build's lz4 has only the fast level (see pybroker-model, compression).
            Some(Codec::None | Codec::Snappy | Codec::Lz4) | None => None,
        };
        let compression = self.codec.map_or(CompressionType::Producer, |codec| {
            CompressionType::Recompress(codec, level)
        });
        TopicConfig {
            log: Arc::new(self.log),
            compression,
            ..self.config
        }
    }
}

fn whole<T: FromStr>(text: &str) -> ParseResult<T> {
    text.parse().map_err(|_| "not a whole number")
}

/// Parse a non-negative number within Kafka's type INT.
fn size<T: TryFrom<i32>>(text: &str) -> ParseResult<T> {
    let value: Option<i32> = text.parse().ok().filter(|value| *value >= 0);
    value
        .and_then(|value| T::try_from(value).ok())
        .ok_or("not a non-negative whole number of 32 bits")
}

/// Parse a rate in bytes per second. `i64::MAX` means no limit.
fn rate(text: &str) -> ParseResult<u64> {
    let value: Option<u64> = text.parse().ok().filter(|rate| *rate >= 1);
    let value = value.ok_or("not a whole number of at least 1")?;
    Ok(if value >= i64::MAX as u64 {
        u64::MAX
    } else {
        value
    })
}

fn ratio(text: &str) -> ParseResult<f64> {
    let value: Option<f64> = text.parse().ok();
    value
        .filter(|ratio| (0.0..=1.0).contains(ratio))
        .ok_or("not a ratio between 0 and 1")
}

fn flag(text: &str) -> ParseResult<bool> {
    text.parse().map_err(|_| "neither true nor false")
}

fn timestamp_type(text: &str) -> ParseResult<TimestampType> {
    match text {
        "CreateTime" => Ok(TimestampType::CreateTime),
        "LogAppendTime" => Ok(TimestampType::LogAppendTime),
        _ => Err("neither CreateTime nor LogAppendTime"),
    }
}

fn codec(text: &str) -> ParseResult<Option<Codec>> {
    match text {
        "producer" => Ok(None),
        "uncompressed" | "none" => Ok(Some(Codec::None)),
        "gzip" => Ok(Some(Codec::Gzip)),
        "snappy" => Ok(Some(Codec::Snappy)),
        "lz4" => Ok(Some(Codec::Lz4)),
        "zstd" => Ok(Some(Codec::Zstd)),
        _ => Err("unknown compression type"),
    }
}

fn cleanup(text: &str) -> ParseResult<CleanupPolicy> {
    let mut policy = CleanupPolicy {
        delete: false,
        compact: false,
    };
    let items = text.split(',').map(str::trim);
    for item in items.filter(|item| !item.is_empty()) {
        match item {
            "delete" => policy.delete = true,
            "compact" => policy.compact = true,
            _ => return Err("not a list of delete and compact"),
        }
    }
    Ok(policy)
}
