//! Layout of a message, which the listener's registry and the version number determine.

use crate::codec::Registry;
use crate::primitives::DecodeError;

/// A version of a message. Among brokers, a number that the KIP-516 text defines selects the layout of that text, with
/// topic ids. The number before it selects released Kafka's layout, with names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireVersion {
    /// Registry in which the number is defined.
    pub registry: Registry,
    /// Version number.
    pub number: i16,
}

impl From<i16> for WireVersion {
    /// Convert a version of released Kafka.
    #[inline]
    fn from(number: i16) -> Self {
        WireVersion {
            registry: Registry::Client,
            number,
        }
    }
}

impl WireVersion {
    /// Return a version among brokers.
    #[inline]
    pub const fn inter_broker(number: i16) -> Self {
        WireVersion {
            registry: Registry::InterBroker,
            number,
        }
    }

    /// Return whether this is a version among brokers.
    #[inline]
    pub const fn is_inter_broker(self) -> bool {
        matches!(self.registry, Registry::InterBroker)
    }

    /// Reject a version that a message does not have. `released` has Kafka's versions of the message, `own` the
    /// versions among brokers.
    #[inline]
    pub(super) fn check(
        self,
        released: core::ops::RangeInclusive<i16>,
        own: core::ops::RangeInclusive<i16>,
    ) -> Result<(), DecodeError> {
        let known = match self.registry {
            Registry::Client => released.contains(&self.number),
            Registry::InterBroker => own.contains(&self.number),
        };
        if known {
            Ok(())
        } else {
            Err(DecodeError::UnsupportedVersion)
        }
    }
}
