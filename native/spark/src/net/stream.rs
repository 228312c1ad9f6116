//! Bytes to and from a broker, in the clear or by TLS.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::error::{Error, Result};
use crate::settings::Settings;

pub(crate) enum Stream {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Stream {
    pub(crate) fn open(address: &str, settings: &Settings) -> Result<Self> {
        let socket = connect(address, settings).map_err(|problem| Error::Network {
            broker: address.to_owned(),
            problem,
        })?;
        if !settings.protocol.tls {
            return Ok(Stream::Plain(socket));
        }
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let host = host
            .trim_start_matches('[')
            .trim_end_matches(']')
            .to_owned();
        let name = ServerName::try_from(host)
            .map_err(|problem| Error::Setting(format!("{address}: {problem}")))?;
        let connection = ClientConnection::new(Arc::new(tls_config(settings)?), name)
            .map_err(|problem| Error::Setting(format!("TLS to {address}: {problem}")))?;
        Ok(Stream::Tls(Box::new(StreamOwned::new(connection, socket))))
    }
}

fn connect(address: &str, settings: &Settings) -> std::io::Result<TcpStream> {
    let mut last = std::io::Error::new(std::io::ErrorKind::NotFound, "the name has no address");
    for place in address.to_socket_addrs()? {
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

fn tls_config(settings: &Settings) -> Result<ClientConfig> {
    let unusable =
        |what: &str, problem: &dyn std::fmt::Display| Error::Setting(format!("{what}: {problem}"));
    if !settings.ssl_check_host {
        return Err(Error::Setting(
            "kafka.ssl.endpoint.identification.algorithm must stay https: the broker's certificate is always checked \
             against its name"
                .into(),
        ));
    }
    let mut roots = RootCertStore::empty();
    let given = match (&settings.ssl_ca, &settings.ssl_ca_file) {
        (Some(text), _) => Some(CertificateDer::pem_slice_iter(text.as_bytes()).collect()),
        (None, Some(file)) => Some(CertificateDer::pem_file_iter(file).and_then(Iterator::collect)),
        (None, None) => None,
    };
    let certificates: Vec<CertificateDer<'static>> = match given {
        Some(read) => {
            let read: core::result::Result<Vec<_>, _> = read;
            read.map_err(|problem| unusable("ssl.truststore (PEM)", &problem))?
        }
        None => rustls_native_certs::load_native_certs().certs,
    };
    roots.add_parsable_certificates(certificates);
    let builder =
        ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|problem| unusable("TLS", &problem))?
            .with_root_certificates(roots);
    match (&settings.ssl_certificate_file, &settings.ssl_key_file) {
        (Some(certificate), Some(key)) => {
            let chain = CertificateDer::pem_file_iter(certificate)
                .and_then(Iterator::collect)
                .map_err(|problem| unusable(certificate, &problem))?;
            let key =
                PrivateKeyDer::from_pem_file(key).map_err(|problem| unusable(key, &problem))?;
            builder
                .with_client_auth_cert(chain, key)
                .map_err(|problem| unusable(certificate, &problem))
        }
        _ => Ok(builder.with_no_client_auth()),
    }
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
