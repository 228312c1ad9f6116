//! PEM, including keys with a password (PKCS#8).

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use pkcs8::EncryptedPrivateKeyInfoRef;

use crate::pkcs12;
use crate::store::{Store, StoreError};

const BEGIN: &str = "-----BEGIN ";
const DASHES: &str = "-----";
const CERTIFICATE: &str = "CERTIFICATE";
const PRIVATE_KEY: &str = "PRIVATE KEY";
const ENCRYPTED_KEY: &str = "ENCRYPTED PRIVATE KEY";
/// Marker of OpenSSL's own key encryption, which is older than PKCS#8 and not supported.
const OLD: &str = "Proc-Type: 4,ENCRYPTED";
const LINE_CHARACTERS: usize = 64;

pub(super) fn looks_like_it(content: &[u8]) -> bool {
    content
        .windows(BEGIN.len())
        .any(|window| window == BEGIN.as_bytes())
}

pub(super) fn block(label: &str, der: &[u8]) -> String {
    let mut out = format!("-----BEGIN {label}-----\n");
    let mut rest = STANDARD.encode(der);
    while !rest.is_empty() {
        let tail = rest.split_off(rest.len().min(LINE_CHARACTERS));
        out.push_str(&rest);
        out.push('\n');
        rest = tail;
    }
    out + &format!("-----END {label}-----\n")
}

/// Return the private key, decrypted if it has a password, and the certificates.
pub(super) fn identity(
    store: &Store<'_>,
    key_password: Option<&str>,
) -> Result<Vec<u8>, StoreError> {
    let text = text(store);
    if text.contains(OLD) {
        return Err(store.problem(
            "its private key is encrypted in OpenSSL's older form; convert it with openssl pkcs8 -topk8",
        ));
    }
    let sections = sections(store, &text)?;
    let keys: Vec<_> = sections
        .iter()
        .filter(|section| section.label.ends_with(PRIVATE_KEY))
        .collect();
    let mut out = match keys[..] {
        [] => String::new(),
        [key] if key.label == ENCRYPTED_KEY => decrypted(store, key, key_password)?,
        [key] => format!("{}\n", key.whole),
        _ => {
            return Err(store.problem(format!(
                "there are {} private keys in it, and only one can be shown; leave one in it",
                keys.len()
            )));
        }
    };
    out.extend(certificates(&sections));
    Ok(out.into_bytes())
}

/// Return the certificates only.
pub(super) fn trusted(store: &Store<'_>) -> Result<Vec<u8>, StoreError> {
    let text = text(store);
    Ok(certificates(&sections(store, &text)?)
        .collect::<String>()
        .into_bytes())
}

/// Return the content as text. Comments may have any encoding, and editors put a byte order mark at the start.
fn text<'a>(store: &Store<'a>) -> Cow<'a, str> {
    String::from_utf8_lossy(store.content)
}

/// A PEM section: the text between its first and last line.
struct Section<'a> {
    label: &'a str,
    body: &'a str,
    whole: &'a str,
}

impl Section<'_> {
    fn der(&self) -> Option<Vec<u8>> {
        let body: String = self.body.split_whitespace().collect();
        STANDARD.decode(body).ok()
    }
}

fn sections<'a>(store: &Store<'_>, text: &'a str) -> Result<Vec<Section<'a>>, StoreError> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(BEGIN) {
        rest = &rest[at..];
        let label_on = &rest[BEGIN.len()..];
        let Some((label, after)) = label_on.split_once(DASHES) else {
            return Err(store.problem("it is cut off"));
        };
        let end = format!("-----END {label}-----");
        let Some((body, next)) = after.split_once(&end) else {
            let what = if label.ends_with(PRIVATE_KEY) {
                "its private key".to_owned()
            } else {
                format!("a {} in it", label.to_lowercase())
            };
            return Err(store.problem(format!("{what} is cut off")));
        };
        let whole = &rest[..rest.len() - next.len()];
        found.push(Section { label, body, whole });
        rest = next;
    }
    Ok(found)
}

/// Return the certificates. Kafka also accepts OpenSSL's older labels (X509 CERTIFICATE, TRUSTED CERTIFICATE); after a
/// TRUSTED CERTIFICATE, its OpenSSL trust settings follow in the same section.
fn certificates<'a>(sections: &'a [Section<'_>]) -> impl Iterator<Item = String> + 'a {
    sections
        .iter()
        .filter(|section| section.label.ends_with(CERTIFICATE))
        .map(|section| match section.der() {
            Some(der) if section.label != CERTIFICATE => {
                block(CERTIFICATE, pkcs12::first_element(&der))
            }
            _ => format!("{}\n", section.whole),
        })
}

fn decrypted(
    store: &Store<'_>,
    key: &Section<'_>,
    password: Option<&str>,
) -> Result<String, StoreError> {
    let der = key
        .der()
        .ok_or_else(|| store.problem("its private key is no PEM"))?;
    let Some(given) = password else {
        return Err(store.wrong_key_password("", None));
    };
    let plain = match EncryptedPrivateKeyInfoRef::try_from(der.as_slice()) {
        Ok(encrypted) => encrypted
            .decrypt(given)
            .map_err(|_| store.wrong_key_password("", password))?
            .as_bytes()
            .to_vec(),
        // The key may use PKCS#12's algorithms, which OpenSSL calls PBE-SHA1-3DES and PBE-SHA1-RC2-40.
        Err(_) => pkcs12::decrypted_key(store, &der, given)?,
    };
    Ok(block(PRIVATE_KEY, &plain))
}
