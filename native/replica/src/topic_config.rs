//! Resolved topic settings, parsed from Kafka's setting names and values.

use std::sync::Arc;

use pybroker_model::{CompressionType, ProduceRules};
use pybroker_storage::{FlushMode, LogConfig};

mod texts;
mod throttled;

use texts::Texts;
pub use throttled::ThrottledReplicas;

/// All topic settings that the data path uses.
#[derive(Debug, Clone, PartialEq)]
pub struct TopicConfig {
    /// Settings of the topic's logs.
    pub log: Arc<LogConfig>,
    /// `min.insync.replicas`.
    pub min_insync_replicas: i32,
    /// `message.timestamp.before.max.ms`.
    pub timestamp_before_max_ms: i64,
    /// `message.timestamp.after.max.ms`.
    pub timestamp_after_max_ms: i64,
    /// `compression.type` with the level of that codec.
    pub compression: CompressionType,
    /// `ingest.quota.topic.bytes.per.second`.
    pub ingest_bytes_per_second: u64,
    /// `leader.replication.throttled.replicas`.
    pub throttled_as_leader: ThrottledReplicas,
    /// `follower.replication.throttled.replicas`.
    pub throttled_as_follower: ThrottledReplicas,
    /// Sequence number of these settings, so that a delayed order cannot restore older ones.
    pub sequence: u64,
}

/// Broker settings that become settings of each log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BrokerLogSettings {
    /// `log.flush.mode`.
    pub flush_mode: FlushMode,
    /// `producer.id.expiration.ms`.
    pub producer_id_expiration_ms: i64,
    /// `producer.ids.per.partition.max`.
    pub producer_ids_per_partition_max: usize,
    /// `producer.ids.max`.
    pub producer_ids_max: usize,
}

impl Default for BrokerLogSettings {
    fn default() -> Self {
        let log = LogConfig::default();
        Self {
            flush_mode: log.flush_mode,
            producer_id_expiration_ms: log.producer_id_expiration_ms,
            producer_ids_per_partition_max: log.producer_ids_per_partition_max,
            producer_ids_max: log.producer_ids_max,
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
            ingest_bytes_per_second: u64::MAX,
            throttled_as_leader: ThrottledReplicas::Nobody,
            throttled_as_follower: ThrottledReplicas::Nobody,
            sequence: 0,
        }
    }
}

/// A value that is invalid for a setting.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name}={value}: {reason}")]
pub struct BadSetting {
    /// Name of the setting.
    pub name: String,
    /// The invalid value.
    pub value: String,
    /// Why it is invalid.
    pub reason: &'static str,
}

impl TopicConfig {
    /// Parse all resolved settings of a topic. A missing setting gets Kafka's default. Settings that the data path does
    /// not use are ignored, because the control plane has checked them.
    ///
    /// # Errors
    ///
    /// The first value that does not parse.
    pub fn parse<'a>(
        settings: impl IntoIterator<Item = (&'a str, &'a str)>,
        broker: &BrokerLogSettings,
    ) -> Result<Self, BadSetting> {
        let mut texts = Texts::new(broker);
        for (name, text) in settings {
            let text = text.trim();
            texts.take(name, text).map_err(|reason| BadSetting {
                name: name.into(),
                value: text.into(),
                reason,
            })?;
        }
        Ok(texts.config())
    }

    /// Return the rules of `validate_produce` for this topic.
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

#[cfg(test)]
mod tests {
    use super::*;
    use pybroker_model::{Codec, TimestampType};
    use pybroker_storage::CleanupPolicy;

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
            producer_ids_per_partition_max: 6,
            producer_ids_max: 7,
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
        assert_eq!(config.log.producer_ids_per_partition_max, 6);
        assert_eq!(config.log.producer_ids_max, 7);
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
