//! PKCS#12 files as keytool and OpenSSL write them, read with the crate `p12-keystore`.

use p12_keystore::error::Error;
use p12_keystore::{KeyStore, KeyStoreEntry, Pkcs12Archive, Pkcs12ImportPolicy};

use crate::store::{KeyEntry, Store, StoreError};

const SEQUENCE: u8 = 0x30;

/// Return whether the content is DER. No other store type is DER.
pub(super) fn is_one(content: &[u8]) -> bool {
    content.first() == Some(&SEQUENCE)
}

/// Return every private key with its certificates.
pub(super) fn keys(
    store: &Store<'_>,
    key_password: Option<&str>,
) -> Result<Vec<KeyEntry>, StoreError> {
    let password = store.password.ok_or_else(|| store.wrong_password())?;
    let found = KeyStore::from_pkcs12(store.content, password, Pkcs12ImportPolicy::Relaxed)
        .map_err(|error| explained(store, &error))?;
    let entries: Vec<_> = found
        .entries()
        .filter_map(|(alias, entry)| match entry {
            KeyStoreEntry::PrivateKeyChain(chain) => Some(KeyEntry {
                alias: alias.clone(),
                key: chain.key().as_der().to_vec(),
                chain: chain
                    .certs()
                    .iter()
                    .map(|certificate| certificate.as_der().to_vec())
                    .collect(),
            }),
            _ => None,
        })
        .collect();
    match (entries.first(), key_password) {
        // In PKCS#12, keys and certificates share one password, so a different key password is an error.
        (Some(entry), Some(given)) if given != password => {
            Err(store.wrong_key_password(&entry.alias, key_password))
        }
        _ => Ok(entries),
    }
}

/// Return the certificates marked as trusted by Java; if none is marked (OpenSSL's files), the certificates without a
/// key.
pub(super) fn certificates(store: &Store<'_>) -> Result<Vec<Vec<u8>>, StoreError> {
    let found = Pkcs12Archive::from_pkcs12(store.content, store.password.unwrap_or_default())
        .map_err(|error| explained(store, &error))?;
    let marked = found.certs.iter().any(|one| one.trusted);
    let trusted = found.certs.iter().filter(|one| match marked {
        true => one.trusted,
        false => one.local_key_id.is_none(),
    });
    Ok(trusted.map(|one| one.cert.as_der().to_vec()).collect())
}

/// Decrypt a key (PKCS#8) that uses PKCS#12's own algorithms. `p12-keystore` decrypts only whole files, so the key is
/// wrapped in a PKCS#12 file without integrity check.
pub(super) fn decrypted_key(
    store: &Store<'_>,
    encrypted: &[u8],
    password: &str,
) -> Result<Vec<u8>, StoreError> {
    /// The DER object identifier 1.2.840.113549.1.7.1 (data).
    const DATA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x07, 0x01];
    /// The DER object identifier 1.2.840.113549.1.12.10.1.2 (encrypted key).
    const SHROUDED_KEY: &[u8] = &[
        0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x0c, 0x0a, 0x01, 0x02,
    ];
    const VERSION_3: &[u8] = &[INTEGER, 1, 3];
    let typed = |oid: &[u8], content: &[u8]| {
        element(
            SEQUENCE,
            &[element(OBJECT_ID, oid), element(EXPLICIT_0, content)].concat(),
        )
    };
    let contents = element(SEQUENCE, &typed(SHROUDED_KEY, encrypted));
    let safes = element(SEQUENCE, &typed(DATA, &element(OCTETS, &contents)));
    let file = element(
        SEQUENCE,
        &[VERSION_3, &typed(DATA, &element(OCTETS, &safes))].concat(),
    );
    match Pkcs12Archive::from_pkcs12(&file, password) {
        Ok(archive) => archive.keys.first().map_or_else(
            || Err(store.problem("its private key cannot be read")),
            |bag| Ok(bag.key.as_der().to_vec()),
        ),
        Err(Error::UnsupportedEncryptionScheme | Error::InvalidParameters) => Err(store.problem(
            "its private key is encrypted by an algorithm that is not read here; convert it with openssl pkcs8 -topk8 \
             -v2 aes-256-cbc",
        )),
        Err(_) => Err(store.wrong_key_password("", Some(password))),
    }
}

const INTEGER: u8 = 0x02;
const OCTETS: u8 = 0x04;
const OBJECT_ID: u8 = 0x06;
const EXPLICIT_0: u8 = 0xa0;

/// Encode an element of DER.
fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len().to_be_bytes();
    let significant = &length[length.iter().take_while(|byte| **byte == 0).count()..];
    let mut out = vec![tag];
    match significant {
        [] => out.push(0),
        [short] if *short < 0x80 => out.push(*short),
        long => {
            out.push(0x80 | long.len() as u8);
            out.extend_from_slice(long);
        }
    }
    out.extend_from_slice(content);
    out
}

/// Return the first element of DER without the bytes after it. If the bytes are not DER, return all of them.
pub(super) fn first_element(der: &[u8]) -> &[u8] {
    let length = match der {
        [_, short, ..] if *short < 0x80 => Some(2 + usize::from(*short)),
        [_, long, rest @ ..] => {
            let bytes = usize::from(*long & 0x7f);
            rest.get(..bytes).filter(|_| bytes <= 4).map(|length| {
                let value = length
                    .iter()
                    .fold(0_usize, |value, byte| value << 8 | usize::from(*byte));
                2 + bytes + value
            })
        }
        _ => None,
    };
    length.and_then(|length| der.get(..length)).unwrap_or(der)
}

fn explained(store: &Store<'_>, error: &Error) -> StoreError {
    match error {
        Error::MacError(_) | Error::UnpadError | Error::Pkcs5Error(_) => store.wrong_password(),
        other => store.problem(format!("it cannot be read as PKCS12: {other}")),
    }
}
