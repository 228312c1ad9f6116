//! Bytes to and from a broker, in plaintext or through TLS.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::Arc;

use pybroker_keystore::{Kind, Store, identity};
use rustls::client::WebPkiServerVerifier;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::error::{Error, Result};
use crate::settings::{ConnectionSettings, KeyText, StoreFile, Tls};

pub(super) enum Stream {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Stream {
    pub(super) fn open(address: &str, settings: &ConnectionSettings) -> Result<Self> {
        // Read the TLS settings first, so that invalid ones are reported even if the broker is unreachable.
        let tls = match settings.protocol.tls {
            true => Some(tls(address, settings)?),
            false => None,
        };
        let places = address
            .to_socket_addrs()
            .map_err(|problem| Error::UnknownHost {
                broker: address.to_owned(),
                problem,
            })?;
        let socket = connect(places, settings).map_err(|problem| Error::Network {
            broker: address.to_owned(),
            problem,
        })?;
        Ok(match tls {
            Some(tls) => Stream::Tls(Box::new(StreamOwned::new(tls, socket))),
            None => Stream::Plain(socket),
        })
    }

    pub(super) fn socket(&self) -> &TcpStream {
        match self {
            Stream::Plain(socket) => socket,
            Stream::Tls(tls) => &tls.sock,
        }
    }
}

fn tls(address: &str, settings: &ConnectionSettings) -> Result<ClientConnection> {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let name = ServerName::try_from(host.to_owned())
        .map_err(|problem| Error::Setting(format!("{address}: {problem}")))?;
    ClientConnection::new(Arc::new(tls_config(settings)?), name)
        .map_err(|problem| Error::Setting(format!("TLS to {address}: {problem}")))
}

fn connect(
    places: impl Iterator<Item = SocketAddr>,
    settings: &ConnectionSettings,
) -> std::io::Result<TcpStream> {
    let mut last = std::io::Error::new(std::io::ErrorKind::NotFound, "the name has no address");
    for place in places {
        match TcpStream::connect_timeout(&place, settings.connect_timeout) {
            Ok(socket) => {
                socket.set_nodelay(true)?;
                socket.set_read_timeout(Some(settings.request_timeout))?;
                socket.set_write_timeout(Some(settings.request_timeout))?;
                return Ok(socket);
            }
            Err(problem) => last = problem,
        }
    }
    Err(last)
}

fn tls_config(settings: &ConnectionSettings) -> Result<ClientConfig> {
    let tls = &settings.tls;
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(trusted(tls, settings.prefix)?);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|problem| Error::Setting(format!("TLS: {problem}")))?;
    let builder = match &tls.revoked {
        None => builder.with_root_certificates(roots),
        // With revocation lists, a certificate is rejected if its authority has no list or an outdated one.
        Some(file) => builder.with_webpki_verifier(
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
                .with_crls(revoked(file)?)
                .enforce_revocation_expiration()
                .build()
                .map_err(|problem| file.unusable(&problem))?,
        ),
    };
    match client_identity(tls, settings.prefix)? {
        Some(ClientIdentity { chain, key, place }) => builder
            .with_client_auth_cert(chain, key)
            .map_err(|problem| Error::Setting(format!("{place}: {problem}"))),
        None => Ok(builder.with_no_client_auth()),
    }
}

/// The client's certificate and key, and their source.
struct ClientIdentity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    place: String,
}

fn client_identity(tls: &Tls, prefix: &str) -> Result<Option<ClientIdentity>> {
    let password = tls.key_password.as_deref();
    let (chain, key, place) = match tls {
        Tls {
            text: Some(KeyText { key, chain }),
            ..
        } => {
            let place = format!("{prefix}ssl.keystore.key");
            let store = Store {
                prefix: &format!("{prefix}ssl.keystore."),
                place: &place,
                kind: Kind::Pem,
                content: key.as_bytes(),
                password: None,
            };
            let key = identity(&store, password)
                .map_err(|problem| Error::Setting(problem.to_string()))?;
            (chain.clone().into_bytes(), key, place)
        }
        Tls {
            certificate: Some(certificate),
            key: Some(key),
            ..
        } => {
            let place = format!("{}={}", certificate.setting, certificate.path);
            let client_identity = key.identity(password)?;
            let chain = if certificate == key {
                client_identity.clone()
            } else {
                certificate.trusted()?
            };
            (chain, client_identity, place)
        }
        _ => return Ok(None),
    };
    let unusable = |problem: &dyn core::fmt::Display| Error::Setting(format!("{place}: {problem}"));
    let chain = certificates(CertificateDer::pem_slice_iter(&chain).collect())
        .map_err(|problem| unusable(&problem))?;
    let key = PrivateKeyDer::from_pem_slice(&key).map_err(|problem| unusable(&problem))?;
    Ok(Some(ClientIdentity { chain, key, place }))
}

/// Return the certificate authorities that are trusted for brokers.
fn trusted(tls: &Tls, prefix: &str) -> Result<Vec<CertificateDer<'static>>> {
    match (&tls.ca, &tls.ca_file) {
        (Some(text), _) => {
            let found = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
            certificates(found).map_err(|why| {
                Error::Setting(format!("{prefix}ssl.truststore.certificates: {why}"))
            })
        }
        (None, Some(file)) => certificates_of(file),
        (None, None) => Ok(rustls_native_certs::load_native_certs().certs),
    }
}

fn revoked(file: &StoreFile) -> Result<Vec<CertificateRevocationListDer<'static>>> {
    let pem = file.lists()?;
    let found: Pem<_> = CertificateRevocationListDer::pem_slice_iter(&pem).collect();
    match found {
        Ok(lists) if lists.is_empty() => {
            Err(file.unusable(&"there is no list of revoked certificates (X509 CRL) in it (PEM)"))
        }
        Ok(lists) => Ok(lists),
        Err(problem) => Err(file.unusable(&problem)),
    }
}

/// Result of the PEM reader.
type Pem<T> = core::result::Result<Vec<T>, rustls::pki_types::pem::Error>;

/// Return the certificates, at least one.
fn certificates(
    found: Pem<CertificateDer<'static>>,
) -> core::result::Result<Vec<CertificateDer<'static>>, String> {
    match found {
        Ok(found) if found.is_empty() => Err("there is no certificate in it (PEM)".into()),
        Ok(found) => Ok(found),
        Err(problem) => Err(problem.to_string()),
    }
}

fn certificates_of(file: &StoreFile) -> Result<Vec<CertificateDer<'static>>> {
    let pem = file.trusted()?;
    certificates(CertificateDer::pem_slice_iter(&pem).collect())
        .map_err(|problem| file.unusable(&problem))
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.read(buffer),
            Stream::Tls(tls) => tls.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, buffer: &[u8]) -> std::io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.write(buffer),
            Stream::Tls(tls) => tls.write(buffer),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match self {
            Stream::Plain(socket) => socket.flush(),
            Stream::Tls(tls) => tls.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_holds_no_certificate_trusts_nobody_and_is_refused() {
        // A key alone is valid PEM, but not a certificate.
        let key = "-----BEGIN PRIVATE KEY-----\nMC4=\n-----END PRIVATE KEY-----\n";
        for text in ["", "not PEM", key] {
            let tls = Tls {
                ca: Some(text.into()),
                ..Tls::default()
            };
            let problem = trusted(&tls, "x.").expect_err(text).to_string();
            let told = "x.ssl.truststore.certificates: there is no certificate in it (PEM)";
            assert_eq!(problem, told);
        }
        let tls = Tls {
            ca_file: Some(StoreFile {
                setting: "x.ssl.truststore.location".into(),
                path: "/dev/null".into(),
                store: "x.ssl.truststore.".into(),
                kind: None,
                password: None,
            }),
            ..Tls::default()
        };
        let problem = trusted(&tls, "x.").expect_err("empty").to_string();
        let told = "x.ssl.truststore.location=/dev/null: there is no certificate in it (PEM)";
        assert_eq!(problem, told);
    }
}
