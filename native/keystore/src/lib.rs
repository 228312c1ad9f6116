//! Kafka's keystores and truststores: PEM, PKCS#12 and JKS, converted to PEM without a password for TLS. Callers read
//! the files.

mod ec;
mod jks;
mod pem;
mod pkcs12;
mod store;

pub use store::{Kind, Store, StoreError};

/// Detect the type of a store from its content.
#[must_use]
pub fn kind_of(content: &[u8]) -> Kind {
    if !pem::looks_like_it(content) && (jks::is_one(content) || pkcs12::is_one(content)) {
        Kind::Java
    } else {
        Kind::Pem
    }
}

/// Return the private key and its certificates, as PEM. `key_password` is `ssl.key.password`. Without it, stores other
/// than PEM use their own password.
///
/// # Errors
///
/// [`StoreError`] if the store is of another type, the password is wrong, or the store has no key or several.
pub fn identity(store: &Store<'_>, key_password: Option<&str>) -> Result<Vec<u8>, StoreError> {
    if is_pem(store)? {
        store.without_key_password()?;
        return pem::identity(store, key_password);
    }
    let mut found = if jks::is_one(store.content) {
        jks::keys(store, key_password)?
    } else {
        pkcs12::keys(store, key_password)?
    };
    let entry = found
        .pop()
        .ok_or_else(|| store.problem("there is no private key in it"))?;
    if !found.is_empty() {
        let mut aliases: Vec<_> = found.iter().map(|one| one.alias.as_str()).collect();
        aliases.push(&entry.alias);
        aliases.sort_unstable();
        let told = format!(
            "there are {} private keys in it ({}), and only one can be shown; leave one in it",
            aliases.len(),
            aliases.join(", ")
        );
        return Err(store.problem(told));
    }
    if entry.chain.is_empty() {
        let told = format!(
            "there is no certificate for the private key {}",
            entry.alias
        );
        return Err(store.problem(told));
    }
    let completed = ec::completed(&entry.key, &entry.chain[0]);
    let mut text = pem::block("PRIVATE KEY", completed.as_deref().unwrap_or(&entry.key));
    for certificate in &entry.chain {
        text += &pem::block("CERTIFICATE", certificate);
    }
    Ok(text.into_bytes())
}

/// Return the trusted certificates, as PEM.
///
/// # Errors
///
/// [`StoreError`] if the store is of another type, the password is wrong, or the store has no certificates.
pub fn trusted(store: &Store<'_>) -> Result<Vec<u8>, StoreError> {
    if is_pem(store)? {
        store.without_key_password()?;
        return pem::trusted(store);
    }
    let found = if jks::is_one(store.content) {
        jks::certificates(store)?
    } else {
        pkcs12::certificates(store)?
    };
    if found.is_empty() {
        return Err(store.problem("there is no trusted certificate in it"));
    }
    let blocks = found.iter().map(|der| pem::block("CERTIFICATE", der));
    Ok(blocks.collect::<String>().into_bytes())
}

fn is_pem(store: &Store<'_>) -> Result<bool, StoreError> {
    let looks = pem::looks_like_it(store.content);
    match store.kind {
        Kind::Pem if jks::is_one(store.content) => Err(store.other_kind("JKS")),
        Kind::Pem if pkcs12::is_one(store.content) => Err(store.other_kind("PKCS12")),
        Kind::Java if looks => Err(store.other_kind("PEM")),
        Kind::Java if jks::is_jceks(store.content) => Err(store.problem(
            "it is JCEKS, which is not read here; convert it with keytool -importkeystore",
        )),
        Kind::Java if !jks::is_one(store.content) && !pkcs12::is_one(store.content) => {
            Err(store.problem("it is neither PKCS12 nor JKS"))
        }
        kind => Ok(kind == Kind::Pem),
    }
}
