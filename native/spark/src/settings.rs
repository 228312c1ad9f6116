//! Client settings under Kafka's names (`kafka.*` options without their prefix). Names are checked by the caller,
//! which knows the nearest one; values are checked here.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use pybroker_model::Codec;

use crate::error::{Error, Result};

/// How a broker is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Protocol {
    pub(crate) tls: bool,
    pub(crate) sasl: bool,
}

impl std::fmt::Display for Protocol {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match (self.tls, self.sasl) {
            (false, false) => "PLAINTEXT",
            (true, false) => "SSL",
            (false, true) => "SASL_PLAINTEXT",
            (true, true) => "SASL_SSL",
        })
    }
}

/// A file, and the setting that names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct File {
    setting: &'static str,
    pub(crate) path: String,
}

impl File {
    /// What is wrong with it.
    pub(crate) fn unusable(&self, problem: &dyn std::fmt::Display) -> Error {
        Error::Setting(format!("kafka.{}={}: {problem}", self.setting, self.path))
    }
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
    pub(crate) ssl_ca_file: Option<File>,
    pub(crate) ssl_certificate_file: Option<File>,
    pub(crate) ssl_key_file: Option<File>,
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
const BATCH_BYTES: i64 = 1_000_000;
/// More than the Java producer's 32 MiB: one task holds a batch for every partition.
const BUFFER_BYTES: i64 = 64 << 20;
/// A partition at a time is read, so one answer may be larger than the Java consumer's 1 MiB.
const FETCH_BYTES: i64 = 4 << 20;
/// Batches of one producer and partition that a broker remembers (KIP-98): more in flight could not be told apart.
const IN_FLIGHT_MAX: usize = 5;
/// What a Java `int` holds: most of Kafka's settings are one.
const INT_MAX: i64 = i32::MAX as i64;

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
        if let Some(other) = bootstrap.iter().find(|address| !is_host_and_port(address)) {
            let given = read.text("bootstrap.servers").unwrap_or_default();
            return Err(Error::Setting(format!(
                "kafka.bootstrap.servers={given}: {other} is not host:port"
            )));
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
        let gzip = read.level("compression.gzip.level", -1..=9)?;
        let zstd = read.level("compression.zstd.level", -131_072..=22)?;
        let level = match codec {
            Codec::Gzip => gzip,
            Codec::Zstd => zstd,
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
        let protocol = Protocol {
            tls: protocol.0,
            sasl: protocol.1,
        };
        let mechanism = read.text("sasl.mechanism").unwrap_or("PLAIN");
        let (username, password) = read.sasl_credentials();
        // Mechanisms that are not known are refused at login, with those that are.
        let needs_user = mechanism == "PLAIN" || mechanism.starts_with("SCRAM-");
        if protocol.sasl && needs_user && username.is_empty() {
            return Err(Error::Setting(format!(
                "kafka.security.protocol={protocol} with kafka.sasl.mechanism={mechanism} needs a user: set \
                 kafka.sasl.username, or username=\"...\" in kafka.sasl.jaas.config"
            )));
        }
        let idempotence = read.flag("enable.idempotence", acks == -1)?;
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
            protocol,
            sasl_mechanism: mechanism.to_owned(),
            sasl_username: username,
            sasl_password: password,
            ssl_ca: text("ssl.truststore.certificates"),
            ssl_ca_file: read.file(["ssl.truststore.location", "ssl.ca.location"]),
            ssl_certificate_file: read.file(["ssl.certificate.location", "ssl.keystore.location"]),
            ssl_key_file: read.file(["ssl.key.location", "ssl.keystore.location"]),
            ssl_check_host: text("ssl.endpoint.identification.algorithm")
                .is_none_or(|algorithm| !algorithm.is_empty() && algorithm != "none"),
            connect_timeout: read.milliseconds("socket.connection.setup.timeout.ms", 10_000, 1)?,
            request_timeout: read.milliseconds("request.timeout.ms", 30_000, 1)?,
            delivery_timeout: read.milliseconds("delivery.timeout.ms", 120_000, 1)?,
            retry_backoff: read.milliseconds("retry.backoff.ms", 100, 0)?,
            acks,
            idempotence,
            in_flight_max: (read.whole(
                "max.in.flight.requests.per.connection",
                IN_FLIGHT_MAX as i64,
                1..=INT_MAX,
            )? as usize)
                .min(IN_FLIGHT_MAX),
            batch_bytes: read.whole("batch.size", BATCH_BYTES, 0..=INT_MAX)?.max(1) as usize,
            buffer_bytes: read.whole("buffer.memory", BUFFER_BYTES, 0..=i64::MAX)? as usize,
            codec,
            level,
            fetch_bytes: read
                .whole("max.partition.fetch.bytes", FETCH_BYTES, 0..=INT_MAX)?
                .max(1) as i32,
            fetch_wait_ms: read.whole("fetch.max.wait.ms", 500, 0..=INT_MAX)? as i32,
            read_committed: isolation == "read_committed",
            check_crcs: read.flag("check.crcs", true)?,
        })
    }
}

fn is_host_and_port(address: &str) -> bool {
    address.rsplit_once(':').is_some_and(|(host, port)| {
        !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0)
    })
}

fn unusable(name: &str, value: &str, expected: &str) -> Error {
    Error::Setting(format!("kafka.{name}={value}: expected {expected}"))
}

struct Values<'a>(&'a BTreeMap<String, String>);

impl<'a> Values<'a> {
    fn text(&self, name: &str) -> Option<&'a str> {
        self.0.get(name).map(|value| value.trim())
    }

    /// The file of the first of these settings that is there: Kafka's name and librdkafka's.
    fn file(&self, settings: [&'static str; 2]) -> Option<File> {
        settings.into_iter().find_map(|setting| {
            let path = self.text(setting)?.to_owned();
            Some(File { setting, path })
        })
    }

    fn flag(&self, name: &str, default: bool) -> Result<bool> {
        let Some(text) = self.text(name) else {
            return Ok(default);
        };
        // Python's True and False too.
        text.to_ascii_lowercase()
            .parse()
            .map_err(|_| unusable(name, text, "true or false"))
    }

    fn whole(&self, name: &str, default: i64, allowed: RangeInclusive<i64>) -> Result<i64> {
        let Some(text) = self.text(name) else {
            return Ok(default);
        };
        let number = text.parse().ok().filter(|number| allowed.contains(number));
        number.ok_or_else(|| {
            let (low, high) = allowed.into_inner();
            unusable(name, text, &format!("a whole number from {low} to {high}"))
        })
    }

    fn level(&self, name: &str, allowed: RangeInclusive<i64>) -> Result<Option<i32>> {
        let given = self.text(name).is_some();
        let level = self.whole(name, 0, allowed)?;
        Ok(given.then_some(level as i32))
    }

    fn milliseconds(&self, name: &str, default: i64, low: i64) -> Result<Duration> {
        let number = self.whole(name, default, low..=INT_MAX)?;
        Ok(Duration::from_millis(number.unsigned_abs()))
    }

    /// librdkafka's two names, or the user and password inside a Java login line.
    fn sasl_credentials(&self) -> (String, String) {
        let of = |direct: &str, name: &str| {
            self.text(direct)
                .map(str::to_owned)
                .or_else(|| login_option(self.text("sasl.jaas.config")?, name))
                .unwrap_or_default()
        };
        (
            of("sasl.username", "username"),
            of("sasl.password", "password"),
        )
    }
}

/// The value of `name` in a Java login line: `module required name="value" other=value;`, with blanks around `=` or
/// without, quoted in either way or up to a blank or the semicolon.
fn login_option(line: &str, name: &str) -> Option<String> {
    let ends = |c: char| c.is_whitespace() || c == ';';
    let mut rest = line;
    loop {
        rest = rest.trim_start_matches(ends);
        if rest.is_empty() {
            return None;
        }
        let (word, after) = split_before(rest, |c| ends(c) || c == '=');
        let Some(value) = after.trim_start().strip_prefix('=') else {
            rest = after;
            continue;
        };
        let value = value.trim_start();
        let quote = value.chars().next().filter(|c| *c == '"' || *c == '\'');
        let (value, after) = match quote {
            Some(quote) => value[1..].split_once(quote)?,
            None => split_before(value, ends),
        };
        if word == name {
            return Some(value.to_owned());
        }
        rest = after;
    }
}

/// What is before the first such character, and the rest with it.
fn split_before(text: &str, ends: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(ends).unwrap_or(text.len()))
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
        assert!(read.idempotence && read.acks == -1 && read.batch_bytes == 1_000_000);
    }

    #[test]
    fn a_login_line_gives_user_and_password() {
        let module = "org.apache.kafka.common.security.plain.PlainLoginModule required";
        for (options, user, password) in [
            ("username=\"u\" password=\"p=1\";", "u", "p=1"),
            ("username='u' password='p \"1;';", "u", "p \"1;"),
            ("username=u password=\"p\";", "u", "p"),
            ("username=u password=p=1;", "u", "p=1"),
            ("username = \"u\"\n  password\t=p", "u", "p"),
            ("xusername=\"x\" username=\"u\" password=\"p\";", "u", "p"),
            (
                "a=\"username=x\" username=\"\u{fc}\" password=\"\";",
                "\u{fc}",
                "",
            ),
            ("password=\"p\" username=u", "u", "p"),
        ] {
            let line = format!("{module} {options}");
            let read = settings(&[
                ("security.protocol", "SASL_SSL"),
                ("sasl.jaas.config", &line),
            ])
            .expect(options);
            assert_eq!(
                (read.sasl_username.as_str(), read.sasl_password.as_str()),
                (user, password),
                "{options}"
            );
        }
    }

    #[test]
    fn a_login_without_user_is_refused_before_a_broker_is_asked() {
        for line in [
            "",
            "Module required;",
            "Module required xusername=\"secret\";",
            "Module required username=\"secret",
            "= ; = username",
            "username=; password=secret",
        ] {
            for mechanism in ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] {
                let given = [
                    ("security.protocol", "SASL_PLAINTEXT"),
                    ("sasl.mechanism", mechanism),
                    ("sasl.jaas.config", line),
                ];
                let problem = settings(&given).expect_err(line).to_string();
                let told = format!(
                    "kafka.security.protocol=SASL_PLAINTEXT with kafka.sasl.mechanism={mechanism} needs a user: set \
                     kafka.sasl.username, or username=\"...\" in kafka.sasl.jaas.config"
                );
                assert_eq!(problem, told);
                // Without SASL nobody logs in.
                settings(&given[1..]).expect("usable");
            }
        }
    }

    #[test]
    fn unusable_values_name_their_setting() {
        for (name, value, expected) in [
            ("acks", "2", "all, -1, 0 or 1"),
            ("compression.type", "brotli", "none, gzip"),
            ("security.protocol", "TLS", "PLAINTEXT, SSL"),
            ("isolation.level", "x", "read_uncommitted or"),
            ("batch.size", "many", "a whole number from 0 to 2147483647"),
            ("batch.size", "-1", "a whole number from 0 to 2147483647"),
            ("buffer.memory", "64 MB", "a whole number from 0 to"),
            (
                "max.partition.fetch.bytes",
                "4e6",
                "a whole number from 0 to",
            ),
            (
                "max.in.flight.requests.per.connection",
                "0",
                "a whole number from 1 to",
            ),
            (
                "fetch.max.wait.ms",
                "4294967296",
                "a whole number from 0 to",
            ),
            (
                "request.timeout.ms",
                "abc",
                "a whole number from 1 to 2147483647",
            ),
            (
                "request.timeout.ms",
                "0",
                "a whole number from 1 to 2147483647",
            ),
            (
                "socket.connection.setup.timeout.ms",
                "0",
                "a whole number from 1 to",
            ),
            (
                "delivery.timeout.ms",
                "99999999999999999999",
                "a whole number from 1 to",
            ),
            ("retry.backoff.ms", "0.5", "a whole number from 0 to"),
            (
                "compression.gzip.level",
                "best",
                "a whole number from -1 to 9",
            ),
            (
                "compression.zstd.level",
                "23",
                "a whole number from -131072 to 22",
            ),
            ("check.crcs", "perhaps", "true or false"),
            ("enable.idempotence", "1", "true or false"),
        ] {
            let text = settings(&[(name, value)]).expect_err(name).to_string();
            let told = format!("kafka.{name}={value}: expected {expected}");
            assert!(text.starts_with(&told), "{text}");
        }
        assert!(
            !settings(&[("check.crcs", "False")])
                .expect("Python's")
                .check_crcs
        );
        assert!(settings(&[("acks", "1"), ("enable.idempotence", "true")]).is_err());
        assert!(Settings::new(&BTreeMap::new()).is_err());
        for servers in ["nowhere", ":9092", "a:0", "a:65536", "a:1,b"] {
            let text = settings(&[("bootstrap.servers", servers)])
                .expect_err("no address")
                .to_string();
            assert!(text.ends_with("is not host:port"), "{text}");
        }
    }
}
