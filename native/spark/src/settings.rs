//! Client settings under Kafka's names (`kafka.*` options without their prefix). Names are checked by the caller,
//! which knows the nearest one; values are checked here.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

use pybroker_model::Codec;

use crate::error::{Error, Result};

/// How a broker is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Protocol {
    pub(crate) tls: bool,
    pub(crate) sasl: bool,
}

/// Settings of connections, producers and fetches.
#[derive(Clone, Debug)]
pub struct Settings {
    pub(crate) bootstrap: Vec<String>,
    pub(crate) client_id: String,
    pub(crate) protocol: Protocol,
    pub(crate) sasl_mechanism: String,
    pub(crate) sasl_username: String,
    pub(crate) sasl_password: String,
    pub(crate) ssl_ca: Option<String>,
    pub(crate) ssl_ca_file: Option<String>,
    pub(crate) ssl_certificate_file: Option<String>,
    pub(crate) ssl_key_file: Option<String>,
    pub(crate) ssl_check_host: bool,
    pub(crate) connect_timeout: Duration,
    pub(crate) request_timeout: Duration,
    pub(crate) delivery_timeout: Duration,
    pub(crate) retry_backoff: Duration,
    pub(crate) acks: i16,
    pub(crate) idempotence: bool,
    pub(crate) in_flight_max: usize,
    pub(crate) batch_bytes: usize,
    pub(crate) buffer_bytes: usize,
    pub(crate) codec: Codec,
    pub(crate) level: Option<i32>,
    pub(crate) fetch_bytes: i32,
    pub(crate) fetch_wait_ms: i32,
    pub(crate) read_committed: bool,
    pub(crate) check_crcs: bool,
}

/// Larger than the Java producer's 16 KiB, because this is a bulk load; below `max.message.bytes` (1 MiB + 12).
const BATCH_BYTES: usize = 1_000_000;
/// More than the Java producer's 32 MiB: one task holds a batch for every partition.
const BUFFER_BYTES: usize = 64 << 20;
/// A partition at a time is read, so one answer may be larger than the Java consumer's 1 MiB.
const FETCH_BYTES: i32 = 4 << 20;
/// Batches of one producer and partition that a broker remembers (KIP-98): more in flight could not be told apart.
const IN_FLIGHT_MAX: usize = 5;

impl Settings {
    /// Reads settings.
    ///
    /// # Errors
    /// A value that is no such thing, or `bootstrap.servers` missing.
    pub fn new(values: &BTreeMap<String, String>) -> Result<Self> {
        let read = Values(values);
        let bootstrap: Vec<String> = read
            .text("bootstrap.servers")
            .unwrap_or_default()
            .split(',')
            .map(str::trim)
            .filter(|address| !address.is_empty())
            .map(str::to_owned)
            .collect();
        if bootstrap.is_empty() {
            return Err(Error::Setting("kafka.bootstrap.servers is not set".into()));
        }
        let acks = match read.text("acks").unwrap_or("all") {
            "all" | "-1" => -1,
            "1" => 1,
            "0" => 0,
            other => return Err(unusable("acks", other, "all, -1, 0 or 1")),
        };
        let codec_name = read.text("compression.type").unwrap_or("none");
        let codec = Codec::from_name(codec_name).ok_or_else(|| {
            unusable(
                "compression.type",
                codec_name,
                "none, gzip, snappy, lz4 or zstd",
            )
        })?;
        let level = match codec {
            Codec::Gzip => read.optional("compression.gzip.level")?,
            Codec::Zstd => read.optional("compression.zstd.level")?,
            _ => None,
        };
        let protocol = match read.text("security.protocol").unwrap_or("PLAINTEXT") {
            "PLAINTEXT" => (false, false),
            "SSL" => (true, false),
            "SASL_PLAINTEXT" => (false, true),
            "SASL_SSL" => (true, true),
            other => {
                return Err(unusable(
                    "security.protocol",
                    other,
                    "PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL",
                ));
            }
        };
        let isolation = read.text("isolation.level").unwrap_or("read_uncommitted");
        if !["read_uncommitted", "read_committed"].contains(&isolation) {
            return Err(unusable(
                "isolation.level",
                isolation,
                "read_uncommitted or read_committed",
            ));
        }
        let (username, password) = read.sasl_credentials();
        let idempotence = read.number("enable.idempotence", acks == -1)?;
        if idempotence && acks != -1 {
            return Err(Error::Setting(
                "kafka.enable.idempotence needs kafka.acks=all".into(),
            ));
        }
        let text = |name: &str| read.text(name).map(str::to_owned);
        if let Some(kind) = read
            .text("ssl.truststore.type")
            .filter(|kind| *kind != "PEM")
        {
            return Err(unusable("ssl.truststore.type", kind, "PEM"));
        }
        if let Some(kind) = read.text("ssl.keystore.type").filter(|kind| *kind != "PEM") {
            return Err(unusable("ssl.keystore.type", kind, "PEM"));
        }
        Ok(Self {
            bootstrap,
            client_id: text("client.id").unwrap_or_else(|| "pybroker-spark".into()),
            protocol: Protocol {
                tls: protocol.0,
                sasl: protocol.1,
            },
            sasl_mechanism: text("sasl.mechanism").unwrap_or_else(|| "PLAIN".into()),
            sasl_username: username,
            sasl_password: password,
            ssl_ca: text("ssl.truststore.certificates"),
            ssl_ca_file: text("ssl.truststore.location").or_else(|| text("ssl.ca.location")),
            ssl_certificate_file: text("ssl.certificate.location")
                .or_else(|| text("ssl.keystore.location")),
            ssl_key_file: text("ssl.key.location").or_else(|| text("ssl.keystore.location")),
            ssl_check_host: text("ssl.endpoint.identification.algorithm")
                .is_none_or(|algorithm| !algorithm.is_empty() && algorithm != "none"),
            connect_timeout: read.milliseconds("socket.connection.setup.timeout.ms", 10_000)?,
            request_timeout: read.milliseconds("request.timeout.ms", 30_000)?,
            delivery_timeout: read.milliseconds("delivery.timeout.ms", 120_000)?,
            retry_backoff: read.milliseconds("retry.backoff.ms", 100)?,
            acks,
            idempotence,
            in_flight_max: read
                .number("max.in.flight.requests.per.connection", IN_FLIGHT_MAX)?
                .clamp(1, IN_FLIGHT_MAX),
            batch_bytes: read.number("batch.size", BATCH_BYTES)?.max(1),
            buffer_bytes: read.number("buffer.memory", BUFFER_BYTES)?,
            codec,
            level,
            fetch_bytes: read
                .number("max.partition.fetch.bytes", FETCH_BYTES)?
                .max(1),
            fetch_wait_ms: read.number("fetch.max.wait.ms", 500)?.max(0),
            read_committed: isolation == "read_committed",
            check_crcs: read.number("check.crcs", true)?,
        })
    }
}

fn unusable(name: &str, value: &str, expected: &str) -> Error {
    Error::Setting(format!("kafka.{name}={value}: expected {expected}"))
}

struct Values<'a>(&'a BTreeMap<String, String>);

impl<'a> Values<'a> {
    fn text(&self, name: &str) -> Option<&'a str> {
        self.0.get(name).map(|value| value.trim())
    }

    fn optional<T: FromStr>(&self, name: &str) -> Result<Option<T>> {
        match self.text(name) {
            None => Ok(None),
            Some(text) => text
                .parse()
                .map(Some)
                .map_err(|_| unusable(name, text, core::any::type_name::<T>())),
        }
    }

    fn number<T: FromStr>(&self, name: &str, default: T) -> Result<T> {
        Ok(self.optional(name)?.unwrap_or(default))
    }

    fn milliseconds(&self, name: &str, default: u64) -> Result<Duration> {
        self.number(name, default).map(Duration::from_millis)
    }

    /// librdkafka's two names, or the user and password inside a Java login line.
    fn sasl_credentials(&self) -> (String, String) {
        let inside = |name: &str| {
            let line = self.text("sasl.jaas.config")?;
            let rest = line.split_once(&format!("{name}="))?.1;
            let quote = rest.chars().next().filter(|c| *c == '"' || *c == '\'')?;
            let end = rest[1..].find(quote)?;
            Some(rest[1..=end].to_owned())
        };
        let of = |direct: &str, name: &str| {
            self.text(direct)
                .map(str::to_owned)
                .or_else(|| inside(name))
                .unwrap_or_default()
        };
        (
            of("sasl.username", "username"),
            of("sasl.password", "password"),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(pairs: &[(&str, &str)]) -> Result<Settings> {
        let mut values = BTreeMap::from([("bootstrap.servers".into(), "a:1, b:2".into())]);
        for (name, value) in pairs {
            values.insert((*name).into(), (*value).into());
        }
        Settings::new(&values)
    }

    #[test]
    fn defaults_are_idempotent_and_bulky() {
        let read = settings(&[]).expect("usable");
        assert_eq!(read.bootstrap, ["a:1", "b:2"]);
        assert!(read.idempotence && read.acks == -1 && read.batch_bytes == BATCH_BYTES);
    }

    #[test]
    fn a_login_line_gives_user_and_password() {
        let line = "org.apache.kafka.common.security.plain.PlainLoginModule required username=\"u\" password=\"p=1\";";
        let read = settings(&[("sasl.jaas.config", line)]).expect("usable");
        assert_eq!(
            (read.sasl_username.as_str(), read.sasl_password.as_str()),
            ("u", "p=1")
        );
    }

    #[test]
    fn unusable_values_name_their_setting() {
        for (name, value) in [
            ("acks", "2"),
            ("compression.type", "brotli"),
            ("security.protocol", "TLS"),
            ("batch.size", "many"),
            ("isolation.level", "x"),
        ] {
            let text = settings(&[(name, value)]).expect_err(name).to_string();
            assert!(text.contains(name) && text.contains(value), "{text}");
        }
        assert!(settings(&[("acks", "1"), ("enable.idempotence", "true")]).is_err());
        assert!(Settings::new(&BTreeMap::new()).is_err());
    }
}
