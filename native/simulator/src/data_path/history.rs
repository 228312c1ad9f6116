//! What clients know: acknowledged records, and records that consumers have read.

use std::collections::BTreeMap;

/// Offset → value of a log.
pub(super) type Content = BTreeMap<i64, String>;

#[derive(Debug, Default)]
pub(super) struct History {
    acknowledged: Content,
    read: Content,
}

impl History {
    pub(super) fn acknowledge(&mut self, offset: i64, value: String) -> Result<(), String> {
        match self.acknowledged.insert(offset, value.clone()) {
            None => Ok(()),
            Some(other) => Err(format!("{other} and {value} are acknowledged at {offset}")),
        }
    }

    /// Check and remember what a consumer reads.
    pub(super) fn consume(&mut self, content: &Content) -> Result<(), String> {
        for (&offset, value) in content {
            let known = self.read.entry(offset).or_insert_with(|| value.clone());
            if known != value {
                return Err(format!("a consumer read {known} at {offset}, then {value}"));
            }
        }
        Ok(())
    }

    /// Check that a log has every acknowledged record, and every record that a consumer has read.
    pub(super) fn check(&self, whose: i32, content: &Content) -> Result<(), String> {
        for (what, known) in [("acknowledged", &self.acknowledged), ("read", &self.read)] {
            for (offset, value) in known {
                let found = content.get(offset);
                if found != Some(value) {
                    return Err(format!(
                        "broker {whose} has {found:?} at {offset}, but {value} was {what}"
                    ));
                }
            }
        }
        Ok(())
    }
}
