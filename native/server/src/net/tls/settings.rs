//! TLS configuration: from PEM text and Kafka's settings to rustls.

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion};

use super::principal::PrincipalRules;
use super::refused::SubjectRecorder;

/// `ssl.client.auth`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientAuth {
    /// Do not request a certificate.
    None,
    /// Request a certificate. Clients without one are accepted, clients with an invalid one are not.
    Requested,
    /// Require a certificate.
    Required,
}

/// TLS material and settings of a listener.
#[derive(Clone)]
pub struct TlsMaterial {
    /// Certificate chain, PEM.
    pub certificates: Vec<u8>,
    /// Private key, PEM, not encrypted.
    pub key: Vec<u8>,
    /// Certificate authorities for client certificates, PEM; empty with `ClientAuth::None`.
    pub trusted: Vec<u8>,
    /// Certificate revocation lists, PEM; `None`: no revocation check.
    pub revoked: Option<Vec<u8>>,
    /// Whether clients must present certificates.
    pub client_auth: ClientAuth,
    /// `ssl.enabled.protocols`: TLSv1.2, TLSv1.3.
    pub protocols: Vec<String>,
    /// `ssl.cipher.suites` under Java's (IANA's) names; empty: all supported ones.
    pub cipher_suites: Vec<String>,
    /// `ssl.principal.mapping.rules`.
    pub principal_rules: String,
}

impl core::fmt::Debug for TlsMaterial {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        formatter
            .debug_struct("TlsMaterial")
            .field("client_auth", &self.client_auth)
            .field("protocols", &self.protocols)
            .field("cipher_suites", &self.cipher_suites)
            .finish_non_exhaustive()
    }
}

/// An unusable setting.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{setting}: {problem}")]
pub struct TlsError {
    /// Name of the setting or group of settings.
    pub setting: &'static str,
    /// The problem, without secrets.
    pub problem: String,
}

/// Validated TLS configuration of a listener.
#[derive(Debug)]
pub struct TlsServer {
    pub(super) config: Arc<ServerConfig>,
    pub(super) rules: PrincipalRules,
}

impl TlsServer {
    /// Validate the material.
    ///
    /// # Errors
    ///
    /// [`TlsError`], which names the setting.
    pub fn new(material: &TlsMaterial) -> Result<Self, TlsError> {
        let provider = Arc::new(provider(&material.cipher_suites)?);
        let versions = versions(&material.protocols)?;
        let chain = certificates("ssl.keystore", &material.certificates)?;
        let key = PrivateKeyDer::from_pem_slice(&material.key).map_err(|error| {
            problem(
                "ssl.keystore",
                format!("there is no private key in it (PEM): {error}"),
            )
        })?;
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&versions)
            .map_err(|error| problem("ssl.cipher.suites", error.to_string()))?;
        let builder = match material.client_auth {
            ClientAuth::None => builder.with_no_client_auth(),
            asked => builder.with_client_cert_verifier(verifier(material, asked, provider)?),
        };
        let config = builder
            .with_single_cert(chain, key)
            .map_err(|error| problem("ssl.keystore", error.to_string()))?;
        let rules = PrincipalRules::parse(&material.principal_rules)
            .map_err(|text| problem("ssl.principal.mapping.rules", text))?;
        Ok(TlsServer {
            config: Arc::new(config),
            rules,
        })
    }
}

fn problem(setting: &'static str, problem: String) -> TlsError {
    TlsError { setting, problem }
}

fn certificates(
    setting: &'static str,
    pem: &[u8],
) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let found = found.map_err(|error| problem(setting, error.to_string()))?;
    if found.is_empty() {
        return Err(problem(
            setting,
            "there is no certificate in it (PEM)".into(),
        ));
    }
    Ok(found)
}

fn verifier(
    material: &TlsMaterial,
    asked: ClientAuth,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates("ssl.truststore", &material.trusted)? {
        roots
            .add(certificate)
            .map_err(|error| problem("ssl.truststore", error.to_string()))?;
    }
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    let builder = if asked == ClientAuth::Requested {
        builder.allow_unauthenticated()
    } else {
        builder
    };
    let (builder, setting) = match &material.revoked {
        None => (builder, "ssl.truststore"),
        // With revocation lists, a certificate is rejected if its authority has no list or an outdated one.
        Some(pem) => {
            let builder = builder.with_crls(revocation_lists(pem)?);
            (builder.enforce_revocation_expiration(), CRL)
        }
    };
    let built = builder.build();
    let built = built.map_err(|error| problem(setting, error.to_string()))?;
    Ok(Arc::new(SubjectRecorder(built)))
}

const CRL: &str = "ssl.crl.location";

fn revocation_lists(pem: &[u8]) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsError> {
    let found: Result<Vec<_>, _> = CertificateRevocationListDer::pem_slice_iter(pem).collect();
    let found = found.map_err(|error| problem(CRL, error.to_string()))?;
    if found.is_empty() {
        return Err(problem(
            CRL,
            "there is no list of revoked certificates (X509 CRL) in it (PEM)".into(),
        ));
    }
    Ok(found)
}

/// Return the protocol versions for Kafka's names.
fn versions(names: &[String]) -> Result<Vec<&'static SupportedProtocolVersion>, TlsError> {
    let found: Vec<_> = names
        .iter()
        .filter_map(|name| match name.as_str() {
            "TLSv1.2" => Some(&rustls::version::TLS12),
            "TLSv1.3" => Some(&rustls::version::TLS13),
            _ => None,
        })
        .collect();
    if found.is_empty() || found.len() != names.len() {
        let told = format!("{}: this broker has TLSv1.2 and TLSv1.3", names.join(","));
        return Err(problem("ssl.enabled.protocols", told));
    }
    Ok(found)
}

/// Return a suite's name in Java, which is its IANA name.
fn name_of(suite: rustls::SupportedCipherSuite) -> String {
    format!("{:?}", suite.suite()).replace("TLS13_", "TLS_")
}

fn provider(names: &[String]) -> Result<CryptoProvider, TlsError> {
    let mut provider = ring::default_provider();
    if names.is_empty() {
        return Ok(provider);
    }
    let all: Vec<String> = provider
        .cipher_suites
        .iter()
        .copied()
        .map(name_of)
        .collect();
    if let Some(unknown) = names.iter().find(|name| !all.contains(name)) {
        let told = format!("{unknown} is not served; there are {}", all.join(", "));
        return Err(problem("ssl.cipher.suites", told));
    }
    provider
        .cipher_suites
        .retain(|suite| names.contains(&name_of(*suite)));
    Ok(provider)
}
