//! Who is at the other end of a connection, and what the connection remembers from request to request.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Instant;

use hashbrown::HashMap;
use pybroker_model::TopicId;

use crate::config::SecurityProtocol;
use crate::connection_quotas::ConnectionQuotas;
use crate::control_plane::Peer;
use crate::decisions::Decisions;
use crate::standing::Kept;
use crate::standing_commits::Rights;

/// Who a connection is.
pub(crate) struct ConnectionInfo {
    pub(crate) peer: Arc<Peer>,
    pub(crate) principal: Arc<str>,
    /// False until a client of a listener with SASL has proven who it is.
    pub(crate) authenticated: bool,
    /// It has done so by a delegation token (KIP-48).
    pub(crate) by_token: bool,
    /// The listener authenticates by SASL.
    pub(crate) sasl: bool,
    /// The principal is who the client's certificate says.
    pub(crate) certified: bool,
    /// It speaks plaintext to a listener with TLS: it is told so, and gets nothing else.
    pub(crate) without_tls: bool,
    /// How the listener secures its connections.
    pub(crate) security: SecurityProtocol,
    /// When it was accepted.
    pub(crate) opened: Instant,
    /// After a SaslHandshake v0 its tokens come as they are, without Kafka's headers (KIP-43).
    pub(crate) raw_tokens: bool,
    /// When authentication must have been renewed (KIP-368).
    pub(crate) session_ends: Option<Instant>,
    /// Which incarnation of a partition was read over this connection last, by requests that go by name and without
    /// session: only so is it noticed that the name was created again. Bounded; used by the connection's own task only.
    incarnations: RefCell<HashMap<Arc<str>, HashMap<i32, TopicId>>>,
    /// What the client called itself in the last request, for the log.
    pub(crate) client_id: RefCell<Option<Box<str>>>,
    /// What was decided about topics.
    pub(crate) decisions: RefCell<Decisions>,
    /// How much the client may use.
    pub(crate) quotas: ConnectionQuotas,
    /// Answers of the control plane that may be repeated.
    pub(crate) standing: Kept,
    /// Commits that are not for the control plane.
    pub(crate) commits: Rights,
}

/// Names that a connection remembers: more than an old client consumes from.
const INCARNATIONS_MAX: usize = 1_000;
/// Of each name.
const INCARNATION_PARTITIONS_MAX: usize = 1_000;

impl ConnectionInfo {
    pub(crate) fn new(peer: Arc<Peer>, security: SecurityProtocol, anonymous: Arc<str>) -> Self {
        let authenticated = !security.has_sasl();
        ConnectionInfo {
            peer,
            principal: anonymous,
            authenticated,
            by_token: false,
            sasl: !authenticated,
            certified: false,
            without_tls: false,
            security,
            opened: Instant::now(),
            raw_tokens: false,
            session_ends: None,
            incarnations: RefCell::default(),
            client_id: RefCell::default(),
            decisions: RefCell::default(),
            quotas: ConnectionQuotas::default(),
            standing: Kept::default(),
            commits: Rights::default(),
        }
    }

    /// Notes what the client calls itself.
    #[inline]
    pub(crate) fn calls_itself(&self, client_id: Option<&str>) {
        if self.client_id.borrow().as_deref() != client_id {
            self.client_id.replace(client_id.map(Into::into));
        }
    }

    /// The client speaks plaintext, and the listener TLS: from now on it is nobody who could prove anything.
    pub(crate) fn comes_without_tls(&mut self) {
        self.without_tls = true;
        self.authenticated = false;
    }

    /// The same client for another thread; what was decided about it so far stays with its data thread.
    pub(crate) fn identity(&self) -> Self {
        ConnectionInfo {
            peer: Arc::clone(&self.peer),
            principal: Arc::clone(&self.principal),
            incarnations: RefCell::default(),
            client_id: RefCell::default(),
            decisions: RefCell::default(),
            quotas: ConnectionQuotas::default(),
            standing: Kept::default(),
            commits: Rights::default(),
            ..*self
        }
    }

    /// The same client for another thread, with what is remembered, which comes back by [`ConnectionInfo::take_back`].
    pub(crate) fn lend(&self) -> Self {
        ConnectionInfo {
            incarnations: RefCell::new(self.incarnations.take()),
            decisions: RefCell::new(self.decisions.take()),
            quotas: self.quotas.of_time(),
            ..self.identity()
        }
    }

    /// Remembers again what was lent.
    pub(crate) fn take_back(&self, lent: &Self) {
        self.incarnations.replace(lent.incarnations.take());
        self.decisions.replace(lent.decisions.take());
    }

    /// Which incarnation of a partition was read before.
    pub(crate) fn read_before(&self, name: &str, partition: i32) -> Option<TopicId> {
        let incarnations = self.incarnations.borrow();
        incarnations.get(name)?.get(&partition).copied()
    }

    /// Notes which incarnation of a partition was read.
    pub(crate) fn has_read(&self, name: &Arc<str>, partition: i32, id: TopicId) {
        // So it is with nearly every fetch.
        if self.read_before(name, partition) == Some(id) {
            return;
        }
        let mut incarnations = self.incarnations.borrow_mut();
        if !incarnations.contains_key(name) && incarnations.len() >= INCARNATIONS_MAX {
            return;
        }
        let of_name = incarnations.entry(Arc::clone(name)).or_default();
        if of_name.len() < INCARNATION_PARTITIONS_MAX || of_name.contains_key(&partition) {
            of_name.insert(partition, id);
        }
    }

    /// The client compares its position with the leader's epochs (KIP-320): it needs nobody who notices for it.
    pub(crate) fn compares_epochs(&self, name: &str) {
        self.incarnations.borrow_mut().remove(name);
    }
}
