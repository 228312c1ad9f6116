//! Elliptic curve keys written by Java lack their public key, which the TLS library requires. This module copies it
//! from the certificate.

use pkcs8::PrivateKeyInfoRef;
use pkcs8::der::asn1::{AnyRef, ObjectIdentifier, OctetStringRef};
use pkcs8::der::{Decode, Encode, Reader, SliceReader};
use x509_cert::Certificate;

const EC_PUBLIC_KEY: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OCTET_STRING: u8 = 0x04;
const SEQUENCE: u8 = 0x30;
/// Tag of the public key in an ECPrivateKey (RFC 5915).
const PUBLIC: u8 = 0xa1;

/// Return the key (PKCS#8) with its public key added. Return `None` if it has another type, already has a public key,
/// or is invalid.
pub(super) fn completed(key: &[u8], certificate: &[u8]) -> Option<Vec<u8>> {
    let info = PrivateKeyInfoRef::try_from(key).ok()?;
    if info.algorithm.oid != EC_PUBLIC_KEY {
        return None;
    }
    let secret = without_public(info.private_key.as_bytes())?;
    let certificate = Certificate::from_der(certificate).ok()?;
    let public = certificate
        .tbs_certificate()
        .subject_public_key_info()
        .subject_public_key
        .as_bytes()?;
    let bits = element(BIT_STRING, &[&[0], public]);
    let private = element(
        SEQUENCE,
        &[
            &element(INTEGER, &[&[1]]),
            &element(OCTET_STRING, &[secret]),
            &element(PUBLIC, &[&bits]),
        ],
    );
    let algorithm = info.algorithm.to_der().ok()?;
    Some(element(
        SEQUENCE,
        &[
            &element(INTEGER, &[&[0]]),
            &algorithm,
            &element(OCTET_STRING, &[&private]),
        ],
    ))
}

/// Return the private number of an ECPrivateKey without public key.
fn without_public(der: &[u8]) -> Option<&[u8]> {
    let mut reader = SliceReader::new(AnyRef::from_der(der).ok()?.value()).ok()?;
    u8::decode(&mut reader).ok()?;
    let secret = <&OctetStringRef>::decode(&mut reader).ok()?;
    while !reader.is_finished() {
        let more = AnyRef::decode(&mut reader).ok()?;
        if more.to_der().ok()?.first() == Some(&PUBLIC) {
            return None;
        }
    }
    Some(secret.as_bytes())
}

/// Encode an element of DER.
fn element(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut out = vec![tag];
    match u8::try_from(length) {
        Ok(short) if short < 0x80 => out.push(short),
        _ => {
            let bytes = length.to_be_bytes();
            let used = bytes.iter().skip_while(|byte| **byte == 0);
            let used: Vec<u8> = used.copied().collect();
            out.push(0x80 | used.len() as u8);
            out.extend(used);
        }
    }
    for part in parts {
        out.extend_from_slice(part);
    }
    out
}
