//! Bytes to and from a broker, in the clear or by TLS.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::error::{Error, Result};
use crate::settings::{File, Settings};

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
    if !settings.ssl_check_host {
        return Err(Error::Setting(
            "kafka.ssl.endpoint.identification.algorithm must stay https: the broker's certificate is always checked \
             against its name"
                .into(),
        ));
    }
    let mut roots = RootCertStore::empty();
    let certificates: Vec<CertificateDer<'static>> = match (&settings.ssl_ca, &settings.ssl_ca_file)
    {
        (Some(text), _) => CertificateDer::pem_slice_iter(text.as_bytes())
            .collect::<Pem<_>>()
            .map_err(|problem| {
                Error::Setting(format!("kafka.ssl.truststore.certificates: {problem}"))
            })?,
        (None, Some(file)) => certificates_of(file)?,
        (None, None) => rustls_native_certs::load_native_certs().certs,
    };
    roots.add_parsable_certificates(certificates);
    let builder =
        ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|problem| Error::Setting(format!("TLS: {problem}")))?
            .with_root_certificates(roots);
    match (&settings.ssl_certificate_file, &settings.ssl_key_file) {
        (Some(certificate), Some(key)) => {
            let chain = certificates_of(certificate)?;
            let key = PrivateKeyDer::from_pem_file(&key.path)
                .map_err(|problem| key.unusable(&problem))?;
            builder
                .with_client_auth_cert(chain, key)
                .map_err(|problem| certificate.unusable(&problem))
        }
        _ => Ok(builder.with_no_client_auth()),
    }
}

/// What the reader of PEM files gives.
type Pem<T> = core::result::Result<Vec<T>, rustls::pki_types::pem::Error>;

fn certificates_of(file: &File) -> Result<Vec<CertificateDer<'static>>> {
    let found: Vec<_> = CertificateDer::pem_file_iter(&file.path)
        .and_then(Iterator::collect)
        .map_err(|problem| file.unusable(&problem))?;
    if found.is_empty() {
        return Err(file.unusable(&"there is no certificate in it (PEM)"));
    }
    Ok(found)
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
