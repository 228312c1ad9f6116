//! PKCS#12 as keytool and OpenSSL write it, by `p12-keystore`.

use p12_keystore::error::Error;
use p12_keystore::{KeyStore, KeyStoreEntry, Pkcs12Archive, Pkcs12ImportPolicy};

use crate::store::{KeyEntry, Store, StoreError};

const SEQUENCE: u8 = 0x30;

/// Whether it is DER, which nothing else is that could be meant.
pub(super) fn is_one(content: &[u8]) -> bool {
    content.first() == Some(&SEQUENCE)
}

/// Every private key with its certificates.
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
        // Keys and certificates have one password there.
        (Some(entry), Some(given)) if given != password => {
            Err(store.wrong_key_password(&entry.alias, key_password))
        }
        _ => Ok(entries),
    }
}

/// What Java has marked as trusted; of a file in which nothing is marked (OpenSSL's), the certificates that belong to no
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

fn explained(store: &Store<'_>, error: &Error) -> StoreError {
    match error {
        Error::MacError(_) | Error::UnpadError | Error::Pkcs5Error(_) => store.wrong_password(),
        other => store.problem(format!("it cannot be read as PKCS12: {other}")),
    }
}
