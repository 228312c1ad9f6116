//! `kafka.*` options without their prefix, under Kafka's names. The caller checks names and suggests the nearest one;
//! this module checks values.

use std::collections::BTreeMap;

use pybroker_client::{
    AllowedValues, ClientSettings, Error, INT_MAX, Registry, Setting, Software, Values,
};
use pybroker_model::Codec;

use crate::error::Result;

/// Prefix of the setting names.
const PREFIX: &str = "kafka.";
const SOFTWARE: Software = Software {
    name: "pybroker-spark",
    version: env!("CARGO_PKG_VERSION"),
};
/// Number of batches that a broker remembers for each producer and partition (KIP-98). With more in flight, it could
/// not detect duplicates.
const IN_FLIGHT_MAX: usize = 5;

/// Settings of batches and their delivery.
#[derive(Clone, Debug)]
pub struct ProduceSettings {
    /// Number of replicas that must have a batch; −1 means all in-sync replicas.
    pub acks: i16,
    /// Whether the broker drops duplicates.
    pub idempotence: bool,
    /// Maximum number of unanswered requests to one broker.
    pub in_flight_max: usize,
    /// Maximum size of a batch, before compression.
    pub batch_bytes: usize,
    /// Maximum bytes in open batches.
    pub buffer_bytes: usize,
    /// Compression codec.
    pub codec: Codec,
    /// Compression level, for codecs with levels.
    pub level: Option<i32>,
}

impl ProduceSettings {
    const TABLE: &'static [Setting] = &[
        Setting::new("acks", AllowedValues::OneOf(&["all", "-1", "0", "1"])).or("all"),
        // The default is larger than the Java producer's 16 KiB, because this is a bulk load. It is below
        // `max.message.bytes` (1 MiB + 12).
        Setting::new("batch.size", AllowedValues::Whole(0, INT_MAX)).or("1000000"),
        // The default is 64 MiB, more than the Java producer's 32 MiB, because one task has an open batch for every
        // partition.
        Setting::new("buffer.memory", AllowedValues::Whole(0, i64::MAX)).or("67108864"),
        Setting::new("compression.gzip.level", AllowedValues::Whole(-1, 9)),
        Setting::new(
            "compression.type",
            AllowedValues::OneOf(&["none", "gzip", "snappy", "lz4", "zstd"]),
        )
        .or("none"),
        Setting::new("compression.zstd.level", AllowedValues::Whole(-131_072, 22)),
        // If this is unset, idempotence is enabled if acks=all.
        Setting::new("enable.idempotence", AllowedValues::Flag),
        Setting::new(
            "max.in.flight.requests.per.connection",
            AllowedValues::Whole(1, INT_MAX),
        )
        .or("5"),
    ];

    fn read(values: &Values<'_>) -> Result<Self> {
        let acks = match values.text("acks")? {
            Some("0") => 0,
            Some("1") => 1,
            _ => -1,
        };
        let idempotence = values.flag("enable.idempotence")?.unwrap_or(acks == -1);
        if idempotence && acks != -1 {
            let prefix = values.prefix();
            let text = format!("{prefix}enable.idempotence needs {prefix}acks=all");
            return Err(Error::Setting(text).into());
        }
        let codec = values.text("compression.type")?;
        let codec = codec.and_then(Codec::from_name).unwrap_or(Codec::None);
        // Validate both levels, even if another codec is used.
        let gzip = values.whole("compression.gzip.level")?;
        let zstd = values.whole("compression.zstd.level")?;
        let level = match codec {
            Codec::Gzip => gzip,
            Codec::Zstd => zstd,
            _ => None,
        };
        let in_flight = values.whole("max.in.flight.requests.per.connection")?;
        Ok(Self {
            acks,
            idempotence,
            in_flight_max: usize_of(in_flight).clamp(1, IN_FLIGHT_MAX),
            batch_bytes: usize_of(values.whole("batch.size")?).max(1),
            buffer_bytes: usize_of(values.whole("buffer.memory")?),
            codec,
            level: level.map(int_of),
        })
    }
}

/// Settings of fetches.
#[derive(Clone, Debug)]
pub struct FetchSettings {
    /// Maximum bytes of a response.
    pub bytes: i32,
    /// Maximum wait of the broker for records, in milliseconds.
    pub wait_ms: i32,
    /// Whether to leave out records of open and aborted transactions.
    pub read_committed: bool,
    /// Whether checksums are verified.
    pub check_crcs: bool,
}

impl FetchSettings {
    const TABLE: &'static [Setting] = &[
        Setting::new("check.crcs", AllowedValues::Flag).or("true"),
        Setting::new("fetch.max.wait.ms", AllowedValues::Whole(0, INT_MAX)).or("500"),
        Setting::new(
            "isolation.level",
            AllowedValues::OneOf(&["read_uncommitted", "read_committed"]),
        )
        .or("read_uncommitted"),
        // The default is 4 MiB. A source reads only one partition, so its responses may be larger than the Java
        // consumer's 1 MiB per partition.
        Setting::new(
            "max.partition.fetch.bytes",
            AllowedValues::Whole(0, INT_MAX),
        )
        .or("4194304"),
    ];

    fn read(values: &Values<'_>) -> Result<Self> {
        Ok(Self {
            bytes: int_of(
                values
                    .whole("max.partition.fetch.bytes")?
                    .unwrap_or_default(),
            )
            .max(1),
            wait_ms: int_of(values.whole("fetch.max.wait.ms")?.unwrap_or_default()),
            read_committed: values.text("isolation.level")? == Some("read_committed"),
            check_crcs: values.flag("check.crcs")?.unwrap_or(true),
        })
    }
}

/// Convert a number to an `i32`. The limits of its setting ensure that it fits.
fn int_of(number: i64) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

fn usize_of(number: Option<i64>) -> usize {
    number.map_or(0, |number| usize::try_from(number).unwrap_or(usize::MAX))
}

/// All settings of a task.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Settings of the client.
    pub client: ClientSettings,
    /// Settings of sinks.
    pub produce: ProduceSettings,
    /// Settings of sources.
    pub fetch: FetchSettings,
}

impl Settings {
    const TABLES: &'static [&'static [Setting]] = &[
        ClientSettings::TABLE,
        ProduceSettings::TABLE,
        FetchSettings::TABLE,
    ];

    /// Return all known settings.
    pub fn known() -> impl Iterator<Item = &'static Setting> {
        Self::TABLES.iter().copied().flatten()
    }

    /// Read the settings.
    ///
    /// # Errors
    ///
    /// If a value is invalid, or `bootstrap.servers` is missing.
    pub fn new(given: &BTreeMap<String, String>) -> Result<Self> {
        let values = Values::new(PREFIX, Self::TABLES, given);
        Ok(Self {
            client: ClientSettings::read(&values, Registry::Client, SOFTWARE)?,
            produce: ProduceSettings::read(&values)?,
            fetch: FetchSettings::read(&values)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(pairs: &[(&str, &str)]) -> Result<Settings> {
        let mut given = BTreeMap::from([("bootstrap.servers".into(), "a:1".into())]);
        for (name, value) in pairs {
            given.insert((*name).into(), (*value).into());
        }
        Settings::new(&given)
    }

    #[test]
    fn defaults_are_idempotent_and_bulky() {
        let read = settings(&[]).expect("usable");
        let produce = read.produce;
        assert!(produce.idempotence && produce.acks == -1);
        assert_eq!(
            (produce.batch_bytes, produce.buffer_bytes),
            (1_000_000, 64 << 20)
        );
        assert_eq!(produce.in_flight_max, IN_FLIGHT_MAX);
        assert_eq!((produce.codec, produce.level), (Codec::None, None));
        let fetch = read.fetch;
        assert_eq!((fetch.bytes, fetch.wait_ms), (4 << 20, 500));
        assert!(fetch.check_crcs && !fetch.read_committed);
    }

    #[test]
    fn each_setting_stands_in_one_table_and_is_read() {
        let mut names: Vec<_> = Settings::known().map(|setting| setting.name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        for setting in Settings::known() {
            // This value is invalid for every setting that is not a text.
            let refused = settings(&[(setting.name, "\u{1}")]).map_err(|error| error.to_string());
            if setting.allowed != AllowedValues::Text {
                let text = refused.expect_err(setting.name);
                assert!(
                    text.starts_with(&format!("kafka.{}=", setting.name)),
                    "{text}"
                );
            }
        }
    }

    #[test]
    fn a_codecs_own_level_counts_and_the_others_are_checked() {
        let given = [
            ("compression.type", "zstd"),
            ("compression.zstd.level", "7"),
            ("compression.gzip.level", "9"),
        ];
        assert_eq!(settings(&given).expect("usable").produce.level, Some(7));
        let wrong = [given[0], ("compression.gzip.level", "best")];
        let text = settings(&wrong).expect_err("no number").to_string();
        let told = "kafka.compression.gzip.level=best: expected a whole number from -1 to 9";
        assert_eq!(text, told);
    }

    #[test]
    fn unusable_values_name_their_setting() {
        for (name, value, expected) in [
            ("acks", "2", "all, -1, 0 or 1"),
            (
                "compression.type",
                "brotli",
                "none, gzip, snappy, lz4 or zstd",
            ),
            ("isolation.level", "x", "read_uncommitted or read_committed"),
            ("batch.size", "many", "a whole number from 0 to 2147483647"),
            (
                "buffer.memory",
                "64 MB",
                "a whole number from 0 to 9223372036854775807",
            ),
            (
                "max.in.flight.requests.per.connection",
                "0",
                "a whole number from 1 to 2147483647",
            ),
            (
                "fetch.max.wait.ms",
                "4294967296",
                "a whole number from 0 to 2147483647",
            ),
            (
                "compression.zstd.level",
                "23",
                "a whole number from -131072 to 22",
            ),
        ] {
            let text = settings(&[(name, value)]).expect_err(name).to_string();
            assert_eq!(text, format!("kafka.{name}={value}: expected {expected}"));
        }
        let text = settings(&[("acks", "1"), ("enable.idempotence", "true")])
            .expect_err("not with one replica")
            .to_string();
        assert_eq!(text, "kafka.enable.idempotence needs kafka.acks=all");
        assert!(Settings::new(&BTreeMap::new()).is_err());
    }
}
