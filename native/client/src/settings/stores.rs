//! Whom a client trusts, and what it shows: files and texts, read when a connection is opened, so that new ones are
//! taken up.

use std::fmt::Display;
use std::fs::File;
use std::io::Read;

use pybroker_keystore::{Kind, Store, identity, kind_of, trusted};

use super::{SecurityProtocol, Values};
use crate::error::{Error, Result};

/// What `ssl.keystore.type` and `ssl.truststore.type` may be.
pub(super) const KINDS: &[&str] = &["PEM", "JKS", "PKCS12"];
/// Longer than any keystore: something else was named by mistake.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// The same of lists of revoked certificates, which grow with their authority.
const LIST_BYTES_MAX: u64 = 64 << 20;
/// Lists of revoked certificates; librdkafka's name.
pub(super) const CRL: &str = "ssl.crl.location";

/// A keystore or truststore in a file, and the setting that names it.
#[derive(Clone, PartialEq, Eq)]
pub struct StoreFile {
    /// With the prefix that the user writes before it.
    pub setting: String,
    /// Where it is.
    pub path: String,
    /// Its other settings up to `type` and `password`: `ssl.keystore.`, with that prefix.
    pub store: String,
    /// What it is said to be; if nobody says it, what it looks like.
    pub kind: Option<Kind>,
    /// What opens it, if it is not PEM.
    pub password: Option<String>,
}

impl std::fmt::Debug for StoreFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "StoreFile({}={})", self.setting, self.path)
    }
}

impl StoreFile {
    /// What is wrong with it.
    pub(crate) fn unusable(&self, problem: &dyn Display) -> Error {
        Error::Setting(format!("{}: {problem}", self.place()))
    }

    /// The private key and its certificates as PEM, as far as they are in it.
    pub(crate) fn identity(&self, key_password: Option<&str>) -> Result<Vec<u8>> {
        let content = self.content(FILE_BYTES_MAX)?;
        let pem = identity(&self.opened(&content, &self.place()), key_password);
        pem.map_err(|problem| Error::Setting(problem.to_string()))
    }

    /// Trusted certificates as PEM.
    pub(crate) fn trusted(&self) -> Result<Vec<u8>> {
        let content = self.content(FILE_BYTES_MAX)?;
        let pem = trusted(&self.opened(&content, &self.place()));
        pem.map_err(|problem| Error::Setting(problem.to_string()))
    }

    fn place(&self) -> String {
        format!("{}={}", self.setting, self.path)
    }

    fn opened<'a>(&'a self, content: &'a [u8], place: &'a str) -> Store<'a> {
        Store {
            prefix: &self.store,
            place,
            kind: self.kind.unwrap_or_else(|| kind_of(content)),
            content,
            password: self.password.as_deref(),
        }
    }

    /// Lists of revoked certificates as they are.
    pub(crate) fn lists(&self) -> Result<Vec<u8>> {
        self.content(LIST_BYTES_MAX)
    }

    fn content(&self, bytes_max: u64) -> Result<Vec<u8>> {
        let mut content = Vec::new();
        File::open(&self.path)
            .and_then(|file| file.take(bytes_max + 1).read_to_end(&mut content))
            .map_err(|problem| self.unusable(&problem))?;
        if content.len() as u64 > bytes_max {
            return Err(self.unusable(&format_args!("longer than {bytes_max} bytes")));
        }
        Ok(content)
    }
}

/// A private key and its certificates as PEM text.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyText {
    /// `ssl.keystore.key`.
    pub key: String,
    /// `ssl.keystore.certificate.chain`.
    pub chain: String,
}

impl std::fmt::Debug for KeyText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KeyText")
    }
}

/// Whom a client trusts, and what it shows.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Tls {
    /// Certificates of the trusted CAs, as text; before `ca_file`. Without both: those that the system trusts.
    pub ca: Option<String>,
    /// The same in a file.
    pub ca_file: Option<StoreFile>,
    /// The client's own certificate and key as text; before the files.
    pub text: Option<KeyText>,
    /// The client's own certificate and what it is signed by.
    pub certificate: Option<StoreFile>,
    /// Its key; the same file if they are in one.
    pub key: Option<StoreFile>,
    /// `ssl.key.password`.
    pub key_password: Option<String>,
    /// `ssl.crl.location`: lists of revoked certificates, PEM. Without it nobody asks.
    pub revoked: Option<StoreFile>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tls({:?}, {:?})", self.ca_file, self.certificate)
    }
}

pub(super) fn tls(values: &Values<'_>, protocol: SecurityProtocol) -> Result<Tls> {
    let algorithm = values.text("ssl.endpoint.identification.algorithm")?;
    if protocol.tls && matches!(algorithm, Some("" | "none")) {
        return Err(Error::Setting(format!(
            "{}ssl.endpoint.identification.algorithm must stay https: the broker's certificate is always checked \
             against its name",
            values.prefix()
        )));
    }
    let text = |name: &str| -> Result<Option<String>> { Ok(values.text(name)?.map(str::to_owned)) };
    // Kafka's name, which may be of any kind, and librdkafka's, which is PEM.
    let file =
        |kafkas: &'static str, other: &'static str, store: &str| -> Result<Option<StoreFile>> {
            let kind = values.text(&format!("{store}type"))?.and_then(Kind::of);
            let password = text(&format!("{store}password"))?;
            let found = |name: &str, kind, password, path: &str| StoreFile {
                setting: format!("{}{name}", values.prefix()),
                path: path.to_owned(),
                store: format!("{}{store}", values.prefix()),
                kind,
                password,
            };
            if let Some(path) = values.text(kafkas)? {
                return Ok(Some(found(kafkas, kind, password, path)));
            }
            let path = values.text(other)?;
            Ok(path.map(|path| found(other, Some(Kind::Pem), None, path)))
        };
    let keystore = "ssl.keystore.location";
    let key = match (
        text("ssl.keystore.key")?,
        text("ssl.keystore.certificate.chain")?,
    ) {
        (Some(key), Some(chain)) => Some(KeyText { key, chain }),
        _ => None,
    };
    Ok(Tls {
        ca: text("ssl.truststore.certificates")?,
        ca_file: file(
            "ssl.truststore.location",
            "ssl.ca.location",
            "ssl.truststore.",
        )?,
        text: key,
        certificate: file(keystore, "ssl.certificate.location", "ssl.keystore.")?,
        key: file(keystore, "ssl.key.location", "ssl.keystore.")?,
        key_password: text("ssl.key.password")?,
        revoked: values.text(CRL)?.map(|path| StoreFile {
            setting: format!("{}{CRL}", values.prefix()),
            path: path.to_owned(),
            store: String::new(),
            kind: Some(Kind::Pem),
            password: None,
        }),
    })
}
