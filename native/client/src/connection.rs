//! One connection to one broker: TCP or TLS, login, version discovery, requests and responses.

mod explain;
mod login;
mod stream;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::ops::{Range, RangeInclusive};

use pybroker_protocol::codec::{Direction, Registry};
use pybroker_protocol::header::{RequestHeader, RequestPrefix, read_response_header};
use pybroker_protocol::hot::api_versions::{ApiVersionsRequest, ApiVersionsResponse};
use pybroker_protocol::primitives::Reader;
use pybroker_protocol::{ApiKey, ErrorCode};

use crate::error::{Error, Result};
use crate::settings::ConnectionSettings;
use stream::Stream;

/// Half of the minimum number of bytes by which the frame buffer grows.
const FIRST_BYTES: usize = 32 * 1024;
/// Maximum size of a response: the records of one Fetch, plus a margin.
const FRAME_BYTES_MAX: usize = 1 << 30;
/// Version of the first ApiVersions request. Every broker since 2.4 supports it; older ones answer with the versions
/// that they support.
const API_VERSIONS: i16 = 3;

/// A request whose response is not read yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InFlight {
    correlation_id: i32,
    version: i16,
    /// Whether the response header ends with tagged fields.
    tags: bool,
}

impl InFlight {
    /// Return the version of the response.
    #[must_use]
    pub const fn version(self) -> i16 {
        self.version
    }
}

/// Handle to close a connection from another thread; the owner's pending call then fails.
#[derive(Debug)]
pub struct Closer(TcpStream);

impl Closer {
    /// Shut the connection down in both directions. Harmless if it is already closed.
    pub fn close(&self) {
        // This fails if the connection is closed already. In that case no call waits for it.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

/// An authenticated connection with the broker's supported versions. Responses arrive in the order of the requests.
pub struct Connection {
    stream: Stream,
    address: String,
    client_id: String,
    registry: Registry,
    versions: BTreeMap<i16, (i16, i16)>,
    correlation_id: i32,
    /// Whether no bytes have arrived since the last request was sent.
    silent: bool,
}

impl Connection {
    /// Connect, request the supported versions, and log in.
    ///
    /// # Errors
    ///
    /// If the network fails, or the broker refuses the login, or a certificate is rejected.
    pub fn open(address: &str, settings: &ConnectionSettings) -> Result<Self> {
        let mut connection = Self {
            stream: Stream::open(address, settings)?,
            address: address.to_owned(),
            client_id: settings.client_id.clone(),
            registry: settings.registry,
            versions: BTreeMap::new(),
            correlation_id: 0,
            silent: true,
        };
        connection.learn_versions(settings)?;
        if settings.protocol.sasl {
            login::log_in(&mut connection, settings)?;
        }
        Ok(connection)
    }

    /// Return host and port.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Return a handle that closes this connection from another thread.
    ///
    /// # Errors
    ///
    /// If no file descriptor is left.
    pub fn closer(&self) -> Result<Closer> {
        let socket = self.stream.socket().try_clone();
        socket.map(Closer).map_err(|problem| self.network(problem))
    }

    /// Return whether `problem` means that the broker closed the connection before it read the last request. This is
    /// the case if no bytes of an answer have arrived.
    pub(crate) fn was_closed(&self, problem: &Error) -> bool {
        let Error::Network { problem, .. } = problem else {
            return false;
        };
        self.silent && is_closed(problem)
    }

    /// Return the highest version in `ours` that the broker supports; `None` if there is none.
    #[must_use]
    pub fn version(&self, api_key: i16, ours: RangeInclusive<i16>) -> Option<i16> {
        let (low, high) = *self.versions.get(&api_key)?;
        let version = high.min(*ours.end());
        (version >= low.max(*ours.start())).then_some(version)
    }

    /// Return the highest version in `ours` that the broker supports.
    ///
    /// # Errors
    ///
    /// If there is none; the error names the request.
    pub fn version_of(&self, key: ApiKey, ours: RangeInclusive<i16>) -> Result<i16> {
        self.version(key as i16, ours.clone()).ok_or_else(|| {
            Error::refused(
                ErrorCode::UNSUPPORTED_VERSION,
                format!("{} of {}", key.name(), self.address),
                Some(&format!(
                    "versions {}-{} are needed",
                    ours.start(),
                    ours.end()
                )),
            )
        })
    }

    /// Send a request whose body is the concatenation of the parts. Several requests may be in flight.
    ///
    /// # Errors
    ///
    /// If the network fails; the connection is unusable afterwards. If the registry does not have the version.
    pub fn send(&mut self, api_key: i16, version: i16, body: &[&[u8]]) -> Result<InFlight> {
        let flexible = self.is_flexible(api_key, version)?;
        self.correlation_id = self.correlation_id.wrapping_add(1) & i32::MAX;
        self.silent = true;
        let prefix = RequestPrefix {
            api_key,
            api_version: version,
            correlation_id: self.correlation_id,
        };
        let mut head = vec![0; 4];
        let client_id = Some(self.client_id.as_str());
        RequestHeader { prefix, client_id }.write(&mut head, flexible);
        let size = head.len() - 4 + body.iter().map(|part| part.len()).sum::<usize>();
        let size = i32::try_from(size).map_err(|_| Error::TooLarge)?;
        head[..4].copy_from_slice(&size.to_be_bytes());
        // Send a small first part of the body together with the header, which saves a packet per request.
        let (first, rest) = body.split_first().map_or((&[][..], body), |(f, r)| (*f, r));
        head.extend_from_slice(first);
        let written = self.stream.write_all(&head).and_then(|()| {
            rest.iter()
                .try_for_each(|part| self.stream.write_all(part))?;
            self.stream.flush()
        });
        written.map_err(|problem| self.network(problem))?;
        Ok(InFlight {
            correlation_id: self.correlation_id,
            version,
            // The response header of ApiVersions has no tags in any version (KIP-511).
            tags: flexible && api_key != ApiKey::ApiVersions as i16,
        })
    }

    fn is_flexible(&self, api_key: i16, version: i16) -> Result<bool> {
        let request = self.registry.message(api_key, Direction::Request);
        let known = request.filter(|request| request.versions.contains(version));
        known
            .map(|request| request.is_flexible(version))
            .ok_or_else(|| {
                let what = format!("version {version} of API key {api_key}");
                Error::refused(ErrorCode::UNSUPPORTED_VERSION, what, None)
            })
    }

    /// Return the body of the next response, which must belong to `sent`.
    ///
    /// # Errors
    ///
    /// If the network fails or the response is invalid. The connection is unusable afterwards.
    pub fn receive(&mut self, sent: InFlight) -> Result<Vec<u8>> {
        let mut frame = Vec::new();
        let body = self.receive_into(sent, &mut frame)?;
        frame.drain(..body.start);
        Ok(frame)
    }

    /// Receive into a reused buffer, overwriting its content. Return the range of the body. A buffer that is long
    /// enough is not resized.
    ///
    /// # Errors
    ///
    /// Like [`Connection::receive`].
    pub fn receive_into(&mut self, sent: InFlight, frame: &mut Vec<u8>) -> Result<Range<usize>> {
        let size = self.receive_frame(frame)?;
        let start = self.body_start(&frame[..size], sent)?;
        Ok(start..size)
    }

    fn receive_frame(&mut self, frame: &mut Vec<u8>) -> Result<usize> {
        let mut size = [0; 4];
        let mut got = 0;
        while got < size.len() {
            match self.stream.read(&mut size[got..]) {
                Ok(0) => return Err(self.network(std::io::ErrorKind::UnexpectedEof.into())),
                Ok(read) => got += read,
                Err(problem) if problem.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(problem) => return Err(self.network(problem)),
            }
            self.silent = false;
        }
        let size = usize::try_from(i32::from_be_bytes(size))
            .ok()
            .filter(|size| (4..=FRAME_BYTES_MAX).contains(size))
            .ok_or_else(|| Error::Protocol {
                broker: self.address.clone(),
                problem: format!("a frame of {} bytes", i32::from_be_bytes(size)),
            })?;
        // Grow the buffer with the received bytes, not with the announced length.
        let mut got = 0;
        while got < size {
            if frame.len() == got {
                frame.resize(size.min(got.max(FIRST_BYTES) * 2), 0);
            }
            let end = size.min(frame.len());
            match self.stream.read(&mut frame[got..end]) {
                Ok(0) => return Err(self.network(std::io::ErrorKind::UnexpectedEof.into())),
                Ok(read) => got += read,
                Err(problem) if problem.kind() == std::io::ErrorKind::Interrupted => {}
                Err(problem) => return Err(self.network(problem)),
            }
        }
        Ok(size)
    }

    /// Send a request and return its response's body; no other request may be in flight.
    ///
    /// # Errors
    ///
    /// Like [`Connection::send`] and [`Connection::receive`].
    pub fn call(&mut self, api_key: i16, version: i16, body: &[u8]) -> Result<Vec<u8>> {
        let sent = self.send(api_key, version, &[body])?;
        self.receive(sent)
    }

    fn body_start(&self, frame: &[u8], sent: InFlight) -> Result<usize> {
        let mut reader = Reader::new(frame);
        let correlation_id = read_response_header(&mut reader, sent.tags)
            .map_err(|error| Error::decode(&self.address, error))?;
        if correlation_id != sent.correlation_id {
            return Err(Error::Protocol {
                broker: self.address.clone(),
                problem: format!(
                    "an answer to request {correlation_id}, not {}",
                    sent.correlation_id
                ),
            });
        }
        Ok(reader.position())
    }

    /// Request the supported versions again, even if they are known. No other request may be in flight.
    pub fn learn_versions(&mut self, settings: &ConnectionSettings) -> Result<()> {
        let request = ApiVersionsRequest {
            client_software_name: settings.software.name,
            client_software_version: settings.software.version,
            cluster_id: None,
            node_id: -1,
        };
        let mut body = Vec::new();
        request.encode(API_VERSIONS, &mut body);
        let key = ApiKey::ApiVersions as i16;
        let answer = explain::explained(self.call(key, API_VERSIONS, &body), settings)?;
        settings.answered.note(&self.address);
        let unsupported = answer.starts_with(&ErrorCode::UNSUPPORTED_VERSION.0.to_be_bytes());
        let answer = if unsupported {
            // Brokers before 2.4 answer in version 0 (KIP-511), so ask again in that version.
            self.call(key, 0, &[])?
        } else {
            answer
        };
        let version = if unsupported { 0 } else { API_VERSIONS };
        let response = ApiVersionsResponse::decode(&answer, version)
            .map_err(|error| Error::decode(&self.address, error))?;
        if response.error_code != 0 {
            return Err(Error::refused(
                ErrorCode(response.error_code),
                format!("ApiVersions of {}", self.address),
                None,
            ));
        }
        self.versions = response
            .api_keys
            .iter()
            .map(|api| (api.api_key, (api.min_version, api.max_version)))
            .collect();
        Ok(())
    }

    fn network(&self, problem: std::io::Error) -> Error {
        // The system reports a read timeout as WouldBlock, whose text would not help a user.
        let problem = match problem.kind() {
            std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => std::io::Error::new(
                std::io::ErrorKind::TimedOut,
                "no answer within request.timeout.ms",
            ),
            _ => problem,
        };
        Error::Network {
            broker: self.address.clone(),
            problem,
        }
    }
}

/// Return whether the peer has closed the connection.
pub(crate) fn is_closed(problem: &std::io::Error) -> bool {
    use std::io::ErrorKind;
    matches!(
        problem.kind(),
        ErrorKind::UnexpectedEof
            | ErrorKind::ConnectionReset
            | ErrorKind::ConnectionAborted
            | ErrorKind::BrokenPipe
            | ErrorKind::NotConnected
    )
}
