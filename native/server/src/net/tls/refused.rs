//! Explanation of rejected certificates: rustls reports that a certificate was rejected, but not which one.

use std::cell::RefCell;
use std::fmt::Write;
use std::sync::Arc;

use rustls::CertificateError as Problem;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};

use super::principal;

thread_local! {
    /// Subject that the verifier on this thread rejected last. The session takes it within the same call.
    static REFUSED: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Maximum characters of a subject in a log line, because the client chooses its text.
const SUBJECT_CHARACTERS_MAX: usize = 200;
/// Maximum bytes of serial numbers (RFC 5280).
const SERIAL_BYTES_MAX: usize = 20;
const DAY_S: u64 = 86_400;

/// Take the subject of the certificate that was just rejected.
pub(super) fn take_refused() -> Option<String> {
    REFUSED.take()
}

/// A verifier that records the subject of a rejected certificate.
#[derive(Debug)]
pub(super) struct SubjectRecorder(pub(super) Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for SubjectRecorder {
    fn offer_client_auth(&self) -> bool {
        self.0.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.0.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let outcome = self.0.verify_client_cert(end_entity, intermediates, now);
        noted(outcome, end_entity)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let outcome = self
            .0
            .verify_tls12_signature(message, certificate, signature);
        noted(outcome, certificate)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let outcome = self
            .0
            .verify_tls13_signature(message, certificate, signature);
        noted(outcome, certificate)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }

    fn requires_raw_public_keys(&self) -> bool {
        self.0.requires_raw_public_keys()
    }
}

fn noted<T>(outcome: Result<T, Error>, certificate: &CertificateDer<'_>) -> Result<T, Error> {
    REFUSED.set(outcome.is_err().then(|| name_of(certificate)));
    outcome
}

/// Return subject and serial number in the format of revocation lists, for one log line.
fn name_of(certificate: &CertificateDer<'_>) -> String {
    let Some((serial, subject)) = principal::serial_and_subject(certificate) else {
        return "a subject that cannot be read".into();
    };
    let mut name = String::new();
    for (count, character) in subject.chars().enumerate() {
        if count == SUBJECT_CHARACTERS_MAX {
            name.push('…');
            break;
        }
        match character {
            '"' | '\'' | '\\' => name.push(character),
            other => name.extend(other.escape_debug()),
        }
    }
    name.push_str(", serial number ");
    let serial = serial.strip_prefix(&[0]).unwrap_or(serial);
    for byte in serial.iter().take(SERIAL_BYTES_MAX) {
        // Writing to a String cannot fail.
        let _ = write!(name, "{byte:02X}");
    }
    name
}

/// Return the reason why a certificate was rejected, in words. `subject` is the subject of the client certificate.
/// `None` if the error is not about a certificate.
pub(crate) fn refusal(error: &Error, subject: &str) -> Option<String> {
    let Error::InvalidCertificate(problem) = error else {
        return None;
    };
    Some(match problem {
        Problem::ExpiredContext { time, not_after } => format!(
            "a certificate has expired {} ago by this machine's clock: that of {subject}, or one between it and the \
             truststore",
            between(*not_after, *time)
        ),
        // rustls uses this variant for an invalid validity period, and the variant above for certificates that have
        // expired.
        Problem::Expired => format!(
            "a certificate ends before it begins: that of {subject}, or one between it and the truststore"
        ),
        Problem::NotValidYetContext { time, not_before } => format!(
            "a certificate becomes valid in {} by this machine's clock: that of {subject}, or one between it and the \
             truststore",
            between(*time, *not_before)
        ),
        Problem::UnknownIssuer => {
            format!("no authority in ssl.truststore.location vouches for {subject}")
        }
        Problem::Revoked => format!(
            "a certificate is revoked, says ssl.crl.location: that of {subject}, or one between it and the truststore"
        ),
        Problem::UnknownRevocationStatus => {
            format!("ssl.crl.location has no list of an authority that vouches for {subject}")
        }
        Problem::ExpiredRevocationList | Problem::ExpiredRevocationListContext { .. } => format!(
            "the list in ssl.crl.location is out of date, of an authority that vouches for {subject}: put its newer one \
             there"
        ),
        Problem::BadSignature => format!("a signature is wrong, of {subject}"),
        Problem::InvalidPurpose | Problem::InvalidPurposeContext { .. } => format!(
            "a certificate is not one for clients (extendedKeyUsage): that of {subject}, or one between it and the \
             truststore"
        ),
        Problem::UnsupportedSignatureAlgorithmContext { .. }
        | Problem::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            format!("a certificate is signed in a way that is not supported: {subject}")
        }
        Problem::Other(other) => match other.0.downcast_ref() {
            Some(webpki::Error::UnsupportedCertVersion) => format!(
                "the certificate of {subject} is not of X.509 version 3: openssl makes such ones without -extfile"
            ),
            Some(webpki::Error::CaUsedAsEndEntity) => format!(
                "the certificate of {subject} is that of an authority (CA:TRUE): sign one for the client with it"
            ),
            _ => format!(
                "the certificate of {subject} is not acceptable: {}",
                other.0
            ),
        },
        other => format!("the certificate of {subject} is not acceptable: {other:?}"),
    })
}

fn between(earlier: UnixTime, later: UnixTime) -> String {
    match later.as_secs().saturating_sub(earlier.as_secs()) {
        seconds @ 0..DAY_S => format!("{seconds} s"),
        seconds => format!("{} d", seconds / DAY_S),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn element(tag: u8, content: &[u8]) -> Vec<u8> {
        let length = u16::try_from(content.len()).expect("short").to_be_bytes();
        [&[tag, 0x82], &length[..], content].concat()
    }

    /// Return the start of a certificate of `version` (version 1 has no field for it) with this common name.
    fn certificate(version: u8, name: &str) -> CertificateDer<'static> {
        let common_name = [element(6, &[0x55, 4, 3]), element(0x0c, name.as_bytes())].concat();
        let subject = element(0x30, &element(0x31, &element(0x30, &common_name)));
        let empty = element(0x30, &[]);
        let version = match version {
            1 => Vec::new(),
            other => element(0xa0, &element(2, &[other - 1])),
        };
        let serial = element(2, &[0, 0xc1, 2]);
        let signed = [
            version,
            serial,
            empty.clone(),
            empty.clone(),
            empty,
            subject,
        ]
        .concat();
        CertificateDer::from(element(0x30, &element(0x30, &signed)))
    }

    #[test]
    fn who_is_refused_is_named_in_one_bounded_line() {
        for version in [1, 3] {
            let name = name_of(&certificate(version, "etl"));
            assert_eq!(name, "CN=etl, serial number C102");
        }
        let two_lines = name_of(&certificate(3, "a\nWARN b\u{2028}\u{202e}\u{1b}[2J, c\"d"));
        assert_eq!(
            two_lines,
            r#"CN=a\nWARN b\u{2028}\u{202e}\u{1b}[2J\, c\"d, serial number C102"#
        );
        let long = name_of(&certificate(3, &"x".repeat(60_000)));
        assert_eq!(long.chars().filter(|c| *c == 'x').count(), 197);
        assert!(long.ends_with("x…, serial number C102"), "{long}");
        let whole = certificate(3, "etl");
        for end in 0..whole.len() - 1 {
            let cut = CertificateDer::from(&whole[..end]);
            assert_eq!(name_of(&cut), "a subject that cannot be read");
        }
    }

    #[test]
    fn why_is_said_in_words() {
        let at =
            |days: u64| UnixTime::since_unix_epoch(core::time::Duration::from_secs(days * DAY_S));
        let other = |problem: webpki::Error| Problem::Other(rustls::OtherError(Arc::new(problem)));
        for (problem, words) in [
            (
                Problem::ExpiredContext {
                    time: at(9),
                    not_after: at(2),
                },
                "a certificate has expired 7 d ago by this machine's clock: that of CN=a, or one",
            ),
            (
                Problem::NotValidYetContext {
                    time: at(2),
                    not_before: at(3),
                },
                "a certificate becomes valid in 1 d by this machine's clock: that of CN=a, or one",
            ),
            (
                Problem::Expired,
                "a certificate ends before it begins: that of CN=a, or one",
            ),
            (
                Problem::UnknownIssuer,
                "no authority in ssl.truststore.location vouches for CN=a",
            ),
            (
                Problem::Revoked,
                "a certificate is revoked, says ssl.crl.location: that of CN=a, or one",
            ),
            (
                other(webpki::Error::UnsupportedCertVersion),
                "the certificate of CN=a is not of X.509 version 3",
            ),
            (
                other(webpki::Error::CaUsedAsEndEntity),
                "the certificate of CN=a is that of an authority",
            ),
            (
                other(webpki::Error::PathLenConstraintViolated),
                "the certificate of CN=a is not acceptable: PathLenConstraintViolated",
            ),
            (
                Problem::BadEncoding,
                "the certificate of CN=a is not acceptable: BadEncoding",
            ),
        ] {
            let told = refusal(&Error::InvalidCertificate(problem), "CN=a").expect("words");
            assert!(told.starts_with(words), "{told}");
        }
        assert_eq!(refusal(&Error::NoCertificatesPresented, "CN=a"), None);
    }
}
