//! Trusted authorities and the client's certificate. The files are read when a connection opens, so that new content
//! takes effect.

use std::fmt::Display;
use std::fs::File;
use std::io::Read;

use pybroker_keystore::{Kind, Store, identity, kind_of, trusted};

use super::{SecurityProtocol, Values};
use crate::error::{Error, Result};

/// Allowed values of `ssl.keystore.type` and `ssl.truststore.type`.
pub(super) const KINDS: &[&str] = &["PEM", "JKS", "PKCS12"];
/// Maximum size of a keystore. A larger file was probably named by mistake.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Maximum size of certificate revocation lists, which grow with the number of certificates.
const LIST_BYTES_MAX: u64 = 64 << 20;
/// librdkafka's name of the setting for certificate revocation lists.
pub(super) const CRL: &str = "ssl.crl.location";

/// A keystore or truststore in a file, and the setting that names it.
#[derive(Clone, PartialEq, Eq)]
pub struct StoreFile {
    /// Name of the setting, with the user's prefix.
    pub setting: String,
    /// Path of the file.
    pub path: String,
    /// Prefix of the store's other settings, `type` and `password`: `ssl.keystore.`, optionally with a prefix of its
    /// own.
    pub store: String,
    /// Type of the store; if unset, detected from the content.
    pub kind: Option<Kind>,
    /// Password, for types other than PEM.
    pub password: Option<String>,
}

impl std::fmt::Debug for StoreFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "StoreFile({}={})", self.setting, self.path)
    }
}

impl StoreFile {
    /// Return the error for an unusable store.
    pub(crate) fn unusable(&self, problem: &dyn Display) -> Error {
        Error::Setting(format!("{}: {problem}", self.place()))
    }

    /// Return the private key and its certificates as PEM. Parts that the file does not contain are left out.
    pub(crate) fn identity(&self, key_password: Option<&str>) -> Result<Vec<u8>> {
        let content = self.content(FILE_BYTES_MAX)?;
        let pem = identity(&self.opened(&content, &self.place()), key_password);
        pem.map_err(|problem| Error::Setting(problem.to_string()))
    }

    /// Return trusted certificates as PEM.
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

    /// Return certificate revocation lists unchanged.
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

/// Trusted authorities and the client's certificate.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Tls {
    /// Certificates of the trusted CAs, as text. They override `ca_file`. If neither is set, the system's authorities
    /// are trusted.
    pub ca: Option<String>,
    /// Certificates of the trusted CAs in a file.
    pub ca_file: Option<StoreFile>,
    /// The client's certificate and key as text; overrides the files.
    pub text: Option<KeyText>,
    /// The client's certificate chain.
    pub certificate: Option<StoreFile>,
    /// The certificate's key, which may be in the same file.
    pub key: Option<StoreFile>,
    /// `ssl.key.password`.
    pub key_password: Option<String>,
    /// `ssl.crl.location`: certificate revocation lists, PEM. Without it revocation is not checked.
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
    // Kafka's setting names a store of any type; librdkafka's setting names a PEM file.
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
