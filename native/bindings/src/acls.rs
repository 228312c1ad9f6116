//! Access control entries from Python, and questions about them.

use std::net::{IpAddr, Ipv6Addr};

use pybroker_server::authorizer::{
    Acl, Operation, ResourceType, Rules, Subject, supported_operations,
};
use pybroker_server::metadata_view::MetadataHolder;

/// (resource type, prefixed, name, principal, host, operation, allow).
pub(crate) type AclTuple = (u8, bool, String, String, String, u8, bool);

pub(crate) fn acl(
    (resource_type, prefixed, name, principal, host, operation, allow): AclTuple,
) -> Acl {
    Acl {
        resource_type: ResourceType(resource_type),
        prefixed,
        name,
        principal,
        host,
        operation: Operation(operation),
        allow,
    }
}

/// Asks the rules; `None` without authorizer.
pub(crate) fn with_subject<R>(
    metadata: &MetadataHolder,
    principal: &str,
    host: &str,
    ask: impl FnOnce(&Rules, Subject<'_>) -> R,
) -> Option<R> {
    let rules = metadata.authorizer().load();
    let rules = rules.as_ref()?;
    // Hosts of connections are addresses; another text is nobody's, and only entries for every host apply.
    let address = host
        .parse::<IpAddr>()
        .map_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED), |address| {
            address.to_canonical()
        });
    Some(ask(rules, Subject { principal, address }))
}

/// What everybody may without authorizer.
pub(crate) fn all_operations(resource_type: ResourceType) -> i32 {
    supported_operations(resource_type)
        .iter()
        .fold(0, |bits, operation| bits | 1 << operation.0)
}
