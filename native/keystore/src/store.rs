//! A store with its password, and its errors.

use std::fmt;

/// `ssl.keystore.type` and `ssl.truststore.type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// PEM text. A key in it may have a password.
    Pem,
    /// JKS or PKCS#12. Since version 9, Java reads both under either name, and so does this crate.
    Java,
}

impl Kind {
    /// Parse Kafka's type names, case-insensitively. Return `None` for other names.
    #[must_use]
    pub fn of(word: &str) -> Option<Self> {
        match word.to_ascii_uppercase().as_str() {
            "PEM" => Some(Kind::Pem),
            "JKS" | "PKCS12" => Some(Kind::Java),
            _ => None,
        }
    }
}

/// A store with its password.
#[derive(Clone, Copy)]
pub struct Store<'a> {
    /// Prefix of the store's settings, before `location`: `ssl.keystore.`, optionally with a prefix of its own.
    pub prefix: &'a str,
    /// Name of the store in errors: the setting and its value.
    pub place: &'a str,
    /// Type of the store.
    pub kind: Kind,
    /// Content of the store.
    pub content: &'a [u8],
    /// `<prefix>password`.
    pub password: Option<&'a str>,
}

impl fmt::Debug for Store<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Store({}, {:?})", self.place, self.kind)
    }
}

/// Error of an unusable store: one line that names the setting, without secrets.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0}")]
pub struct StoreError(String);

/// A private key (PKCS#8) and its certificate chain.
pub(crate) struct KeyEntry {
    pub(crate) alias: String,
    pub(crate) key: Vec<u8>,
    pub(crate) chain: Vec<Vec<u8>>,
}

impl Store<'_> {
    /// Return an error if a PEM store has a password, as Kafka does.
    pub(crate) fn without_key_password(&self) -> Result<(), StoreError> {
        if self.password.is_none() {
            return Ok(());
        }
        Err(StoreError(format!(
            "{}password has no meaning for PEM, where only a key may have a password ({}); remove it",
            self.prefix,
            self.key_setting()
        )))
    }

    pub(crate) fn other_kind(&self, kind: &str) -> StoreError {
        self.problem(format!("it is {kind}; set {}type={kind}", self.prefix))
    }

    pub(crate) fn problem(&self, told: impl fmt::Display) -> StoreError {
        StoreError(format!("{}: {told}", self.place))
    }

    pub(crate) fn wrong_password(&self) -> StoreError {
        let told = if self.password.is_some() {
            "it is not the password of"
        } else {
            "it is not set, and needed for"
        };
        StoreError(format!("{}password: {told} {}", self.prefix, self.place))
    }

    /// Return `ssl.key.password`, with the prefix of `ssl.keystore.`.
    fn key_setting(&self) -> String {
        let before = self.prefix.trim_end_matches("keystore.");
        format!("{}key.password", before.trim_end_matches("truststore."))
    }

    pub(crate) fn wrong_key_password(&self, alias: &str, given: Option<&str>) -> StoreError {
        let told = if given.is_some() {
            "it does not open"
        } else {
            "it is not set, and needed for"
        };
        let alias = if alias.is_empty() {
            String::new()
        } else {
            format!(" {alias}")
        };
        StoreError(format!(
            "{}: {told} the private key{alias} in {}",
            self.key_setting(),
            self.place
        ))
    }
}
