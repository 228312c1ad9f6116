//! PEM, and keys in it that have a password (PKCS#8).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use pkcs8::EncryptedPrivateKeyInfoRef;

use crate::store::{Store, StoreError};

const BEGIN: &str = "-----BEGIN ENCRYPTED PRIVATE KEY-----";
const END: &str = "-----END ENCRYPTED PRIVATE KEY-----";
/// How OpenSSL encrypted keys before PKCS#8.
const OLD: &str = "Proc-Type: 4,ENCRYPTED";
const LINE_CHARACTERS: usize = 64;

pub(super) fn looks_like_it(content: &[u8]) -> bool {
    const MARK: &[u8] = b"-----BEGIN ";
    content.windows(MARK.len()).any(|window| window == MARK)
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

/// The content, with its key decrypted if it has a password.
pub(super) fn identity(
    store: &Store<'_>,
    key_password: Option<&str>,
) -> Result<Vec<u8>, StoreError> {
    let Ok(text) = core::str::from_utf8(store.content) else {
        return Err(store.problem("it is no text, and so no PEM"));
    };
    if text.contains(OLD) {
        return Err(store.problem(
            "its private key is encrypted in OpenSSL's older form; convert it with openssl pkcs8 -topk8",
        ));
    }
    let Some((before, rest)) = text.split_once(BEGIN) else {
        return Ok(store.content.to_vec());
    };
    let Some((body, after)) = rest.split_once(END) else {
        return Err(store.problem("its private key is cut off"));
    };
    let body: String = body.split_whitespace().collect();
    let der = STANDARD
        .decode(body)
        .map_err(|_| store.problem("its private key is no PEM"))?;
    let Some(password) = key_password else {
        return Err(store.wrong_key_password("", None));
    };
    let encrypted = EncryptedPrivateKeyInfoRef::try_from(der.as_slice())
        .map_err(|error| store.problem(format!("its private key cannot be read: {error}")))?;
    let key = encrypted
        .decrypt(password)
        .map_err(|_| store.wrong_key_password("", key_password))?;
    Ok(format!("{before}{}{after}", block("PRIVATE KEY", key.as_bytes())).into_bytes())
}
