//! Cache of one connection's authorization decisions about topics, so that Produce and Fetch evaluate the rules once.
//!
//! The key is the topic's name and the version of the rules, so a decision about a deleted topic grants no more than
//! the rules grant for a new topic of the same name.

use std::sync::Arc;

use hashbrown::HashMap;

use crate::authorizer::Operation;

/// Maximum number of cached names, more than most clients use. When it is reached, the cache is cleared.
const NAMES_MAX: usize = 1_000;

/// Decisions by topic name. The rules' versions start at 1, so the cache of version 0 is empty.
#[derive(Debug, Default)]
pub(crate) struct DecisionCache {
    version: u64,
    by_name: HashMap<Arc<str>, CachedDecision>,
}

/// Operations as bits: the evaluated ones, and the permitted ones among them.
#[derive(Debug, Default, Clone, Copy)]
struct CachedDecision {
    known: u16,
    permitted: u16,
}

impl DecisionCache {
    /// Clear the cache, because the connection has another principal.
    pub(crate) fn clear(&mut self) {
        self.by_name.clear();
        self.version = 0;
    }

    /// Return the cached decision for an operation on a topic, if this version of the ACLs made it.
    #[inline]
    pub(crate) fn recall(
        &mut self,
        version: u64,
        operation: Operation,
        name: &str,
    ) -> Option<bool> {
        if self.version != version {
            self.by_name.clear();
            self.version = version;
        }
        let bit = 1u16 << operation.0;
        let decided = self.by_name.get(name)?;
        (decided.known & bit != 0).then_some(decided.permitted & bit != 0)
    }

    /// Cache a decision that was made by the rules version of the last `recall`.
    pub(crate) fn remember(&mut self, operation: Operation, name: &str, permitted: bool) {
        if self.by_name.len() >= NAMES_MAX && !self.by_name.contains_key(name) {
            self.by_name.clear();
        }
        let bit = 1u16 << operation.0;
        let decided = self.by_name.entry_ref(name).or_default();
        decided.known |= bit;
        if permitted {
            decided.permitted |= bit;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_decided_holds_for_one_version_of_the_rules() {
        let mut decisions = DecisionCache::default();
        assert_eq!(decisions.recall(1, Operation::READ, "a"), None);
        decisions.remember(Operation::READ, "a", true);
        decisions.remember(Operation::WRITE, "a", false);
        assert_eq!(decisions.recall(1, Operation::READ, "a"), Some(true));
        assert_eq!(decisions.recall(1, Operation::WRITE, "a"), Some(false));
        assert_eq!(decisions.recall(1, Operation::DESCRIBE, "a"), None);
        assert_eq!(decisions.recall(1, Operation::READ, "b"), None);
        assert_eq!(decisions.recall(2, Operation::READ, "a"), None, "new rules");
        decisions.remember(Operation::READ, "a", true);
        decisions.clear();
        assert_eq!(decisions.recall(2, Operation::READ, "a"), None, "cleared");
    }

    #[test]
    fn a_bounded_number_of_names_is_remembered() {
        let mut decisions = DecisionCache::default();
        for number in 0..=NAMES_MAX {
            decisions.recall(1, Operation::READ, "");
            decisions.remember(Operation::READ, &number.to_string(), true);
        }
        assert!(decisions.by_name.len() <= NAMES_MAX);
        let last = NAMES_MAX.to_string();
        assert_eq!(decisions.recall(1, Operation::READ, &last), Some(true));
    }
}
