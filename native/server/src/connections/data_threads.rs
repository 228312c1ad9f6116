//! The data threads: each runs a single-threaded runtime with its share of the connections.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use hashbrown::HashMap;
use pybroker_model::ExpansionBudget;
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use crate::clients::connection_info::ConnectionInfo;
use crate::config::{DynamicSettings, LogLevel};
use crate::connections::connection::Connection;
use crate::fetch_sessions::FetchSessions;
use crate::limits::FETCH_SESSION_PARTITIONS_MAX;
use crate::metrics::{ThreadMetrics, TopicsOfThread, UnsentReplies};
use crate::net::buffers::BufferPool;
use crate::net::tls::{TlsServer, TlsSession};
use crate::net::wakeups::Wakeups;
use crate::shared::{ServerState, ThreadState, install_thread_state, with_thread_state};

/// Command to a data thread.
pub(crate) enum Command {
    /// Serve a new connection.
    Connection(
        std::net::TcpStream,
        Box<ConnectionInfo>,
        Option<Arc<TlsServer>>,
    ),
    /// Run a function on this thread's runtime (the acceptors).
    Spawn(Box<dyn FnOnce() + Send>),
    /// Quotas have changed: wake throttled connections.
    Wake,
    /// Settings have changed, with the thread's share of fetch sessions.
    Settings(Arc<DynamicSettings>, usize),
    /// End when the last connection has closed, but at this time at the latest.
    StopBy(Instant),
}

/// One data thread.
pub(crate) struct DataThread {
    pub(crate) commands: mpsc::UnboundedSender<Command>,
    pub(crate) metrics: Arc<ThreadMetrics>,
    pub(crate) thread: Option<JoinHandle<()>>,
}

impl DataThread {
    /// Start a thread, whose counters are in `metrics`. Fails if the system provides no thread or event queue.
    pub(crate) fn start(
        number: usize,
        shared: Arc<ServerState>,
        metrics: Arc<ThreadMetrics>,
        sessions_max: usize,
    ) -> std::io::Result<Self> {
        let (commands, inbox) = mpsc::unbounded_channel();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .on_thread_park(|| {
                with_thread_state(|thread| thread.flush_group.begin());
            })
            .build()?;
        let wakeups = Arc::<Wakeups>::default();
        let state = ThreadState {
            pool: BufferPool::default(),
            settings: shared.settings.load_full(),
            topics: TopicsOfThread::new(Arc::clone(&shared.topics), number),
            unsent: UnsentReplies::default(),
            clock: Instant::now(),
            tally: Default::default(),
            produce: Default::default(),
            fetch: Default::default(),
            flushes: Default::default(),
            flush_group: Default::default(),
            sessions: FetchSessions::new(sessions_max, FETCH_SESSION_PARTITIONS_MAX),
            metrics: Arc::clone(&metrics),
            wakers: HashMap::new(),
            expansion: ExpansionBudget::new(0),
            wakeups: Arc::clone(&wakeups),
        };
        let work = move || {
            note_system_id(&state.metrics);
            install_thread_state(state);
            runtime.spawn(wakeups.serve());
            runtime.block_on(serve(shared, inbox));
            // Dropping the runtime drops the remaining connections.
            drop(runtime);
        };
        let thread = std::thread::Builder::new()
            .name(format!("data-{number}"))
            .spawn(work)?;
        Ok(DataThread {
            commands,
            metrics,
            thread: Some(thread),
        })
    }

    /// Send a command; a thread that has ended ignores it.
    pub(crate) fn send(&self, command: Command) {
        drop(self.commands.send(command));
    }
}

/// Record the system's thread id, for the processor time.
fn note_system_id(metrics: &ThreadMetrics) {
    #[cfg(target_os = "linux")]
    metrics.system_id.store(
        rustix::thread::gettid().as_raw_nonzero().get(),
        std::sync::atomic::Ordering::Relaxed,
    );
    #[cfg(not(target_os = "linux"))]
    let _ = metrics;
}

async fn serve(shared: Arc<ServerState>, mut inbox: mpsc::UnboundedReceiver<Command>) {
    while let Some(command) = inbox.recv().await {
        match command {
            Command::Connection(socket, info, tls) => open(&shared, socket, *info, tls),
            Command::Spawn(spawn) => spawn(),
            Command::Settings(settings, sessions_max) => {
                with_thread_state(|thread| {
                    thread.sessions.set_max(sessions_max);
                    thread.settings = settings;
                });
                // A raised limit may unblock waiting connections.
                wake_all();
            }
            Command::Wake => wake_all(),
            Command::StopBy(deadline) => {
                wake_all();
                while with_thread_state(|thread| !thread.wakers.is_empty()) == Some(true)
                    && Instant::now() < deadline
                {
                    // Poll until the connections have closed; this runs once per thread.
                    tokio::time::sleep(std::time::Duration::from_millis(2)).await;
                }
                return;
            }
        }
    }
}

fn wake_all() {
    with_thread_state(|thread| thread.wakers.values().for_each(|waker| waker.wake_by_ref()));
}

fn open(
    shared: &Arc<ServerState>,
    socket: std::net::TcpStream,
    info: ConnectionInfo,
    tls: Option<Arc<TlsServer>>,
) {
    let peer = Arc::clone(&info.peer);
    let address = peer.address;
    let session = tls.map(TlsSession::new).transpose();
    let session = session.map_err(std::io::Error::other);
    match TcpStream::from_std(socket).and_then(|socket| Ok((socket, session?))) {
        Ok((socket, session)) => {
            with_thread_state(|thread| thread.metrics.connections_opened.add(1));
            tokio::spawn(Connection::new(Arc::clone(shared), info, socket, session));
        }
        Err(error) => {
            shared.connections.leave(&peer);
            shared.log.line(
                LogLevel::Error,
                &format!("connection from {address} closed: it cannot be watched: {error}"),
            );
        }
    }
}
