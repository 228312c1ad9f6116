//! Which layout of a message: by what set of layouts its listener goes, and which number in it.

use crate::codec::Registry;
use crate::primitives::DecodeError;

/// A version of a message. The same number is another layout among brokers where the KIP-516 text has one of its own:
/// there topics go by id in each of these messages. The number before it is released Kafka's, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireVersion {
    /// Whose numbers these are.
    pub registry: Registry,
    /// The number.
    pub number: i16,
}

impl From<i16> for WireVersion {
    /// A version of released Kafka.
    #[inline]
    fn from(number: i16) -> Self {
        WireVersion {
            registry: Registry::Client,
            number,
        }
    }
}

impl WireVersion {
    /// A version among brokers.
    #[inline]
    pub const fn inter_broker(number: i16) -> Self {
        WireVersion {
            registry: Registry::InterBroker,
            number,
        }
    }

    /// Whether brokers speak it.
    #[inline]
    pub const fn is_inter_broker(self) -> bool {
        matches!(self.registry, Registry::InterBroker)
    }

    /// Refuses what a message does not have: `released` are Kafka's versions of it, `own` are those among brokers.
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
