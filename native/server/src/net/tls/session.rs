//! The TLS session of one connection: decrypts records from the socket, encrypts bytes for it.
//!
//! Received bytes go to a buffer of the thread's pool and are decrypted there; an incomplete record stays in a buffer
//! of its own size. Output is encrypted a few records at a time, after the socket has taken the earlier ones: at most
//! [`SEALED_BYTES_MAX`] are pending in addition to the connection's own output.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::BufMut;
use pybroker_protocol::frame::Guess;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, UnbufferedStatus, WriteTraffic,
};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use super::refused::take_refused;
use super::{TlsServer, principal};
use crate::limits::HANDSHAKE_BYTES_MAX;
use crate::net::buffers::{BUFFER_BYTES_MIN, BufferPool};
use crate::net::outgoing::{Outgoing, poll_send};

/// Plain bytes encrypted at once: three records, which together fit a buffer of the pool.
const SEALED_BYTES_MAX: usize = 3 * 16 * 1024;
/// Maximum plain bytes of one read. Together with their records they fit a core's cache; with more bytes, each step
/// would read them from memory again.
pub(crate) const PLAIN_BYTES_MAX: usize = BUFFER_BYTES_MIN;
/// Minimum bytes read beyond an incomplete record or handshake message.
const READ_BYTES_MIN: usize = 16 * 1024;
/// Maximum overhead of a record, with room for a key update message.
const RECORD_OVERHEAD_BYTES: usize = 64;
/// First byte of the record of a client hello.
const HANDSHAKE_RECORD: u8 = 0x16;
/// First byte of a request's length prefix, because the first request is always smaller than 16 MiB. TLS has no record
/// type with this value.
const REQUEST_LENGTH: u8 = 0;

/// Reason why a connection cannot continue.
pub(crate) enum TlsProblem {
    /// The socket failed.
    Io(io::Error),
    /// The first bytes are not those of a TLS client.
    NotTls(Guess),
    /// The first bytes are a request without TLS. `read` bytes of it were appended to the plain bytes.
    Plaintext { read: usize },
    /// One side rejected the other's message or certificate.
    Failed {
        handshaking: bool,
        error: rustls::Error,
        /// Subject of the rejected certificate, for the log.
        subject: Option<String>,
    },
}

/// TLS state of one connection.
pub(crate) struct TlsSession {
    server: Arc<TlsServer>,
    connection: UnbufferedServerConnection,
    /// Received bytes that are not processed. Between turns, an empty buffer has no capacity, because the pool has it.
    received: Vec<u8>,
    /// Start of the first unprocessed record.
    start: usize,
    /// When the last bytes of an incomplete record arrived; `None` if there is none.
    partial_since: Option<Instant>,
    /// Encrypted records for the socket.
    sending: Vec<u8>,
    /// Number of bytes of `sending` that are already sent.
    sent: usize,
    /// True once any bytes arrived.
    begun: bool,
    peer_closed: bool,
    /// Whether the session has failed. It then neither reads nor encrypts.
    failed: bool,
}

impl TlsSession {
    /// Create the session. Fails if the configuration cannot serve any client.
    pub(crate) fn new(server: Arc<TlsServer>) -> Result<Self, rustls::Error> {
        Ok(TlsSession {
            connection: UnbufferedServerConnection::new(Arc::clone(&server.config))?,
            server,
            received: Vec::new(),
            start: 0,
            partial_since: None,
            sending: Vec::new(),
            sent: 0,
            begun: false,
            peer_closed: false,
            failed: false,
        })
    }

    /// Return true until both sides have finished the handshake.
    pub(crate) fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// Return the client's name from its certificate, after the handshake; `None` without certificate. The error is a
    /// subject that no mapping rule matches.
    pub(crate) fn principal(&self) -> Option<Result<String, String>> {
        let shown = self.connection.peer_certificates()?.first()?;
        let Some(subject) = principal::subject(shown) else {
            return Some(Err("that cannot be read".into()));
        };
        let name = self.server.rules.apply(&subject);
        Some(name.map(|name| format!("User:{name}")).ok_or(subject))
    }

    /// Return whether no record waits for the socket.
    pub(crate) fn is_flushed(&self) -> bool {
        self.sent == self.sending.len()
    }

    /// Return the bytes of records that wait for the socket.
    pub(crate) fn pending_bytes(&self) -> usize {
        self.sending.len() - self.sent
    }

    /// Return the memory held between turns, in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        self.received.capacity() + self.pending_bytes()
    }

    /// Return when the last bytes of an incomplete record arrived.
    pub(crate) fn partial_since(&self) -> Option<Instant> {
        self.partial_since
    }

    /// Read once and append the decrypted bytes to `plain`. Return the number of bytes read from the socket; 0 means
    /// that the peer has closed its side. After an error an alert may be pending.
    pub(crate) fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        socket: &mut TcpStream,
        pool: &mut BufferPool,
        plain: &mut Vec<u8>,
    ) -> Poll<Result<usize, TlsProblem>> {
        if self.peer_closed {
            return Poll::Ready(Ok(0));
        }
        if self.received.capacity() < BUFFER_BYTES_MIN {
            let mut larger = pool.take();
            larger.extend_from_slice(&self.received[self.start..]);
            self.received = larger;
            self.start = 0;
        }
        let left = self.received.len() - self.start;
        let room = (PLAIN_BYTES_MAX.saturating_sub(left))
            .max(READ_BYTES_MIN)
            .min(self.received.capacity() - self.received.len());
        let mut limited = (&mut self.received).limit(room);
        let read =
            ready!(pin!(socket.read_buf(&mut limited)).poll(context)).map_err(TlsProblem::Io)?;
        if read == 0 {
            return Poll::Ready(Ok(0));
        }
        if !self.begun {
            self.begun = true;
            if self.received.starts_with(&[REQUEST_LENGTH]) {
                debug_assert!(plain.is_empty(), "nothing came before");
                core::mem::swap(plain, &mut self.received);
                return Poll::Ready(Err(TlsProblem::Plaintext { read }));
            }
            if let Some(guess) = other_protocol(&self.received) {
                return Poll::Ready(Err(TlsProblem::NotTls(guess)));
            }
        }
        let handshaking = self.is_handshaking();
        if let Err(error) = self.process(plain) {
            let subject = take_refused();
            self.queue_alert();
            return Poll::Ready(Err(TlsProblem::Failed {
                handshaking,
                error,
                subject,
            }));
        }
        self.make_room();
        if self.received.len() - self.start > HANDSHAKE_BYTES_MAX {
            let error = rustls::Error::General("a handshake message is too large".into());
            return Poll::Ready(Err(TlsProblem::Failed {
                handshaking,
                error,
                subject: None,
            }));
        }
        Poll::Ready(Ok(read))
    }

    /// Process all whole records.
    fn process(&mut self, plain: &mut Vec<u8>) -> Result<(), rustls::Error> {
        loop {
            let UnbufferedStatus { mut discard, state } = self
                .connection
                .process_tls_records(&mut self.received[self.start..]);
            let mut more = true;
            let outcome = match state {
                Ok(ConnectionState::ReadTraffic(mut records)) => {
                    let mut outcome = Ok(());
                    while let Some(record) = records.next_record() {
                        match record {
                            Ok(record) => {
                                discard += record.discard;
                                plain.extend_from_slice(record.payload);
                            }
                            Err(error) => {
                                outcome = Err(error);
                                break;
                            }
                        }
                    }
                    outcome
                }
                Ok(ConnectionState::EncodeTlsData(data)) => encode(data, &mut self.sending),
                Ok(ConnectionState::TransmitTlsData(data)) => {
                    // Marking the data as sent is correct: it is in `sending`, which is sent before any later data.
                    data.done();
                    Ok(())
                }
                Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => {
                    self.peer_closed = true;
                    more = false;
                    Ok(())
                }
                Ok(_) => {
                    more = false;
                    Ok(())
                }
                Err(error) => Err(error),
            };
            self.start += discard;
            outcome?;
            if !more {
                return Ok(());
            }
        }
    }

    /// Move an incomplete record to the front, so that the next read has as much room as this one.
    fn make_room(&mut self) {
        let left = self.received.len() - self.start;
        self.received.copy_within(self.start.., 0);
        self.received.truncate(left);
        self.start = 0;
        if self.received.capacity() - left < READ_BYTES_MIN {
            self.received.reserve(BUFFER_BYTES_MIN);
        }
    }

    /// Queue the alert that reports the error to the peer, if there is one.
    fn queue_alert(&mut self) {
        self.failed = true;
        // rustls requires the earlier input again, but returns its output before it reads that input.
        while self.connection.wants_write()
            && let UnbufferedStatus {
                state: Ok(ConnectionState::EncodeTlsData(data)),
                ..
            } = self
                .connection
                .process_tls_records(&mut self.received[self.start..])
        {
            if encode(data, &mut self.sending).is_err() {
                return;
            }
        }
    }

    /// Queue a close notification, so that the peer can distinguish a close from a truncation.
    pub(crate) fn queue_close(&mut self) {
        if self.failed || self.is_handshaking() {
            return;
        }
        let state = self
            .connection
            .process_tls_records(&mut self.received[self.start..]);
        if let Ok(ConnectionState::WriteTraffic(mut writer)) = state.state {
            let at = self.sending.len();
            self.sending.resize(at + 2 * RECORD_OVERHEAD_BYTES, 0);
            let written = writer.queue_close_notify(&mut self.sending[at..]);
            self.sending.truncate(at + written.unwrap_or(0));
        }
    }

    /// Send as much as the socket takes at once, when the connection closes.
    pub(crate) fn send_at_once(&mut self, socket: &TcpStream) {
        // The result does not matter: the connection closes either way.
        let _ = socket.try_write(&self.sending[self.sent..]);
    }

    /// Write until all output is sent (`Ready(Ok(true))`), the turn's share `bytes_max` is used up (`Ready(Ok(false))`)
    /// or the socket is full (`Pending`). Adds the bytes sent to `sent`.
    pub(crate) fn poll_flush(
        &mut self,
        context: &mut Context<'_>,
        socket: &mut TcpStream,
        outgoing: &mut Outgoing,
        pool: &mut BufferPool,
        (bytes_max, sent): (usize, &mut usize),
    ) -> Poll<io::Result<bool>> {
        loop {
            while self.sent < self.sending.len() {
                let count = ready!(poll_send(context, socket, &self.sending[self.sent..]))?;
                *sent += count;
                self.sent += count;
            }
            self.sending.clear();
            self.sent = 0;
            if outgoing.is_empty() {
                if self.sending.capacity() > 0 {
                    pool.give(core::mem::take(&mut self.sending));
                }
                return Poll::Ready(Ok(true));
            }
            if *sent >= bytes_max {
                return Poll::Ready(Ok(false));
            }
            self.seal(outgoing, pool)?;
        }
    }

    /// Encrypt the next output of `outgoing`.
    fn seal(&mut self, outgoing: &mut Outgoing, pool: &mut BufferPool) -> io::Result<()> {
        if self.failed {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        if self.sending.capacity() == 0 {
            self.sending = pool.take();
        }
        let UnbufferedStatus { state, .. } = self
            .connection
            .process_tls_records(&mut self.received[self.start..]);
        let Ok(ConnectionState::WriteTraffic(mut writer)) = state else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        let sending = &mut self.sending;
        let mut room = SEALED_BYTES_MAX;
        while room > 0 && !outgoing.is_empty() {
            outgoing.take_plain(pool, room, |plain| {
                room -= plain.len();
                encrypt(&mut writer, plain, sending)
            })?;
        }
        Ok(())
    }

    /// End a turn: return the buffer, or keep the remaining bytes.
    pub(crate) fn end_turn(&mut self, pool: &mut BufferPool, got_bytes: bool, now: Instant) {
        let left = self.received.len() - self.start;
        if left == 0 {
            self.partial_since = None;
            if self.received.capacity() > 0 {
                pool.give(core::mem::take(&mut self.received));
            }
        } else {
            if got_bytes || self.partial_since.is_none() {
                self.partial_since = Some(now);
            }
            if self.received.capacity() >= BUFFER_BYTES_MIN {
                let rest = self.received[self.start..].to_vec();
                pool.give(core::mem::replace(&mut self.received, rest));
                self.start = 0;
            }
            return;
        }
        self.start = 0;
    }
}

/// Return the protocol of the first bytes, if they do not start a TLS connection.
fn other_protocol(bytes: &[u8]) -> Option<Guess> {
    match bytes {
        [HANDSHAKE_RECORD, ..] => None,
        [b'G', b'E', b'T', b' ', ..]
        | [b'P', b'O', b'S', b'T', ..]
        | [b'H', b'E', b'A', b'D', ..]
        | [b'P', b'U', b'T', b' ', ..] => Some(Guess::Http),
        _ => Some(Guess::Garbage),
    }
}

fn encode<Data>(
    mut data: EncodeTlsData<'_, Data>,
    sending: &mut Vec<u8>,
) -> Result<(), rustls::Error> {
    let at = sending.len();
    let mut size = 4096;
    loop {
        sending.resize(at + size, 0);
        match data.encode(&mut sending[at..]) {
            Ok(written) => {
                sending.truncate(at + written);
                return Ok(());
            }
            Err(EncodeError::InsufficientSize(needed)) if needed.required_size > size => {
                size = needed.required_size;
            }
            Err(error) => {
                sending.truncate(at);
                return Err(rustls::Error::General(error.to_string()));
            }
        }
    }
}

fn encrypt<Data>(
    writer: &mut WriteTraffic<'_, Data>,
    plain: &[u8],
    sending: &mut Vec<u8>,
) -> io::Result<()> {
    let at = sending.len();
    let records = plain.len() / (16 * 1024) + 1;
    let mut size = plain.len() + records * RECORD_OVERHEAD_BYTES;
    loop {
        sending.resize(at + size, 0);
        match writer.encrypt(plain, &mut sending[at..]) {
            Ok(written) => {
                sending.truncate(at + written);
                return Ok(());
            }
            Err(EncryptError::InsufficientSize(needed)) if needed.required_size > size => {
                size = needed.required_size;
            }
            Err(error) => {
                sending.truncate(at);
                return Err(io::Error::new(io::ErrorKind::BrokenPipe, error.to_string()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use rustls::ServerConfig;
    use rustls::crypto::ring;
    use rustls::server::ResolvesServerCertUsingSni;
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    use super::super::principal::PrincipalRules;
    use super::*;

    /// Return how a listener classifies a client that begins with these bytes, and the plain bytes. The listener has no
    /// certificate, because the test never needs one.
    fn begins_with(sent: &[u8]) -> (Result<usize, TlsProblem>, Vec<u8>) {
        let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions();
        let nobody = Arc::new(ResolvesServerCertUsingSni::new());
        let config = builder.expect("versions").with_no_client_auth();
        let server = TlsServer {
            config: Arc::new(config.with_cert_resolver(nobody)),
            rules: PrincipalRules::parse("DEFAULT").expect("rules"),
        };
        let mut session = TlsSession::new(Arc::new(server)).expect("a session");
        let (mut pool, mut plain) = (BufferPool::default(), Vec::new());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build();
        let read = runtime.expect("a runtime").block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let address = listener.local_addr().expect("an address");
            let mut client = TcpStream::connect(address).await.expect("a connection");
            client.write_all(sent).await.expect("sent");
            let (mut socket, _) = listener.accept().await.expect("accepted");
            poll_fn(|context| session.poll_read(context, &mut socket, &mut pool, &mut plain)).await
        });
        (read, plain)
    }

    #[test]
    fn a_request_without_tls_is_told_from_all_else_and_handed_on_as_it_is() {
        let request = [0, 0, 0, 9, 0, 18, 0, 0, 0, 0, 0, 1, 0xff];
        for sent in [&request[..], &request[..1]] {
            let (read, plain) = begins_with(sent);
            let length = sent.len();
            assert!(matches!(read, Err(TlsProblem::Plaintext { read }) if read == length));
            assert_eq!(plain, sent);
        }
        let (http, plain) = begins_with(b"GET / HTTP/1.1\r\n");
        assert!(matches!(http, Err(TlsProblem::NotTls(Guess::Http))));
        assert!(plain.is_empty());
        let (other, plain) = begins_with(&[1, 0, 0, 0, 9]);
        assert!(matches!(other, Err(TlsProblem::NotTls(Guess::Garbage))));
        assert!(plain.is_empty());
        // The bytes are an incomplete record.
        let (record, plain) = begins_with(&[HANDSHAKE_RECORD, 3, 1, 0, 50, 1]);
        assert!(matches!(record, Ok(6)));
        assert!(plain.is_empty());
    }
}
