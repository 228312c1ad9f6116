//! Access control entries from Python, and authorization of requests that Python answers.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use pybroker_server::authorizer::{
    Acl, AclDelta, Host, Operation, ResourceType, Rules, Subject, supported_operations,
};
use pybroker_server::metadata_view::MetadataHolder;
use pyo3::prelude::*;

use crate::convert::shown;

/// An access control entry.
#[pyclass(
    frozen,
    get_all,
    eq,
    from_py_object,
    new = "from_fields",
    module = "pybroker._native"
)]
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AclEntry {
    /// Kafka's code of the resource type.
    resource_type: u8,
    /// Whether `name` is a prefix.
    prefixed: bool,
    name: String,
    principal: String,
    host: String,
    /// Kafka's code of the operation.
    operation: u8,
    /// True for an allow entry, false for a deny entry.
    allow: bool,
}

shown!(AclEntry);

impl From<AclEntry> for Acl {
    fn from(entry: AclEntry) -> Self {
        Acl {
            resource_type: ResourceType(entry.resource_type),
            prefixed: entry.prefixed,
            name: entry.name,
            principal: entry.principal,
            host: entry.host,
            operation: Operation(entry.operation),
            allow: entry.allow,
        }
    }
}

/// The current access control entries, which the data plane and the control plane share.
#[pyclass(frozen, module = "pybroker._native")]
pub(crate) struct NativeAuthorizer(Arc<MetadataHolder>);

impl NativeAuthorizer {
    pub(super) const fn new(metadata: Arc<MetadataHolder>) -> Self {
        Self(metadata)
    }

    /// Evaluate the rules. Return `None` if there is no authorizer.
    fn ask<R>(
        &self,
        principal: &str,
        host: &str,
        question: impl FnOnce(&Rules, Subject<'_>) -> R,
    ) -> Option<R> {
        let rules = self.0.authorizer().load();
        let rules = rules.as_ref()?;
        // Hosts of connections are addresses. For any other text, only entries for every host apply.
        let address = host
            .parse::<IpAddr>()
            .map_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED), |address| {
                address.to_canonical()
            });
        Some(question(rules, Subject { principal, address }))
    }
}

#[pymethods]
impl NativeAuthorizer {
    /// Create a separate authorizer whose entries do not affect the broker.
    #[new]
    fn apart() -> Self {
        Self(Arc::new(MetadataHolder::new("")))
    }

    #[staticmethod]
    fn is_valid_host(host: &str) -> bool {
        Host::is_valid(host)
    }

    #[pyo3(signature = (*, added = Vec::new(), removed = Vec::new(), super_users = None, allow_everyone_without_acls = None))]
    fn publish(
        &self,
        added: Vec<AclEntry>,
        removed: Vec<AclEntry>,
        super_users: Option<Vec<String>>,
        allow_everyone_without_acls: Option<bool>,
    ) -> u64 {
        self.0.authorizer().apply(AclDelta {
            removed: removed.into_iter().map(Acl::from).collect(),
            added: added.into_iter().map(Acl::from).collect(),
            super_users,
            allow_everyone_without_acls,
        })
    }

    fn permits(
        &self,
        principal: &str,
        host: &str,
        operation: u8,
        resource_type: u8,
        name: &str,
    ) -> bool {
        self.ask(principal, host, |rules, who| {
            rules.permits(who, Operation(operation), ResourceType(resource_type), name)
        })
        .unwrap_or(true)
    }

    fn permits_any(&self, principal: &str, host: &str, operation: u8, resource_type: u8) -> bool {
        self.ask(principal, host, |rules, who| {
            rules.permits_any(who, Operation(operation), ResourceType(resource_type))
        })
        .unwrap_or(true)
    }

    fn permitted_operations(
        &self,
        principal: &str,
        host: &str,
        resource_type: u8,
        name: &str,
    ) -> i32 {
        let kind = ResourceType(resource_type);
        self.ask(principal, host, |rules, who| {
            rules.operations(who, kind, name)
        })
        .unwrap_or_else(|| all_operations(kind))
    }
}

/// Return all operations, because without an authorizer every client may perform them.
fn all_operations(resource_type: ResourceType) -> i32 {
    supported_operations(resource_type)
        .iter()
        .fold(0, |bits, operation| bits | 1 << operation.0)
}
