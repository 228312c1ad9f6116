//! 128-bit ids of topics, clusters and directories (KIP-516, KIP-78).

use std::fmt;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const BASE64_CHARS: usize = 22;

/// A 128-bit id, ordered by its bytes. Its text is url-safe base64 without padding (22 characters). Parsing also
/// accepts 32 hex digits and the dashed form of RFC 4122.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Uuid(u128);

/// Text that is not a [`Uuid`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a uuid: expected 22 base64 characters, 32 hex digits or the dashed form")]
pub struct ParseUuidError(String);

impl Uuid {
    /// The id that means "no id" in the protocol and in files.
    pub const ZERO: Self = Self(0);
    /// Reserved by KIP-516 for the metadata topic; never assigned to another topic.
    pub const METADATA: Self = Self(1);

    /// Return a new version-4 id. It is never [`Uuid::ZERO`] or [`Uuid::METADATA`]. Its text never starts with `-`, so
    /// that it can be a command-line argument.
    #[must_use]
    pub fn random() -> Self {
        loop {
            let bits: u128 = rand::random();
            let version_4 = (bits & !(0xf << 76)) | (0x4 << 76);
            let id = Self((version_4 & !(0x3 << 62)) | (0x2 << 62));
            // The first six bits select the first character of the text; 62 selects '-'.
            if (id.0 >> 122) != 62 {
                return id;
            }
        }
    }

    /// Return the id with these big-endian bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(u128::from_be_bytes(bytes))
    }

    /// Return the big-endian bytes, as in the protocol.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    /// Return the id made of Java's two signed halves.
    #[must_use]
    pub const fn from_parts(most_significant: u64, least_significant: u64) -> Self {
        Self(((most_significant as u128) << 64) | least_significant as u128)
    }

    /// Return the upper 64 bits.
    #[must_use]
    pub const fn most_significant_bits(self) -> u64 {
        (self.0 >> 64) as u64
    }

    /// Return the lower 64 bits.
    #[must_use]
    pub const fn least_significant_bits(self) -> u64 {
        self.0 as u64
    }

    /// Return the id as a number.
    #[must_use]
    pub const fn as_u128(self) -> u128 {
        self.0
    }

    /// Return the id of a number.
    #[must_use]
    pub const fn from_u128(value: u128) -> Self {
        Self(value)
    }

    /// Return whether this is [`Uuid::ZERO`].
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// Return 32 lower-case hex digits, as in the names of staged deletions.
    #[must_use]
    pub fn to_hex(self) -> String {
        format!("{:032x}", self.0)
    }

    /// Parse base64 (22 characters, or 24 with padding), 32 hex digits or the dashed form.
    ///
    /// # Errors
    /// [`ParseUuidError`] with the text.
    pub fn parse(text: &str) -> Result<Self, ParseUuidError> {
        let parsed = match text.len() {
            BASE64_CHARS => from_base64(text.as_bytes()),
            24 if text.ends_with("==") => from_base64(&text.as_bytes()[..BASE64_CHARS]),
            32 => from_hex(text.bytes()),
            36 => from_dashed(text.as_bytes()),
            _ => None,
        };
        parsed.map(Self).ok_or_else(|| {
            // Shorten the text in the error, so that a hostile text cannot fill the log.
            ParseUuidError(text.chars().take(64).collect())
        })
    }
}

fn from_base64(text: &[u8]) -> Option<u128> {
    let mut value = 0u128;
    for (index, &byte) in text.iter().enumerate() {
        let digit = ALPHABET.iter().position(|&letter| letter == byte)? as u128;
        if index < BASE64_CHARS - 1 {
            value = (value << 6) | digit;
        } else {
            // 21 characters carry 126 bits. The last character carries two more, and its other bits must be zero.
            if digit & 0xf != 0 {
                return None;
            }
            value = (value << 2) | (digit >> 4);
        }
    }
    Some(value)
}

fn from_hex(text: impl Iterator<Item = u8>) -> Option<u128> {
    text.map(|byte| (byte as char).to_digit(16))
        .try_fold(0u128, |value, digit| {
            Some((value << 4) | u128::from(digit?))
        })
}

fn from_dashed(text: &[u8]) -> Option<u128> {
    const DASHES: [usize; 4] = [8, 13, 18, 23];
    if DASHES.iter().any(|&at| text[at] != b'-') {
        return None;
    }
    let digits = text
        .iter()
        .enumerate()
        .filter(|(at, _)| !DASHES.contains(at));
    from_hex(digits.map(|(_, &byte)| byte))
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0u8; BASE64_CHARS];
        for (index, letter) in text.iter_mut().enumerate() {
            let digit = if index < BASE64_CHARS - 1 {
                (self.0 >> (122 - 6 * index)) & 0x3f
            } else {
                (self.0 & 0x3) << 4
            };
            *letter = ALPHABET[digit as usize];
        }
        f.write_str(std::str::from_utf8(&text).map_err(|_| fmt::Error)?)
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::str::FromStr for Uuid {
    type Err = ParseUuidError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn texts_of_the_sentinels() {
        assert_eq!(Uuid::ZERO.to_string(), "AAAAAAAAAAAAAAAAAAAAAA");
        assert_eq!(Uuid::METADATA.to_string(), "AAAAAAAAAAAAAAAAAAAAAQ");
    }

    #[test]
    fn three_notations() {
        let id = Uuid::from_parts(0x0011_2233_4455_6677, 0x8899_aabb_ccdd_eeff);
        assert_eq!(Uuid::parse("00112233445566778899aabbccddeeff"), Ok(id));
        assert_eq!(Uuid::parse("00112233-4455-6677-8899-AABBCCDDEEFF"), Ok(id));
        assert_eq!(Uuid::parse("ABEiM0RVZneImaq7zN3u_w"), Ok(id));
        assert_eq!(Uuid::parse("ABEiM0RVZneImaq7zN3u_w=="), Ok(id));
        assert_eq!(id.to_hex(), "00112233445566778899aabbccddeeff");
    }

    #[test]
    fn refused_texts() {
        for text in [
            "",
            "ABEiM0RVZneImaq7zN3u_x",
            "ABEiM0RVZneImaq7zN3u/w",
            "éééééééééééééééé",
            "0011223344556677-8899aabbccddeeff-000",
        ] {
            assert!(Uuid::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn random_ids_never_start_with_a_dash() {
        for _ in 0..10_000 {
            let id = Uuid::random();
            assert!(!id.to_string().starts_with('-'));
            assert_eq!((id.as_u128() >> 76) & 0xf, 4);
        }
    }

    proptest! {
        #[test]
        fn round_trip(bits: u128) {
            let id = Uuid::from_u128(bits);
            prop_assert_eq!(Uuid::parse(&id.to_string()), Ok(id));
            prop_assert_eq!(Uuid::parse(&id.to_hex()), Ok(id));
            prop_assert_eq!(Uuid::from_bytes(id.to_bytes()), id);
        }

        #[test]
        fn any_text_is_harmless(text in "\\PC*") {
            let _ = Uuid::parse(&text);
        }
    }
}
