//! Authorization of topic operations for the client of one connection.

use std::sync::Arc;

use arc_swap::Guard;
use pybroker_protocol::ErrorCode;

use crate::api::topic_lookup::ResolvedTopic;
use crate::authorizer::{
    CLUSTER_NAME, Operation, ResourceType, Rules, Subject, supported_operations,
};
use crate::clients::connection_info::ConnectionInfo;
use crate::config::{LogLevel, Registry};
use crate::metadata_view::MetadataView;
use crate::shared::ServerState;

/// The authorization rules, applied to one request of one connection.
pub(crate) struct Access<'a> {
    rules: Guard<Option<Arc<Rules>>>,
    shared: &'a ServerState,
    connection: &'a ConnectionInfo,
}

impl<'a> Access<'a> {
    #[inline]
    pub(crate) fn new(shared: &'a ServerState, connection: &'a ConnectionInfo) -> Self {
        Access {
            rules: shared.metadata.authorizer().load(),
            shared,
            connection,
        }
    }

    /// Return whether an authorizer restricts the client; without one everything is permitted.
    pub(crate) fn is_restricted(&self) -> bool {
        self.rules.is_some()
    }

    /// Return the error if the client may not use the topic, or acts as a broker without the right to do so.
    ///
    /// `given` is the name from the request, if the request names topics. Unknown topic ids are not refused here; the
    /// caller answers them as unknown.
    #[inline]
    pub(crate) fn refuse(
        &self,
        operation: Operation,
        given: Option<&str>,
        topic: &ResolvedTopic<'_>,
        view: &MetadataView,
    ) -> Option<ErrorCode> {
        let rules = self.rules.as_ref()?;
        if self.connection.peer.registry == Registry::InterBroker {
            // A broker must be permitted to act for the cluster, regardless of the topic. Connections without login and
            // certificate are exempt: such listeners are reachable only from this machine.
            let known = self.connection.sasl || self.connection.certified;
            return (known && !self.permits_on_cluster(Operation::CLUSTER_ACTION))
                .then_some(ErrorCode::CLUSTER_AUTHORIZATION_FAILED);
        }
        let name = given.or_else(|| topic.name(view))?;
        (!self.decide(rules, operation, name)).then_some(ErrorCode::TOPIC_AUTHORIZATION_FAILED)
    }

    /// Return whether the client may perform the operation on the topic of this name, whether or not the topic exists.
    #[inline]
    pub(crate) fn permits(&self, operation: Operation, topic: &str) -> bool {
        match &*self.rules {
            None => true,
            Some(rules) => self.decide(rules, operation, topic),
        }
    }

    /// Return the error if the client may not write with this transactional id.
    pub(crate) fn refuse_transactional_id(&self, id: Option<&str>) -> Option<ErrorCode> {
        let (rules, id) = (self.rules.as_ref()?, id?);
        let (operation, kind) = (Operation::WRITE, ResourceType::TRANSACTIONAL_ID);
        (!rules.permits(self.who(), operation, kind, id))
            .then_some(ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    }

    /// Return whether a listing shows the topic. Topics that it leaves out are not logged as denied.
    pub(crate) fn lists(&self, topic: &str) -> bool {
        let (operation, kind) = (Operation::DESCRIBE, ResourceType::TOPIC);
        self.rules
            .as_ref()
            .is_none_or(|rules| rules.permits(self.who(), operation, kind, topic))
    }

    /// Return whether the client may perform the operation on the cluster.
    pub(crate) fn permits_on_cluster(&self, operation: Operation) -> bool {
        self.rules.as_ref().is_none_or(|rules| {
            rules.permits(self.who(), operation, ResourceType::CLUSTER, CLUSTER_NAME)
        })
    }

    /// Return whether the client may read for the group. The handler that refuses the request logs the denial.
    pub(crate) fn may_read_for(&self, group: &str) -> bool {
        let (operation, kind) = (Operation::READ, ResourceType::GROUP);
        self.rules
            .as_ref()
            .is_none_or(|rules| rules.permits(self.who(), operation, kind, group))
    }

    /// Return Kafka's bit field of the operations that the client may perform on a resource.
    pub(crate) fn operations(&self, resource_type: ResourceType, name: &str) -> i32 {
        match &*self.rules {
            None => supported_operations(resource_type)
                .iter()
                .fold(0, |bits, operation| bits | 1 << operation.0),
            Some(rules) => rules.operations(self.who(), resource_type, name),
        }
    }

    fn who(&self) -> Subject<'_> {
        Subject {
            principal: &self.connection.principal,
            address: self.connection.peer.address.ip().to_canonical(),
        }
    }

    fn decide(&self, rules: &Rules, operation: Operation, name: &str) -> bool {
        let mut decisions = self.connection.decisions.borrow_mut();
        if let Some(permitted) = decisions.recall(rules.version, operation, name) {
            return permitted;
        }
        let permitted = rules.permits(self.who(), operation, ResourceType::TOPIC, name);
        if !permitted {
            self.shared.log.line(
                LogLevel::Info,
                &format!(
                    "denied request principal={:?} host={} operation={} resource=TOPIC:{name:?}",
                    self.connection.principal,
                    self.connection.peer.address,
                    operation.name()
                ),
            );
        }
        decisions.remember(operation, name, permitted);
        permitted
    }
}
