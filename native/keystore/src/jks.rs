//! Java's own keystores (JKS), version 1 and 2 (`sun.security.provider.JavaKeyStore`): numbers are big-endian, texts
//! have a two-byte length prefix.
//!
//! The layout is: magic, version, count, then the entries. An entry has 1 (key) or 2 (certificate), an alias and a date
//! (8 bytes). A key entry continues with the encrypted key (4-byte length), a count, and certificates; a certificate
//! entry with the certificate. A certificate has its type (since version 2), a 4-byte length, and DER. The file ends
//! with a SHA-1 of the password (UTF-16), a fixed phrase, and all bytes before.
//!
//! The only crate (`jks` 0.3) is not used: it uses unchecked numbers from the file as indexes and sizes, which can
//! abort the process. It also requires a password for truststores that Java reads without one.

use pkcs8::der::asn1::OctetStringRef;
use pkcs8::der::{Decode, SliceReader};
use pkcs8::spki::{AlgorithmIdentifierRef, ObjectIdentifier};
use ring::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY, SHA1_OUTPUT_LEN};

use crate::store::{KeyEntry, Store, StoreError};

const MAGIC: [u8; 4] = [0xfe, 0xed, 0xfe, 0xed];
const JCEKS_MAGIC: [u8; 4] = [0xce; 4];
const KEY: u32 = 1;
const CERTIFICATE: u32 = 2;
const PHRASE: &[u8] = b"Mighty Aphrodite";
/// Sun's encryption of keys: XOR with a stream of SHA-1.
const PROTECTION: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.4.1.42.2.17.1.1");

type Digest = [u8; SHA1_OUTPUT_LEN];

pub(super) fn is_one(content: &[u8]) -> bool {
    content.starts_with(&MAGIC)
}

pub(super) fn is_jceks(content: &[u8]) -> bool {
    content.starts_with(&JCEKS_MAGIC)
}

/// Return every private key with its certificates.
pub(super) fn keys(
    store: &Store<'_>,
    key_password: Option<&str>,
) -> Result<Vec<KeyEntry>, StoreError> {
    let password = store.password.ok_or_else(|| store.wrong_password())?;
    let mut found = Vec::new();
    for entry in entries(store)? {
        let Entry::Key {
            alias,
            protected,
            chain,
        } = entry
        else {
            continue;
        };
        let key = unprotected(protected, key_password.unwrap_or(password)).ok_or_else(|| {
            store.wrong_key_password(&alias, Some(key_password.unwrap_or(password)))
        })?;
        found.push(KeyEntry { alias, key, chain });
    }
    Ok(found)
}

/// Return the trusted certificates. As in Java, a store without password is not checked for modification.
pub(super) fn certificates(store: &Store<'_>) -> Result<Vec<Vec<u8>>, StoreError> {
    let found = entries(store)?;
    Ok(found
        .into_iter()
        .filter_map(|entry| match entry {
            Entry::Certificate(der) => Some(der),
            Entry::Key { .. } => None,
        })
        .collect())
}

enum Entry<'a> {
    Key {
        alias: String,
        protected: &'a [u8],
        chain: Vec<Vec<u8>>,
    },
    Certificate(Vec<u8>),
}

fn entries<'a>(store: &Store<'a>) -> Result<Vec<Entry<'a>>, StoreError> {
    let broken = || store.problem("it is JKS, but cut off or damaged");
    let (content, sum) = store
        .content
        .split_last_chunk::<SHA1_OUTPUT_LEN>()
        .ok_or_else(broken)?;
    // Report an unreadable file before a wrong checksum, because an unreadable file has no valid checksum either.
    let found = Bytes(content).entries().ok_or_else(broken)?;
    match store.password {
        Some(password) if digest(&[&utf16(password), PHRASE, content]) != *sum => {
            Err(store.wrong_password())
        }
        _ => Ok(found),
    }
}

/// The unread bytes. Reads return `None` if too few bytes are left.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn entries(mut self) -> Option<Vec<Entry<'a>>> {
        self.take(MAGIC.len())?;
        let version = self.number()?;
        if !matches!(version, 1 | 2) {
            return None;
        }
        let mut found = Vec::new();
        for _ in 0..self.number()? {
            let kind = self.number()?;
            let alias = self.text()?;
            self.take(8)?;
            found.push(match kind {
                KEY => {
                    let protected = self.counted()?;
                    let mut chain = Vec::new();
                    for _ in 0..self.number()? {
                        chain.push(self.certificate(version)?);
                    }
                    Entry::Key {
                        alias,
                        protected,
                        chain,
                    }
                }
                CERTIFICATE => Entry::Certificate(self.certificate(version)?),
                _ => return None,
            });
        }
        self.0.is_empty().then_some(found)
    }

    fn certificate(&mut self, version: u32) -> Option<Vec<u8>> {
        if version == 2 {
            self.text()?;
        }
        self.counted().map(<[u8]>::to_vec)
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u32> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_be_bytes(*bytes))
    }

    fn counted(&mut self) -> Option<&'a [u8]> {
        let count = self.number()?;
        self.take(usize::try_from(count).ok()?)
    }

    /// Read Java's modified UTF-8, which differs only in characters that no alias has.
    fn text(&mut self) -> Option<String> {
        let (count, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        let bytes = self.take(u16::from_be_bytes(*count).into())?;
        Some(String::from_utf8_lossy(bytes).into_owned())
    }
}

/// Decrypt a key; `None` if the password is wrong.
fn unprotected(protected: &[u8], password: &str) -> Option<Vec<u8>> {
    let data = protected_data(protected)?;
    let (salt, rest) = data.split_first_chunk::<SHA1_OUTPUT_LEN>()?;
    let (hidden, sum) = rest.split_last_chunk::<SHA1_OUTPUT_LEN>()?;
    let password = utf16(password);
    let mut stream = *salt;
    let mut key = hidden.to_vec();
    for part in key.chunks_mut(SHA1_OUTPUT_LEN) {
        stream = digest(&[&password, &stream]);
        for (byte, mask) in part.iter_mut().zip(stream) {
            *byte ^= mask;
        }
    }
    (digest(&[&password, &key]) == *sum).then_some(key)
}

/// Return the content of an `EncryptedPrivateKeyInfo` with that encryption.
fn protected_data(der: &[u8]) -> Option<&[u8]> {
    let mut outer = SliceReader::new(der).ok()?;
    let header = pkcs8::der::Header::decode(&mut outer).ok()?;
    let length = usize::try_from(header.length()).ok()?;
    let content = der.get(der.len().checked_sub(length)?..)?;
    let mut inner = SliceReader::new(content).ok()?;
    let algorithm = AlgorithmIdentifierRef::decode(&mut inner).ok()?;
    let data = <&OctetStringRef>::decode(&mut inner).ok()?;
    (algorithm.oid == PROTECTION).then(|| data.as_bytes())
}

fn digest(parts: &[&[u8]]) -> Digest {
    let mut context = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
    for part in parts {
        context.update(part);
    }
    let mut sum = [0; SHA1_OUTPUT_LEN];
    sum.copy_from_slice(context.finish().as_ref());
    sum
}

fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_be_bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_no_keystore_are_none() {
        // The store has one certificate of four bytes.
        let mut content = MAGIC.to_vec();
        content.extend(2_u32.to_be_bytes());
        content.extend(1_u32.to_be_bytes());
        content.extend(CERTIFICATE.to_be_bytes());
        content.extend([0, 2]);
        content.extend(b"ca");
        content.extend([0; 8]);
        content.extend([0, 5]);
        content.extend(b"X.509");
        content.extend(4_u32.to_be_bytes());
        content.extend(b"DER!");
        let sum = digest(&[&utf16("päss"), PHRASE, &content]);
        content.extend(sum);
        let read = |content: &[u8], password| {
            let store = Store {
                prefix: "ssl.truststore.",
                place: "ssl.truststore.location=t",
                kind: crate::store::Kind::Java,
                content,
                password,
            };
            certificates(&store).map_err(|problem| problem.to_string())
        };
        assert_eq!(read(&content, Some("päss")), Ok(vec![b"DER!".to_vec()]));
        assert_eq!(read(&content, None), Ok(vec![b"DER!".to_vec()]));
        let told = "ssl.truststore.password: it is not the password of ssl.truststore.location=t";
        assert_eq!(read(&content, Some("pass")), Err(told.into()));
        for end in 0..content.len() {
            assert!(read(&content[..end], None).is_err(), "{end}");
        }
        for at in 0..content.len() - SHA1_OUTPUT_LEN {
            for byte in [0, 0x7f, 0xff] {
                let mut changed = content.clone();
                if changed[at] != byte {
                    changed[at] = byte;
                    assert!(read(&changed, Some("päss")).is_err(), "{at}");
                }
            }
        }
        for der in [
            &[][..],
            &[0x30],
            &[0x30, 0x80],
            &[0x30, 2, 5, 0],
            &[0x30, 0x84, 255, 255, 255, 255],
        ] {
            assert!(unprotected(der, "x").is_none());
        }
    }
}
