//! What the client of a connection may do with topics. Decisions are remembered per connection, name and version of
//! the rules, so that Produce and Fetch ask the rules once; by name, so that nothing decided about a dead incarnation
//! grants anything that its successor's entries do not (H4).

use std::sync::Arc;

use arc_swap::Guard;
use hashbrown::HashMap;
use pybroker_protocol::ErrorCode;

use crate::api::ResolvedTopic;
use crate::authorizer::{
    CLUSTER_NAME, Operation, ResourceType, Rules, Subject, supported_operations,
};
use crate::config::LogLevel;
use crate::metadata_view::MetadataView;
use crate::shared::{ConnectionInfo, Shared};

/// Names that a connection remembers decisions about; more than most clients use. Above it all are forgotten.
const DECISIONS_MAX: usize = 1_000;

/// Decisions about topics; of the rules' version 0 there are none.
#[derive(Debug, Default)]
pub(crate) struct Decisions {
    version: u64,
    by_name: HashMap<Arc<str>, Decided>,
}

/// Bits of operations: those that were asked about, and those of them that are permitted.
#[derive(Debug, Default, Clone, Copy)]
struct Decided {
    known: u16,
    permitted: u16,
}

impl Decisions {
    /// Forgets everything: the connection has another principal.
    pub(crate) fn clear(&mut self) {
        self.by_name.clear();
        self.version = 0;
    }
}

/// The rules, for one request of one connection.
pub(crate) struct Access<'a> {
    rules: Guard<Option<Arc<Rules>>>,
    shared: &'a Shared,
    connection: &'a ConnectionInfo,
}

impl<'a> Access<'a> {
    #[inline]
    pub(crate) fn new(shared: &'a Shared, connection: &'a ConnectionInfo) -> Self {
        Access {
            rules: shared.metadata.authorizer().load(),
            shared,
            connection,
        }
    }

    /// False without authorizer: everything is permitted.
    pub(crate) fn is_restricted(&self) -> bool {
        self.rules.is_some()
    }

    /// The error for a topic that must not be used so; `given` is the name that the client knows, if it goes by name.
    /// An id that does not exist is not refused here: the client is told that it is unknown (X22).
    #[inline]
    pub(crate) fn refuse(
        &self,
        operation: Operation,
        given: Option<&str>,
        topic: &ResolvedTopic<'_>,
        view: &MetadataView,
    ) -> Option<ErrorCode> {
        let rules = self.rules.as_ref()?;
        let name = given.or_else(|| topic.name(view))?;
        (!self.decide(rules, operation, name)).then_some(ErrorCode::TOPIC_AUTHORIZATION_FAILED)
    }

    /// Whether the client may do that with the topic of this name, be there one or not.
    #[inline]
    pub(crate) fn permits(&self, operation: Operation, topic: &str) -> bool {
        match &*self.rules {
            None => true,
            Some(rules) => self.decide(rules, operation, topic),
        }
    }

    /// Whether a listing shows the topic; what it leaves out is not worth a line of the log.
    pub(crate) fn lists(&self, topic: &str) -> bool {
        let (operation, kind) = (Operation::DESCRIBE, ResourceType::TOPIC);
        self.rules
            .as_ref()
            .is_none_or(|rules| rules.permits(self.who(), operation, kind, topic))
    }

    /// Whether the client may do that with the cluster.
    pub(crate) fn permits_on_cluster(&self, operation: Operation) -> bool {
        self.rules.as_ref().is_none_or(|rules| {
            rules.permits(self.who(), operation, ResourceType::CLUSTER, CLUSTER_NAME)
        })
    }

    /// Kafka's bit field of what the client may do with a resource.
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
        let decisions = &mut *decisions;
        if decisions.version != rules.version {
            decisions.by_name.clear();
            decisions.version = rules.version;
        }
        let bit = 1u16 << operation.0;
        if let Some(decided) = decisions.by_name.get(name)
            && decided.known & bit != 0
        {
            return decided.permitted & bit != 0;
        }
        let permitted = rules.permits(self.who(), operation, ResourceType::TOPIC, name);
        if !permitted {
            self.shared.log.line(
                LogLevel::Info,
                &format!(
                    "{:?} from {} may not {} topic {name:?}",
                    self.connection.principal,
                    self.connection.peer.address,
                    operation.name()
                ),
            );
        }
        if decisions.by_name.len() >= DECISIONS_MAX && !decisions.by_name.contains_key(name) {
            decisions.by_name.clear();
        }
        let decided = decisions.by_name.entry_ref(name).or_default();
        decided.known |= bit;
        if permitted {
            decided.permitted |= bit;
        }
        permitted
    }
}
