//! Whose certificate it was that is revoked: rustls tells that one was, not which.

use std::cell::RefCell;
use std::fmt::Write;
use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};

use super::principal;

thread_local! {
    /// The subject that the verifier has refused last on this thread. A session takes it in the same call in which the
    /// verifier puts it there.
    static REFUSED: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// The subject of the certificate that was refused just now, if it was for a list of revoked ones.
pub(super) fn take_refused() -> Option<String> {
    REFUSED.take()
}

/// A verifier that says whom it has refused.
#[derive(Debug)]
pub(super) struct Naming(pub(super) Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for Naming {
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
        let named = match &outcome {
            Err(Error::InvalidCertificate(_)) => Some(name_of(end_entity)),
            _ => None,
        };
        REFUSED.set(named);
        outcome
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0
            .verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0
            .verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }

    fn requires_raw_public_keys(&self) -> bool {
        self.0.requires_raw_public_keys()
    }
}

/// Subject and serial number, as lists of revoked certificates have it.
fn name_of(certificate: &CertificateDer<'_>) -> String {
    let mut name = principal::subject(certificate).unwrap_or_else(|| "that cannot be read".into());
    if let Ok(certificate) = webpki::EndEntityCert::try_from(certificate) {
        name.push_str(", serial number ");
        for byte in certificate.serial() {
            // A String takes everything.
            let _ = write!(name, "{byte:02X}");
        }
    }
    name
}
