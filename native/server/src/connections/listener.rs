//! Listening sockets: bound at the start, accepting on request, distributing connections round-robin over the data
//! threads.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};
use tokio::sync::{mpsc, watch};

use crate::clients::connection_info::ConnectionInfo;
use crate::config::{ListenerConfig, LogLevel, Registry};
use crate::connections::data_threads::Command;
use crate::control_plane::Peer;
use crate::limits::Limits;
use crate::net::tls::TlsListener;
use crate::quotas::ConnectionRate;
use crate::shared::ServerState;

/// Pause after an accept that failed for lack of descriptors or memory: an immediate retry would fail too.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A bound socket that does not accept yet.
pub(crate) struct BoundListener {
    pub(crate) config: ListenerConfig,
    pub(crate) address: SocketAddr,
    pub(crate) socket: std::net::TcpListener,
}

/// Bind a listener. Accepted sockets inherit its buffer sizes.
pub(crate) fn bind(config: &ListenerConfig, limits: &Limits) -> io::Result<BoundListener> {
    let socket = Socket::new(
        Domain::for_address(config.address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    // A restarted broker can bind its port while old connections linger.
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    if let Some(bytes) = limits.socket_send_buffer_bytes {
        socket.set_send_buffer_size(bytes)?;
    }
    if let Some(bytes) = limits.socket_receive_buffer_bytes {
        socket.set_recv_buffer_size(bytes)?;
    }
    socket.bind(&config.address.into())?;
    // Set the algorithm before accepting: a connection that has begun to pace continues to do so under any algorithm.
    do_not_pace(&socket, config.address);
    socket.listen(limits.listen_backlog)?;
    let socket: std::net::TcpListener = socket.into();
    Ok(BoundListener {
        config: config.clone(),
        address: socket.local_addr()?,
        socket,
    })
}

/// Round-robin distribution of accepted connections.
pub(crate) struct Distributor {
    pub(crate) threads: Vec<mpsc::UnboundedSender<Command>>,
    pub(crate) next: AtomicUsize,
}

impl Distributor {
    fn hand_over(
        &self,
        socket: std::net::TcpStream,
        info: ConnectionInfo,
        tls: Option<&TlsListener>,
    ) -> bool {
        let turn = self.next.fetch_add(1, Ordering::Relaxed) % self.threads.len();
        self.threads[turn]
            .send(Command::Connection(
                socket,
                Box::new(info),
                tls.map(TlsListener::load),
            ))
            .is_ok()
    }
}

/// Accept connections until `stop`.
pub(crate) async fn accept_all(
    bound: BoundListener,
    shared: Arc<ServerState>,
    distributor: Arc<Distributor>,
    mut stop: watch::Receiver<bool>,
) {
    let BoundListener {
        config,
        address,
        socket,
    } = bound;
    let listener = match tokio::net::TcpListener::from_std(socket) {
        Ok(listener) => listener,
        Err(error) => {
            shared.log.line(
                LogLevel::Error,
                &format!(
                    "listener {} on {address} cannot accept: {error}",
                    config.name
                ),
            );
            return;
        }
    };
    let anonymous: Arc<str> = "User:ANONYMOUS".into();
    let rate = ConnectionRate::new(shared.metadata.quotas().windows(), Instant::now());
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.wait_for(|stop| *stop) => return,
        };
        let (socket, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                shared.log.line(
                    LogLevel::Warning,
                    &format!("listener {} cannot accept: {error}", config.name),
                );
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let settings = shared.settings.load_full();
        if let Some(pause) = pause(&shared, &config, &settings.limits, &rate) {
            tokio::time::sleep(pause).await;
        }
        // Close refused connections at once, as Kafka does; the client sees it and backs off.
        let connection_id = match shared.connections.admit(
            (&config.name, config.registry),
            peer.ip(),
            &settings.limits,
        ) {
            Ok(id) => id,
            Err(limit) => {
                shared.log.line(
                    LogLevel::Warning,
                    &format!("connection from {peer} refused: {limit} reached"),
                );
                continue;
            }
        };
        if let Some(wait_ms) = too_early(&shared, &config, peer) {
            close_late(&shared, socket, (&config, peer), wait_ms);
            continue;
        }
        let info = ConnectionInfo::new(
            Arc::new(Peer {
                connection_id,
                listener: Arc::clone(&config.name),
                address: peer,
                registry: config.registry,
                software: OnceLock::new(),
                attached: OnceLock::new(),
            }),
            config.security,
            Arc::clone(&anonymous),
        );
        let handed = match prepare(socket, peer) {
            Ok(socket) => distributor.hand_over(socket, info, config.tls.as_ref()),
            // The peer has already disconnected.
            Err(_) => false,
        };
        if !handed {
            let listener = (&config.name, config.registry);
            shared.connections.leave_address(listener, peer.ip());
        }
    }
}

/// Return how long the listener must pause accepting (`max.connection.creation.rate`). As in Kafka, clients cannot
/// delay inter-broker connections.
fn pause(
    shared: &ServerState,
    config: &ListenerConfig,
    limits: &Limits,
    rate: &ConnectionRate,
) -> Option<Duration> {
    let now = Instant::now();
    let of_broker = if config.registry == Registry::Client {
        let per_second = limits.connection_creation_rate;
        shared.connection_rate.take(per_second, now)
    } else {
        None
    };
    let own = limits.connection_creation_rates.get(&*config.name);
    let of_listener = own.and_then(|&per_second| rate.take(per_second, now));
    let wait_ms = of_broker.max(of_listener)?;
    Some(Duration::from_millis(wait_ms.into()))
}

/// Return the milliseconds after which to close a connection whose address exceeds its connection rate (KIP-612).
fn too_early(shared: &ServerState, config: &ListenerConfig, peer: SocketAddr) -> Option<u32> {
    if config.registry != Registry::Client {
        return None;
    }
    let quotas = shared.metadata.quotas();
    quotas.connected(peer.ip(), Instant::now())
}

/// Close an unserved connection later, so that its client does not reconnect at once. Until then it counts as a
/// connection.
fn close_late(
    shared: &Arc<ServerState>,
    socket: tokio::net::TcpStream,
    (listener, peer): (&ListenerConfig, SocketAddr),
    wait_ms: u32,
) {
    let (shared, name) = (Arc::clone(shared), Arc::clone(&listener.name));
    let registry = listener.registry;
    shared.connections.throttle();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(wait_ms.into())).await;
        drop(socket);
        let listener = (&name, registry);
        shared.connections.leave_address(listener, peer.ip());
    });
}

/// Disable pacing on loopback, which has no congestion: a default algorithm that paces (bbr) arms a timer for each
/// burst and doubles the CPU of a 1 MiB fetch. Every kernel has reno; if setting it fails, the default stays.
#[cfg(target_os = "linux")]
fn do_not_pace(socket: impl std::os::fd::AsFd, address: SocketAddr) {
    if address.ip().to_canonical().is_loopback() {
        let _ = rustix::net::sockopt::set_tcp_congestion(socket, "reno");
    }
}

#[cfg(not(target_os = "linux"))]
fn do_not_pace<S>(_: S, _: SocketAddr) {}

/// Detach the socket from the acceptor's runtime, for another runtime.
fn prepare(socket: tokio::net::TcpStream, peer: SocketAddr) -> io::Result<std::net::TcpStream> {
    socket.set_nodelay(true)?;
    // Repeat this for sockets that do not inherit the option: pacing has begun already, but this still reduces CPU.
    do_not_pace(&socket, peer);
    socket.into_std()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::SecurityProtocol;

    /// Return a client and the listener's side of its connection.
    fn connect(limits: &Limits) -> (std::net::TcpStream, Socket) {
        let config = ListenerConfig {
            name: "PLAINTEXT".into(),
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            security: SecurityProtocol::Plaintext,
            tls: None,
            registry: Registry::Client,
        };
        let bound = bind(&config, limits).expect("a free port");
        let client = std::net::TcpStream::connect(bound.address).expect("listening");
        // Wait until the nonblocking listener has completed the connection.
        loop {
            match bound.socket.accept() {
                Ok((socket, _)) => break (client, Socket::from(socket)),
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
        }
    }

    /// An accepted socket must inherit the congestion control algorithm from the listener: once a socket paces its
    /// packets, another algorithm does not stop the pacing.
    #[cfg(target_os = "linux")]
    #[test]
    fn what_is_accepted_on_loopback_does_not_pace() {
        let (_client, accepted) = connect(&Limits::default());
        let algorithm = rustix::net::sockopt::tcp_congestion(&accepted).expect("an open socket");
        assert_eq!(algorithm, "reno");
    }

    #[test]
    fn connections_have_the_buffers_that_were_asked_for() {
        let limits = Limits {
            listen_backlog: 5,
            socket_send_buffer_bytes: Some(20_000),
            socket_receive_buffer_bytes: Some(30_000),
            ..Limits::default()
        };
        let (_client, accepted) = connect(&limits);
        // Linux reports twice the size, for its bookkeeping; other systems report the size.
        let send = accepted.send_buffer_size().expect("an open socket");
        let receive = accepted.recv_buffer_size().expect("an open socket");
        assert!([20_000, 40_000].contains(&send), "{send}");
        assert!([30_000, 60_000].contains(&receive), "{receive}");
    }
}
