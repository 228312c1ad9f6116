//! Throttled replicas of a topic: `leader|follower.replication.throttled.replicas` (KIP-73).

use std::sync::Arc;

/// Throttled replicas of a topic.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ThrottledReplicas {
    /// No replicas.
    #[default]
    Nobody,
    /// All replicas.
    All,
    /// The listed (partition, broker) pairs, sorted.
    Listed(Arc<[(i32, i32)]>),
}

impl ThrottledReplicas {
    /// Return whether the replica of this partition on this broker is throttled.
    #[must_use]
    pub fn includes(&self, partition: i32, broker: i32) -> bool {
        match self {
            ThrottledReplicas::Nobody => false,
            ThrottledReplicas::All => true,
            ThrottledReplicas::Listed(listed) => listed.binary_search(&(partition, broker)).is_ok(),
        }
    }

    /// Parse `*`, or `partition:broker` pairs separated by commas.
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        let text = text.trim();
        match text {
            "" | "none" => return Ok(ThrottledReplicas::Nobody),
            "*" => return Ok(ThrottledReplicas::All),
            _ => {}
        }
        let mut listed = Vec::new();
        for pair in text.split(',') {
            let (partition, broker) = pair
                .trim()
                .split_once(':')
                .and_then(|(partition, broker)| {
                    Some((partition.parse().ok()?, broker.parse().ok()?))
                })
                .ok_or("neither * nor a list of partition:broker")?;
            listed.push((partition, broker));
        }
        listed.sort_unstable();
        Ok(ThrottledReplicas::Listed(Arc::from(listed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_are_listed_by_partition_and_broker() {
        let listed = ThrottledReplicas::parse("1:101, 0:102,1:103").expect("reads");
        assert!(listed.includes(1, 101) && listed.includes(0, 102));
        assert!(!listed.includes(0, 101) && !listed.includes(2, 101));
        let all = ThrottledReplicas::parse("*").expect("reads");
        assert!(all.includes(7, 7));
        let nobody = ThrottledReplicas::parse("").expect("reads");
        assert!(!nobody.includes(0, 1));
        assert!(ThrottledReplicas::parse("1-101").is_err());
    }
}
