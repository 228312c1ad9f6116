//! Settings of the brokers' addresses and of connections to them.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pybroker_protocol::codec::Registry;

use super::stores::{CRL, KINDS, Tls, tls};
use super::{AllowedValues, INT_MAX, Setting, Values, jaas};
use crate::error::{Error, Result};

/// Security protocol of connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SecurityProtocol {
    /// Whether connections are encrypted and the broker must present a certificate.
    pub tls: bool,
    /// Whether the client logs in.
    pub sasl: bool,
}

impl std::fmt::Display for SecurityProtocol {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match (self.tls, self.sasl) {
            (false, false) => "PLAINTEXT",
            (true, false) => "SSL",
            (false, true) => "SASL_PLAINTEXT",
            (true, true) => "SASL_SSL",
        })
    }
}

/// Client software, for ApiVersions (KIP-511) and as the default of `client.id`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Software {
    /// The software's name.
    pub name: &'static str,
    /// The software's version.
    pub version: &'static str,
}

/// Credentials of a client.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Sasl {
    /// PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER.
    pub mechanism: String,
    /// User name.
    pub username: String,
    /// Password.
    pub password: String,
    /// Whether the user name and password are a delegation token's id and HMAC (KIP-48).
    pub delegation_token: bool,
    /// For OAUTHBEARER: the file that contains the token. It is read at each login.
    pub token_file: String,
}

impl std::fmt::Debug for Sasl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Sasl({} as {})", self.mechanism, self.username)
    }
}

/// Settings of connections to brokers.
#[derive(Clone, Debug)]
pub struct ConnectionSettings {
    /// Prefix that the user writes before Kafka's names. Errors repeat it.
    pub prefix: &'static str,
    /// Wire layouts of the connection.
    pub registry: Registry,
    /// Software of this client.
    pub software: Software,
    /// `client.id`.
    pub client_id: String,
    /// `security.protocol`.
    pub protocol: SecurityProtocol,
    /// Credentials, used if `protocol.sasl` is set.
    pub sasl: Sasl,
    /// TLS settings, used if `protocol.tls` is set.
    pub tls: Tls,
    /// Timeout of opening a connection.
    pub connect_timeout: Duration,
    /// Timeout of a response.
    pub request_timeout: Duration,
    /// Brokers that have answered with these settings. Clones of the settings share this set.
    pub answered: ReachedBrokers,
}

impl ConnectionSettings {
    /// Return a hint for error texts: the listener may have another security protocol.
    pub(crate) fn doubt(&self) -> String {
        let (prefix, protocol) = (self.prefix, self.protocol);
        format!("does {prefix}security.protocol={protocol} fit this listener?")
    }
}

/// Addresses of brokers that have answered with these settings.
#[derive(Clone, Debug, Default)]
pub struct ReachedBrokers(Arc<Mutex<BTreeSet<String>>>);

impl ReachedBrokers {
    /// Record an address that has answered.
    pub(crate) fn note(&self, address: &str) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.contains(address) {
            known.insert(address.to_owned());
        }
    }

    /// Return whether the address has ever answered.
    pub(crate) fn has(&self, address: &str) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.contains(address)
    }
}

/// Settings of a client: bootstrap addresses, connections and retries.
#[derive(Clone, Debug)]
pub struct ClientSettings {
    /// Bootstrap addresses.
    pub bootstrap: Vec<String>,
    /// Settings of connections to each broker.
    pub connection: ConnectionSettings,
    /// Time for which transient errors are retried.
    pub delivery_timeout: Duration,
    /// Pause between two retries.
    pub retry_backoff: Duration,
}

impl ClientSettings {
    /// The settings that this type reads.
    pub const TABLE: &'static [Setting] = &[
        Setting::new("bootstrap.servers", AllowedValues::Text),
        Setting::new("client.id", AllowedValues::Text),
        Setting::new("delivery.timeout.ms", AllowedValues::Whole(1, INT_MAX)).or("120000"),
        Setting::new("request.timeout.ms", AllowedValues::Whole(1, INT_MAX)).or("30000"),
        Setting::new("retry.backoff.ms", AllowedValues::Whole(0, INT_MAX)).or("100"),
        Setting::new("sasl.jaas.config", AllowedValues::Text),
        Setting::new("sasl.mechanism", AllowedValues::Text).or("PLAIN"),
        Setting::new(TOKEN_URL, AllowedValues::Text),
        Setting::new("sasl.password", AllowedValues::Text),
        Setting::new("sasl.username", AllowedValues::Text),
        Setting::new(
            "security.protocol",
            AllowedValues::OneOf(&["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]),
        )
        .or("PLAINTEXT"),
        Setting::new(
            "socket.connection.setup.timeout.ms",
            AllowedValues::Whole(1, INT_MAX),
        )
        .or("10000"),
        Setting::new("ssl.ca.location", AllowedValues::Text),
        Setting::new("ssl.certificate.location", AllowedValues::Text),
        Setting::new(CRL, AllowedValues::Text),
        Setting::new("ssl.endpoint.identification.algorithm", AllowedValues::Text).or("https"),
        Setting::new("ssl.key.location", AllowedValues::Text),
        Setting::new("ssl.key.password", AllowedValues::Text),
        Setting::new("ssl.keystore.certificate.chain", AllowedValues::Text),
        Setting::new("ssl.keystore.key", AllowedValues::Text),
        Setting::new("ssl.keystore.location", AllowedValues::Text),
        Setting::new("ssl.keystore.password", AllowedValues::Text),
        Setting::new("ssl.keystore.type", AllowedValues::OneOf(KINDS)),
        Setting::new("ssl.truststore.certificates", AllowedValues::Text),
        Setting::new("ssl.truststore.location", AllowedValues::Text),
        Setting::new("ssl.truststore.password", AllowedValues::Text),
        Setting::new("ssl.truststore.type", AllowedValues::OneOf(KINDS)),
    ];

    /// Read the settings.
    ///
    /// # Errors
    ///
    /// If a value is invalid, or `bootstrap.servers` is missing.
    pub fn read(values: &Values<'_>, registry: Registry, software: Software) -> Result<Self> {
        Ok(Self {
            bootstrap: bootstrap(values)?,
            connection: ConnectionSettings::read(values, registry, software)?,
            delivery_timeout: values.milliseconds("delivery.timeout.ms")?,
            retry_backoff: values.milliseconds("retry.backoff.ms")?,
        })
    }
}

fn bootstrap(values: &Values<'_>) -> Result<Vec<String>> {
    let prefix = values.prefix();
    let given = values.text("bootstrap.servers")?.unwrap_or_default();
    let addresses: Vec<String> = given
        .split(',')
        .map(str::trim)
        .filter(|address| !address.is_empty())
        .map(str::to_owned)
        .collect();
    if addresses.is_empty() {
        return Err(Error::Setting(format!(
            "{prefix}bootstrap.servers is not set"
        )));
    }
    match addresses.iter().find(|address| !is_host_and_port(address)) {
        Some(other) => Err(Error::Setting(format!(
            "{prefix}bootstrap.servers={given}: {other} is not host:port"
        ))),
        None => Ok(addresses),
    }
}

fn is_host_and_port(address: &str) -> bool {
    address.rsplit_once(':').is_some_and(|(host, port)| {
        !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0)
    })
}

impl ConnectionSettings {
    /// Read settings of [`ClientSettings::TABLE`]; `bootstrap.servers` may be missing.
    ///
    /// # Errors
    ///
    /// If a value is invalid.
    pub fn read(values: &Values<'_>, registry: Registry, software: Software) -> Result<Self> {
        let protocol = match values.text("security.protocol")? {
            Some("SSL") => (true, false),
            Some("SASL_PLAINTEXT") => (false, true),
            Some("SASL_SSL") => (true, true),
            _ => (false, false),
        };
        let protocol = SecurityProtocol {
            tls: protocol.0,
            sasl: protocol.1,
        };
        Ok(Self {
            prefix: values.prefix(),
            registry,
            software,
            client_id: values
                .text("client.id")?
                .unwrap_or(software.name)
                .to_owned(),
            protocol,
            sasl: sasl(values, protocol)?,
            tls: tls(values, protocol)?,
            connect_timeout: values.milliseconds("socket.connection.setup.timeout.ms")?,
            request_timeout: values.milliseconds("request.timeout.ms")?,
            answered: ReachedBrokers::default(),
        })
    }
}

const TOKEN_URL: &str = "sasl.oauthbearer.token.endpoint.url";

/// Return the path of the token file. Executors do not contact an identity provider themselves, because only the
/// process that refreshes the file has the secret.
fn token_file(values: &Values<'_>) -> Result<String> {
    let prefix = values.prefix();
    match values.text(TOKEN_URL)?.unwrap_or_default() {
        "" => Err(Error::Setting(format!(
            "{prefix}sasl.mechanism=OAUTHBEARER needs {prefix}{TOKEN_URL}: file:///path of a token"
        ))),
        url => match url.strip_prefix("file://") {
            Some(path) if path.starts_with('/') => Ok(path.to_owned()),
            _ => Err(Error::Setting(format!(
                "{prefix}{TOKEN_URL}={url}: only files are supported. Set file:///path of a file with a token, which is \
                 read at each login"
            ))),
        },
    }
}

/// Return the credentials from librdkafka's two settings, or from a Java login line.
fn sasl(values: &Values<'_>, protocol: SecurityProtocol) -> Result<Sasl> {
    let credential = |direct: &str, name: &str| -> Result<String> {
        let of_line = || {
            let line = values.text("sasl.jaas.config")?;
            Ok(line.and_then(|line| jaas::option(line, name)))
        };
        let given = match values.text(direct)? {
            Some(given) => Some(given.to_owned()),
            None => of_line()?,
        };
        Ok(given.unwrap_or_default())
    };
    let mechanism = values.text("sasl.mechanism")?.unwrap_or_default();
    let username = credential("sasl.username", "username")?;
    // The login refuses unknown mechanisms, with a list of the known ones.
    let needs_user = mechanism == "PLAIN" || mechanism.starts_with("SCRAM-");
    if protocol.sasl && needs_user && username.is_empty() {
        let prefix = values.prefix();
        return Err(Error::Setting(format!(
            "{prefix}security.protocol={protocol} with {prefix}sasl.mechanism={mechanism} needs a user: set \
             {prefix}sasl.username, or username=\"...\" in {prefix}sasl.jaas.config"
        )));
    }
    let line = values.text("sasl.jaas.config")?.unwrap_or_default();
    Ok(Sasl {
        mechanism: mechanism.to_owned(),
        username,
        password: credential("sasl.password", "password")?,
        delegation_token: jaas::option(line, "tokenauth").as_deref() == Some("true"),
        token_file: if protocol.sasl && mechanism == "OAUTHBEARER" {
            token_file(values)?
        } else {
            String::new()
        },
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn settings(pairs: &[(&str, &str)]) -> Result<ClientSettings> {
        let mut given = BTreeMap::from([("bootstrap.servers".into(), "a:1, b:2".into())]);
        for (name, value) in pairs {
            given.insert((*name).into(), (*value).into());
        }
        let values = Values::new("x.", &[ClientSettings::TABLE], &given);
        let software = Software {
            name: "a-client",
            version: "1",
        };
        ClientSettings::read(&values, Registry::Client, software)
    }

    #[test]
    fn what_is_not_set_is_as_in_kafka() {
        let read = settings(&[]).expect("usable");
        assert_eq!(read.bootstrap, ["a:1", "b:2"]);
        assert_eq!(read.delivery_timeout, Duration::from_secs(120));
        assert_eq!(read.connection.client_id, "a-client");
        assert_eq!(read.connection.protocol.to_string(), "PLAINTEXT");
    }

    #[test]
    fn user_and_password_have_settings_of_their_own_or_a_login_line() {
        let line = "Module required username=\"u\" password=\"p\";";
        let login = [
            ("security.protocol", "SASL_SSL"),
            ("sasl.jaas.config", line),
        ];
        let sasl = settings(&login).expect("usable").connection.sasl;
        assert_eq!((sasl.username.as_str(), sasl.password.as_str()), ("u", "p"));
        assert!(
            !format!("{sasl:?}").contains('p'),
            "passwords are not shown"
        );
        let direct = [login[0], login[1], ("sasl.username", "other")];
        let sasl = settings(&direct).expect("usable").connection.sasl;
        assert_eq!(sasl.username, "other");
    }

    #[test]
    fn a_login_without_user_is_refused_before_a_broker_is_asked() {
        for line in [
            "",
            "Module required;",
            "Module required username=\"secret",
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
                    "x.security.protocol=SASL_PLAINTEXT with x.sasl.mechanism={mechanism} needs a user: set \
                     x.sasl.username, or username=\"...\" in x.sasl.jaas.config"
                );
                assert_eq!(problem, told);
                // Without SASL there is no login.
                settings(&given[1..]).expect("usable");
            }
        }
    }

    #[test]
    fn tokens_are_in_a_file() {
        let oauth = [
            ("security.protocol", "SASL_SSL"),
            ("sasl.mechanism", "OAUTHBEARER"),
        ];
        let url = |url| {
            settings(&[
                oauth[0],
                oauth[1],
                ("sasl.oauthbearer.token.endpoint.url", url),
            ])
        };
        let sasl = url("file:///run/token").expect("usable").connection.sasl;
        assert_eq!(sasl.token_file, "/run/token");
        for other in ["", "https://issuer.example/token", "file:token"] {
            let told = url(other).expect_err(other).to_string();
            assert!(told.contains("file:///path"), "{told}");
        }
        let line = "Module required username=\"id\" password=\"hmac\" tokenauth=\"true\";";
        let sasl = settings(&[("sasl.jaas.config", line)])
            .expect("usable")
            .connection
            .sasl;
        assert!(sasl.delegation_token);
    }

    #[test]
    fn unusable_values_name_their_setting() {
        for (name, value, expected) in [
            (
                "security.protocol",
                "TLS",
                "PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL",
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
                "a whole number from 1 to 2147483647",
            ),
            (
                "delivery.timeout.ms",
                "99999999999999999999",
                "a whole number from 1 to 2147483647",
            ),
            (
                "retry.backoff.ms",
                "0.5",
                "a whole number from 0 to 2147483647",
            ),
            ("ssl.truststore.type", "BKS", "PEM, JKS or PKCS12"),
            ("ssl.keystore.type", "jks", "PEM, JKS or PKCS12"),
        ] {
            let text = settings(&[(name, value)]).expect_err(name).to_string();
            assert_eq!(text, format!("x.{name}={value}: expected {expected}"));
        }
        for servers in ["nowhere", ":9092", "a:0", "a:65536", "a:1,b"] {
            let text = settings(&[("bootstrap.servers", servers)])
                .expect_err("no address")
                .to_string();
            assert!(text.ends_with("is not host:port"), "{text}");
        }
        let text = settings(&[("bootstrap.servers", " ,")])
            .expect_err("none")
            .to_string();
        assert_eq!(text, "x.bootstrap.servers is not set");
    }

    #[test]
    fn the_name_in_a_certificate_is_always_checked() {
        let unchecked = ("ssl.endpoint.identification.algorithm", "");
        let text = settings(&[("security.protocol", "SSL"), unchecked])
            .expect_err("unchecked")
            .to_string();
        assert!(text.starts_with("x.ssl.endpoint.identification.algorithm must stay https"));
        // Without TLS there is no certificate to verify.
        settings(&[unchecked]).expect("usable");
    }
}
