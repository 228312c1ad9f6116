//! The resolved settings of a topic, from Kafka's names and texts.

use std::str::FromStr;
use std::sync::Arc;

use pybroker_model::{Codec, CompressionType, ProduceRules, TimestampType};
use pybroker_storage::{CleanupPolicy, FlushMode, LogConfig};

/// All settings of a topic that the data path obeys.
#[derive(Debug, Clone, PartialEq)]
pub struct TopicConfig {
    /// Those of its logs.
    pub log: Arc<LogConfig>,
    /// `min.insync.replicas`.
    pub min_insync_replicas: i32,
    /// `message.timestamp.before.max.ms`.
    pub timestamp_before_max_ms: i64,
    /// `message.timestamp.after.max.ms`.
    pub timestamp_after_max_ms: i64,
    /// `compression.type` with the level of that codec.
    pub compression: CompressionType,
    /// Settings with a higher number were decided later: an order that was on its way meanwhile does not bring older
    /// ones back.
    pub sequence: u64,
}

/// Settings of the broker that become settings of each log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BrokerLogSettings {
    /// `log.flush.mode`.
    pub flush_mode: FlushMode,
    /// `producer.id.expiration.ms`.
    pub producer_id_expiration_ms: i64,
}

impl Default for BrokerLogSettings {
    fn default() -> Self {
        let log = LogConfig::default();
        Self {
            flush_mode: log.flush_mode,
            producer_id_expiration_ms: log.producer_id_expiration_ms,
        }
    }
}

impl Default for TopicConfig {
    /// Kafka's defaults.
    fn default() -> Self {
        Self {
            log: Arc::new(LogConfig::default()),
            min_insync_replicas: 1,
            timestamp_before_max_ms: i64::MAX,
            timestamp_after_max_ms: 3_600_000,
            compression: CompressionType::Producer,
            sequence: 0,
        }
    }
}

/// A text that a setting cannot have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name}={value}: {reason}")]
pub struct BadSetting {
    /// Its name.
    pub name: String,
    /// The text.
    pub value: String,
    /// What is wrong.
    pub reason: &'static str,
}

impl TopicConfig {
    /// From all resolved settings of a topic. What is missing has Kafka's default; names without meaning for the
    /// data path are passed over, the control plane has checked them.
    ///
    /// # Errors
    /// The first text that does not parse.
    pub fn parse<'a>(
        settings: impl IntoIterator<Item = (&'a str, &'a str)>,
        broker: &BrokerLogSettings,
    ) -> Result<Self, BadSetting> {
        let mut config = Self::default();
        let mut log = LogConfig {
            flush_mode: broker.flush_mode,
            producer_id_expiration_ms: broker.producer_id_expiration_ms,
            ..LogConfig::default()
        };
        let mut codec = None;
        let mut levels = Levels::default();
        for (name, text) in settings {
            let text = text.trim();
            let bad = |reason| BadSetting {
                name: name.into(),
                value: text.into(),
                reason,
            };
            match name {
                "segment.bytes" => {
                    log.segment_bytes = number(text).ok_or_else(|| bad(NOT_A_SIZE))?
                }
                "segment.ms" => log.segment_ms = whole(text).ok_or_else(|| bad(NOT_WHOLE))?,
                "segment.jitter.ms" => {
                    log.segment_jitter_ms = whole(text).ok_or_else(|| bad(NOT_WHOLE))?
                }
                "index.interval.bytes" => {
                    log.index_interval_bytes = number(text).ok_or_else(|| bad(NOT_A_SIZE))?;
                }
                "segment.index.bytes" => {
                    log.segment_index_bytes = number(text).ok_or_else(|| bad(NOT_A_SIZE))?;
                }
                "retention.ms" => log.retention_ms = whole(text).ok_or_else(|| bad(NOT_WHOLE))?,
                "retention.bytes" => {
                    log.retention_bytes = whole(text).ok_or_else(|| bad(NOT_WHOLE))?
                }
                "cleanup.policy" => {
                    log.cleanup_policy =
                        cleanup(text).ok_or_else(|| bad("not a list of delete and compact"))?;
                }
                "min.cleanable.dirty.ratio" => {
                    log.min_cleanable_dirty_ratio = text
                        .parse()
                        .ok()
                        .filter(|ratio| (0.0..=1.0).contains(ratio))
                        .ok_or_else(|| bad("not a ratio between 0 and 1"))?;
                }
                "delete.retention.ms" => {
                    log.delete_retention_ms = whole(text).ok_or_else(|| bad(NOT_WHOLE))?;
                }
                "min.compaction.lag.ms" => {
                    log.min_compaction_lag_ms = whole(text).ok_or_else(|| bad(NOT_WHOLE))?;
                }
                "max.compaction.lag.ms" => {
                    log.max_compaction_lag_ms = whole(text).ok_or_else(|| bad(NOT_WHOLE))?;
                }
                "file.delete.delay.ms" => {
                    log.file_delete_delay_ms = whole(text).ok_or_else(|| bad(NOT_WHOLE))?;
                }
                "max.message.bytes" => {
                    log.max_message_bytes = number(text).ok_or_else(|| bad(NOT_A_SIZE))?;
                }
                "message.timestamp.type" => {
                    log.timestamp_type = match text {
                        "CreateTime" => TimestampType::CreateTime,
                        "LogAppendTime" => TimestampType::LogAppendTime,
                        _ => return Err(bad("neither CreateTime nor LogAppendTime")),
                    };
                }
                "preallocate" => {
                    log.preallocate = flag(text).ok_or_else(|| bad("neither true nor false"))?
                }
                "flush.messages" => {
                    log.flush_messages = whole(text).ok_or_else(|| bad(NOT_WHOLE))?
                }
                "flush.ms" => log.flush_ms = whole(text).ok_or_else(|| bad(NOT_WHOLE))?,
                "min.insync.replicas" => {
                    config.min_insync_replicas = number(text).ok_or_else(|| bad(NOT_A_SIZE))?;
                }
                "message.timestamp.before.max.ms" => {
                    config.timestamp_before_max_ms = whole(text).ok_or_else(|| bad(NOT_WHOLE))?;
                }
                "message.timestamp.after.max.ms" => {
                    config.timestamp_after_max_ms = whole(text).ok_or_else(|| bad(NOT_WHOLE))?;
                }
                "compression.type" => {
                    codec = Some(match text {
                        "producer" => None,
                        "uncompressed" | "none" => Some(Codec::None),
                        "gzip" => Some(Codec::Gzip),
                        "snappy" => Some(Codec::Snappy),
                        "lz4" => Some(Codec::Lz4),
                        "zstd" => Some(Codec::Zstd),
                        _ => return Err(bad("unknown compression type")),
                    });
                }
                "compression.gzip.level" => {
                    levels.gzip = Some(level(text).ok_or_else(|| bad(NOT_WHOLE))?)
                }
                "compression.zstd.level" => {
                    levels.zstd = Some(level(text).ok_or_else(|| bad(NOT_WHOLE))?)
                }
                _ => {}
            }
        }
        if let Some(Some(codec)) = codec {
            config.compression = CompressionType::Recompress(codec, levels.of(codec));
        }
        config.log = Arc::new(log);
        Ok(config)
    }

    /// What `validate_produce` must check for this topic.
    #[must_use]
    pub fn produce_rules(&self, zstd_allowed: bool, now_ms: i64) -> ProduceRules {
        ProduceRules {
            max_message_bytes: self.log.max_message_bytes,
            compacted: self.log.cleanup_policy.compact,
            timestamp_type: self.log.timestamp_type,
            before_max_ms: self.timestamp_before_max_ms,
            after_max_ms: self.timestamp_after_max_ms,
            compression_type: self.compression,
            zstd_allowed,
            now_ms,
        }
    }
}

#[derive(Default)]
struct Levels {
    gzip: Option<i32>,
    zstd: Option<i32>,
}

impl Levels {
    fn of(&self, codec: Codec) -> Option<i32> {
        match codec {
            // -1 is zlib's own default.
            Codec::Gzip => self.gzip.filter(|&level| level >= 0),
            Codec::Zstd => self.zstd,
            // lz4 has only its fast level here (pybroker-model, compression).
            Codec::None | Codec::Snappy | Codec::Lz4 => None,
        }
    }
}

const NOT_WHOLE: &str = "not a whole number";
const NOT_A_SIZE: &str = "not a non-negative whole number of 32 bits";

fn whole(text: &str) -> Option<i64> {
    text.parse().ok()
}

fn level(text: &str) -> Option<i32> {
    text.parse().ok()
}

/// Non-negative, and within Kafka's type INT.
fn number<T: FromStr + TryFrom<i32>>(text: &str) -> Option<T> {
    let value: i32 = text.parse().ok()?;
    if value < 0 {
        None
    } else {
        T::try_from(value).ok()
    }
}

fn flag(text: &str) -> Option<bool> {
    match text {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

fn cleanup(text: &str) -> Option<CleanupPolicy> {
    let mut policy = CleanupPolicy {
        delete: false,
        compact: false,
    };
    for item in text
        .split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty())
    {
        match item {
            "delete" => policy.delete = true,
            "compact" => policy.compact = true,
            _ => return None,
        }
    }
    Some(policy)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(settings: &[(&str, &str)]) -> Result<TopicConfig, BadSetting> {
        TopicConfig::parse(settings.iter().copied(), &BrokerLogSettings::default())
    }

    #[test]
    fn nothing_set_is_kafkas_default() {
        assert_eq!(parse(&[]), Ok(TopicConfig::default()));
        assert_eq!(
            parse(&[("unclean.leader.election.enable", "false")]),
            Ok(TopicConfig::default())
        );
    }

    #[test]
    fn values_arrive() {
        let broker = BrokerLogSettings {
            flush_mode: FlushMode::Os,
            producer_id_expiration_ms: 5,
        };
        let settings = [
            ("cleanup.policy", "compact,delete"),
            ("segment.bytes", "1048576"),
            ("retention.ms", "-1"),
            ("min.insync.replicas", "2"),
            ("compression.zstd.level", "7"),
            ("compression.type", "zstd"),
            ("message.timestamp.type", "LogAppendTime"),
            ("preallocate", "true"),
            ("min.cleanable.dirty.ratio", "0.01"),
        ];
        let config = TopicConfig::parse(settings, &broker).expect("all are valid");
        assert_eq!(
            config.log.cleanup_policy,
            CleanupPolicy {
                delete: true,
                compact: true
            }
        );
        assert_eq!(
            (config.log.segment_bytes, config.log.retention_ms),
            (1_048_576, -1)
        );
        assert_eq!(config.log.flush_mode, FlushMode::Os);
        assert_eq!(config.log.producer_id_expiration_ms, 5);
        assert_eq!(config.min_insync_replicas, 2);
        assert_eq!(
            config.compression,
            CompressionType::Recompress(Codec::Zstd, Some(7))
        );
        let rules = config.produce_rules(true, 12);
        assert!(rules.compacted && rules.zstd_allowed);
        assert_eq!(rules.timestamp_type, TimestampType::LogAppendTime);
        assert_eq!(rules.now_ms, 12);
    }

    #[test]
    fn a_text_that_does_not_parse_is_named() {
        for (name, value) in [
            ("segment.bytes", "-1"),
            ("segment.bytes", "4294967296"),
            ("retention.ms", "soon"),
            ("cleanup.policy", "shrink"),
            ("compression.type", "brotli"),
            ("preallocate", "yes"),
            ("message.timestamp.type", "createtime"),
            ("min.cleanable.dirty.ratio", "NaN"),
        ] {
            let error = parse(&[(name, value)]).expect_err(name);
            assert!(
                error.to_string().starts_with(&format!("{name}={value}: ")),
                "{error}"
            );
        }
    }
}
