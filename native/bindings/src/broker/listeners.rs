//! Listeners from settings: resolve the host, apply the security protocol, and explain failures.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;

use pybroker_protocol::ErrorCode;
use pybroker_server::config::{self, Registry, SecurityProtocol};
use pybroker_server::tls::{ClientAuth, TlsListener, TlsMaterial, TlsServer};
use pybroker_server::{Server, StartError};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::convert::shown;
use crate::errors::ListenerError;
use crate::plane::DataPlane;

/// A listener to open.
#[pyclass(
    frozen,
    get_all,
    eq,
    from_py_object,
    new = "from_fields",
    module = "pybroker._native"
)]
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ListenerConfig {
    name: String,
    host: String,
    port: u16,
    security_protocol: String,
    /// Whether the listener is an inter-broker listener, which serves no clients.
    between_brokers: bool,
}

/// Address of a broker's listener.
#[pyclass(
    frozen,
    get_all,
    eq,
    from_py_object,
    new = "from_fields",
    module = "pybroker._native"
)]
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Endpoint {
    pub(super) listener: String,
    pub(super) host: String,
    pub(super) port: i32,
}

/// TLS material of a listener, under the names of Kafka's `ssl.*` settings. `repr` hides it, because it contains a
/// private key.
#[pyclass(frozen, from_py_object, module = "pybroker._native")]
#[derive(Clone)]
pub(crate) struct ListenerTls {
    certificates: Vec<u8>,
    key: Vec<u8>,
    trusted: Vec<u8>,
    revoked: Option<Vec<u8>>,
    client_auth: String,
    protocols: Vec<String>,
    cipher_suites: Vec<String>,
    principal_rules: String,
}

#[pymethods]
impl ListenerTls {
    #[new]
    #[expect(clippy::too_many_arguments, reason = "the fields of a record, by name")]
    const fn new(
        certificates: Vec<u8>,
        key: Vec<u8>,
        trusted: Vec<u8>,
        revoked: Option<Vec<u8>>,
        client_auth: String,
        protocols: Vec<String>,
        cipher_suites: Vec<String>,
        principal_rules: String,
    ) -> Self {
        Self {
            certificates,
            key,
            trusted,
            revoked,
            client_auth,
            protocols,
            cipher_suites,
            principal_rules,
        }
    }

    /// Check whether a listener could use the material, without changing any listener.
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.checked())
            .map(drop)
            .map_err(|problem| ListenerError::new_err((problem.code, problem.text)))
    }
}

impl ListenerTls {
    fn checked(&self) -> Result<TlsServer, Problem> {
        let client_auth = match self.client_auth.as_str() {
            "none" => ClientAuth::None,
            "requested" => ClientAuth::Requested,
            _ => ClientAuth::Required,
        };
        let material = TlsMaterial {
            certificates: self.certificates.clone(),
            key: self.key.clone(),
            trusted: self.trusted.clone(),
            revoked: self.revoked.clone(),
            client_auth,
            protocols: self.protocols.clone(),
            cipher_suites: self.cipher_suites.clone(),
            principal_rules: self.principal_rules.clone(),
        };
        TlsServer::new(&material).map_err(|error| Problem::invalid(error.to_string()))
    }
}

shown!(ListenerConfig, Endpoint);

/// The listeners of one broker.
#[pyclass(frozen, module = "pybroker._native")]
pub(crate) struct NativeListeners(Arc<DataPlane>);

impl NativeListeners {
    pub(super) const fn new(plane: Arc<DataPlane>) -> Self {
        Self(plane)
    }

    fn opened(&self) -> PyResult<Arc<Server>> {
        self.0.server().ok_or_else(|| {
            PyRuntimeError::new_err(
                "listeners.open has not been called, or the broker is shut down",
            )
        })
    }
}

#[pymethods]
impl NativeListeners {
    fn secure(&self, listener: &str, tls: &ListenerTls) -> PyResult<()> {
        let server = tls
            .checked()
            .map_err(|problem| ListenerError::new_err((problem.code, problem.text)))?;
        let mut secured = self.0.tls.lock();
        match secured.get(listener) {
            Some(known) => known.replace(server),
            None => {
                secured.insert(listener.to_owned(), TlsListener::new(server));
            }
        }
        Ok(())
    }

    fn open(&self, py: Python<'_>, listeners: Vec<ListenerConfig>) -> PyResult<Vec<Endpoint>> {
        if self.0.server().is_some() {
            return Err(PyRuntimeError::new_err(
                "listeners.open has been called before",
            ));
        }
        let replicas = self.0.replicas()?;
        let server = py
            .detach(|| {
                let configs = listeners
                    .iter()
                    .map(|listener| {
                        let tls = self.0.tls.lock().get(&listener.name).cloned();
                        resolved(listener, tls)
                    })
                    .collect::<Result<Vec<_>, _>>()?;
                self.0
                    .start_server(configs, replicas)
                    .map_err(|error| Problem::of_start(&error))
            })
            .map_err(|problem| ListenerError::new_err((problem.code, problem.text)))?;
        let bound = server.addresses().iter().zip(listeners);
        Ok(bound
            .map(|((name, address), wanted)| Endpoint {
                listener: name.to_string(),
                host: wanted.host,
                port: address.port().into(),
            })
            .collect())
    }

    fn start_accepting_brokers(&self) -> PyResult<()> {
        self.opened()?.start_accepting_brokers();
        Ok(())
    }

    fn start_accepting(&self) -> PyResult<()> {
        self.opened()?.start_accepting();
        Ok(())
    }

    fn stop_accepting(&self) {
        if let Some(server) = self.0.server() {
            server.stop_accepting();
        }
    }
}

/// Reason why a listener cannot open. It becomes a `ListenerError`.
struct Problem {
    code: i16,
    text: String,
}

impl Problem {
    fn invalid(text: String) -> Self {
        Self {
            code: ErrorCode::INVALID_CONFIG.0,
            text,
        }
    }

    fn of_start(error: &StartError) -> Self {
        Self {
            code: ErrorCode::UNKNOWN_SERVER_ERROR.0,
            text: match error {
                StartError::Bind {
                    name,
                    address,
                    error,
                } if error.kind() == std::io::ErrorKind::AddrInUse => {
                    format!("listener {name}: {address} is in use by another process")
                }
                other => other.to_string(),
            },
        }
    }
}

fn resolved(
    listener: &ListenerConfig,
    tls: Option<TlsListener>,
) -> Result<config::ListenerConfig, Problem> {
    let ListenerConfig {
        name,
        host,
        port,
        security_protocol,
        between_brokers,
    } = listener;
    let security = match security_protocol.as_str() {
        "PLAINTEXT" => SecurityProtocol::Plaintext,
        "SASL_PLAINTEXT" => SecurityProtocol::SaslPlaintext,
        "SSL" => SecurityProtocol::Ssl,
        "SASL_SSL" => SecurityProtocol::SaslSsl,
        other => {
            return Err(Problem::invalid(format!(
                "listener {name}: unknown security protocol {other}"
            )));
        }
    };
    let tls = match security {
        SecurityProtocol::Ssl | SecurityProtocol::SaslSsl if tls.is_none() => {
            let told = format!("listener {name}: it has no certificate");
            return Err(Problem::invalid(told));
        }
        SecurityProtocol::Ssl | SecurityProtocol::SaslSsl => tls,
        SecurityProtocol::Plaintext | SecurityProtocol::SaslPlaintext => None,
    };
    let address = resolve(host, *port)
        .map_err(|error| Problem::invalid(format!("listener {name}: {host}: {error}")))?;
    Ok(config::ListenerConfig {
        name: name.as_str().into(),
        address,
        security,
        tls,
        registry: if *between_brokers {
            Registry::InterBroker
        } else {
            Registry::Client
        },
    })
}

/// Return the first address of a host. For an empty host, return the wildcard address.
fn resolve(host: &str, port: u16) -> std::io::Result<SocketAddr> {
    let host = if host.is_empty() {
        "0.0.0.0"
    } else {
        host.trim_matches(['[', ']'])
    };
    (host, port)
        .to_socket_addrs()?
        .next()
        .ok_or_else(|| std::io::Error::new(std::io::ErrorKind::NotFound, "has no address"))
}
