//! Which layout of a message: by what set of layouts its listener goes, and which number in it.

use crate::codec::Registry;
use crate::primitives::DecodeError;

/// A version of a message. The same number is another layout among brokers where the KIP-516 text has one of its own:
/// there topics go by id in each of these messages.
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
    /// A version of the KIP-516 text.
    #[inline]
    pub const fn inter_broker(number: i16) -> Self {
        WireVersion {
            registry: Registry::InterBroker,
            number,
        }
    }

    /// Whether it is the KIP-516 text's own.
    #[inline]
    pub const fn is_inter_broker(self) -> bool {
        matches!(self.registry, Registry::InterBroker)
    }

    /// Refuses what a message does not have: `released` are Kafka's versions of it, `own` is the text's.
    #[inline]
    pub(super) fn check(
        self,
        released: core::ops::RangeInclusive<i16>,
        own: i16,
    ) -> Result<(), DecodeError> {
        let known = match self.registry {
            Registry::Client => released.contains(&self.number),
            Registry::InterBroker => self.number == own,
        };
        if known {
            Ok(())
        } else {
            Err(DecodeError::UnsupportedVersion)
        }
    }
}
