//! Identity of a client connection, and its state between requests.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Instant;

use hashbrown::HashMap;
use pybroker_model::TopicId;

use crate::authorizer::decision_cache::DecisionCache;
use crate::config::SecurityProtocol;
use crate::control_plane::Peer;
use crate::leases::cached_responses::ConnectionResponses;
use crate::leases::delegated_commits::CommitLeases;
use crate::quotas::connection_quotas::ConnectionQuotas;

/// Identity and state of a connection.
pub(crate) struct ConnectionInfo {
    pub(crate) peer: Arc<Peer>,
    pub(crate) principal: Arc<str>,
    /// False on a SASL listener until the client has authenticated.
    pub(crate) authenticated: bool,
    /// The client authenticated by a delegation token (KIP-48).
    pub(crate) by_token: bool,
    /// The listener authenticates by SASL.
    pub(crate) sasl: bool,
    /// The principal comes from the client's certificate.
    pub(crate) certified: bool,
    /// The client speaks plaintext on a TLS listener: it only gets an error.
    pub(crate) without_tls: bool,
    /// Security protocol of the listener.
    pub(crate) security: SecurityProtocol,
    /// When the connection was accepted.
    pub(crate) opened: Instant,
    /// After a SaslHandshake v0, tokens have no Kafka headers (KIP-43).
    pub(crate) raw_tokens: bool,
    /// Deadline for re-authentication (KIP-368).
    pub(crate) session_ends: Option<Instant>,
    /// For each partition, the incarnation that the client read last with requests that use names and no session: this
    /// is the only way to detect that a topic of the same name was re-created. Bounded. Only the connection's own task
    /// uses it.
    incarnations: RefCell<HashMap<Arc<str>, HashMap<i32, TopicId>>>,
    /// Client id of the last request, for the log.
    pub(crate) client_id: RefCell<Option<Box<str>>>,
    /// Cached authorization decisions about topics.
    pub(crate) decisions: RefCell<DecisionCache>,
    /// Quotas of the client.
    pub(crate) quotas: ConnectionQuotas,
    /// Cached responses of the control plane.
    pub(crate) cached_responses: ConnectionResponses,
    /// Delegated offset commits.
    pub(crate) commit_leases: CommitLeases,
}

/// Maximum names remembered: more than an old client consumes.
const INCARNATIONS_MAX: usize = 1_000;
/// Maximum partitions remembered per name.
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
            cached_responses: ConnectionResponses::default(),
            commit_leases: CommitLeases::default(),
        }
    }

    /// Record the client id.
    #[inline]
    pub(crate) fn set_client_id(&self, client_id: Option<&str>) {
        if self.client_id.borrow().as_deref() != client_id {
            self.client_id.replace(client_id.map(Into::into));
        }
    }

    /// Mark a client that speaks plaintext on a TLS listener, which cannot authenticate any more.
    pub(crate) fn mark_plaintext(&mut self) {
        self.without_tls = true;
        self.authenticated = false;
    }

    /// Return the client's identity for another thread, without cached decisions, which stay with its data thread.
    pub(crate) fn identity(&self) -> Self {
        ConnectionInfo {
            peer: Arc::clone(&self.peer),
            principal: Arc::clone(&self.principal),
            incarnations: RefCell::default(),
            client_id: RefCell::default(),
            decisions: RefCell::default(),
            quotas: ConnectionQuotas::default(),
            cached_responses: ConnectionResponses::default(),
            commit_leases: CommitLeases::default(),
            ..*self
        }
    }

    /// Return the client for another thread, together with the cached state. [`ConnectionInfo::take_back`] puts that
    /// state back.
    pub(crate) fn lend(&self) -> Self {
        ConnectionInfo {
            incarnations: RefCell::new(self.incarnations.take()),
            decisions: RefCell::new(self.decisions.take()),
            quotas: self.quotas.of_time(),
            ..self.identity()
        }
    }

    /// Restore the cached state that was lent.
    pub(crate) fn take_back(&self, lent: &Self) {
        self.incarnations.replace(lent.incarnations.take());
        self.decisions.replace(lent.decisions.take());
    }

    /// Return the incarnation of a partition that was read before.
    pub(crate) fn read_before(&self, name: &str, partition: i32) -> Option<TopicId> {
        let incarnations = self.incarnations.borrow();
        incarnations.get(name)?.get(&partition).copied()
    }

    /// Record which incarnation of a partition was read.
    pub(crate) fn has_read(&self, name: &Arc<str>, partition: i32, id: TopicId) {
        // True for nearly every fetch.
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

    /// Record that the client compares its position with the leader's epochs (KIP-320). The broker then need not detect
    /// a new incarnation of the topic for it.
    pub(crate) fn compares_epochs(&self, name: &str) {
        self.incarnations.borrow_mut().remove(name);
    }
}
