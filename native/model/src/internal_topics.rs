//! Internal topics of the brokers.

/// Names of internal topics. Clients see them marked as internal and cannot write to them.
pub const INTERNAL_TOPICS: [&str; 3] = [
    "__consumer_offsets",
    "__transaction_state",
    "__share_group_state",
];

/// Return whether the topic name is internal.
#[must_use]
pub fn is_internal(name: &str) -> bool {
    name.starts_with("__") && INTERNAL_TOPICS.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_names_themselves_are_internal() {
        assert!(INTERNAL_TOPICS.iter().all(|name| is_internal(name)));
        for name in [
            "",
            "__",
            "orders",
            "__consumer_offset",
            "__consumer_offsets2",
        ] {
            assert!(!is_internal(name), "{name}");
        }
    }
}
