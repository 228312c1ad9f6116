//! The frame: a big-endian INT32 length, then that many bytes.

/// Bytes of the length prefix.
pub const LENGTH_BYTES: usize = 4;

/// The smallest request: API key, version, correlation id (the end of header v0). Every later header also has a client
/// id, so it is longer by at least the client id's length field.
pub const REQUEST_BYTES_MIN: usize = 8;

/// Result of parsing a length prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameLength {
    /// Fewer than four bytes have arrived.
    Incomplete,
    /// The body (everything after the prefix) takes this many bytes.
    Body(usize),
    /// The length is invalid for this listener.
    Refused {
        /// The length that the prefix claims.
        length: i32,
        /// The protocol that the peer probably speaks.
        guess: Guess,
    },
}

/// Protocol that a refused length prefix suggests, for the log line about the closed connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guess {
    /// A TLS client hello, although this port expects plaintext.
    Tls,
    /// An HTTP request line.
    Http,
    /// Any other bytes.
    Garbage,
}

/// Parse the length prefix. `max` is the listener's limit in bytes, without the prefix.
#[inline]
pub fn frame_length(bytes: &[u8], max: usize) -> FrameLength {
    frame_length_between(bytes, REQUEST_BYTES_MIN, max)
}

/// Parse the length prefix of frames that may have only `min` bytes, because SASL tokens have no request header.
#[inline]
pub fn frame_length_between(bytes: &[u8], min: usize, max: usize) -> FrameLength {
    let Some(prefix) = bytes.first_chunk::<LENGTH_BYTES>() else {
        return FrameLength::Incomplete;
    };
    let length = i32::from_be_bytes(*prefix);
    if length < min as i32 || length as usize > max {
        return FrameLength::Refused {
            length,
            guess: guess(prefix),
        };
    }
    FrameLength::Body(length as usize)
}

fn guess(prefix: &[u8; LENGTH_BYTES]) -> Guess {
    match prefix {
        // A TLS record of type handshake, with protocol version 3.x (SSL 3 to TLS 1.3).
        [0x16, 0x03, 0x00..=0x04, _] => Guess::Tls,
        b"GET " | b"POST" | b"PUT " | b"HEAD" | b"OPTI" | b"DELE" | b"PATC" | b"CONN" | b"PRI " => {
            Guess::Http
        }
        _ => Guess::Garbage,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_outside_the_limits_are_refused_and_explained() {
        let check = |bytes: &[u8], expected: FrameLength| {
            assert_eq!(frame_length(bytes, 1000), expected, "{bytes:?}")
        };
        check(&[], FrameLength::Incomplete);
        check(&[0, 0, 0], FrameLength::Incomplete);
        check(&[0, 0, 0, 8], FrameLength::Body(8));
        check(&[0, 0, 3, 232], FrameLength::Body(1000));
        check(
            &[0, 0, 3, 233],
            FrameLength::Refused {
                length: 1001,
                guess: Guess::Garbage,
            },
        );
        check(
            &[0, 0, 0, 7],
            FrameLength::Refused {
                length: 7,
                guess: Guess::Garbage,
            },
        );
        check(
            &[0, 0, 0, 0],
            FrameLength::Refused {
                length: 0,
                guess: Guess::Garbage,
            },
        );
        check(
            &[0xff; 4],
            FrameLength::Refused {
                length: -1,
                guess: Guess::Garbage,
            },
        );
        check(
            &[0x7f, 0xff, 0xff, 0xff],
            FrameLength::Refused {
                length: i32::MAX,
                guess: Guess::Garbage,
            },
        );
        check(
            &[0x16, 3, 1, 2],
            FrameLength::Refused {
                length: 0x1603_0102,
                guess: Guess::Tls,
            },
        );
        check(
            b"GET /",
            FrameLength::Refused {
                length: 0x4745_5420,
                guess: Guess::Http,
            },
        );
    }
}
