//! Data about connections and their clients, without the tasks that serve them.

pub(crate) mod client_software;
pub(crate) mod close_reason;
pub(crate) mod connection_counts;
pub(crate) mod connection_info;
