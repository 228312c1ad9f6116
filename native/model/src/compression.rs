//! The five codecs of record batches.
//!
//! Decompression streams with bounded memory: 1 MB of hostile gzip can expand to a gigabyte. Snappy uses snappy-java's
//! ("xerial") framing; decompression also accepts bare snappy, which some clients send.

use crate::BatchError;
use std::io::{self, BufRead, BufReader, Read, Write};

/// Limit of decompressed bytes of a batch whose bytes must all be in memory (compaction, reads of internal topics).
/// Validation streams the bytes and has no such limit.
pub const DECOMPRESSED_BYTES_MAX: usize = 256 << 20;
/// Largest accepted zstd window, as a power of two. It is zstd's own default, and clients that compress at level 22
/// need it.
const ZSTD_WINDOW_LOG_MAX: u32 = 27;
const XERIAL_MAGIC: &[u8; 8] = b"\x82SNAPPY\0";
const XERIAL_HEADER_BYTES: usize = 16;
/// Number of input bytes in a compressed block, as in snappy-java.
const XERIAL_BLOCK_BYTES: usize = 32 * 1024;
/// Snappy's densest element expands 3 bytes to 64. A block that claims more has a wrong size, and must not make the
/// reader allocate that much memory.
const SNAPPY_EXPANSION_MAX: usize = 22;

/// Compression codec of a batch (the low three attribute bits).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Codec {
    /// No compression.
    None = 0,
    /// RFC 1952.
    Gzip = 1,
    /// Snappy with xerial framing.
    Snappy = 2,
    /// LZ4 frame format.
    Lz4 = 3,
    /// Zstandard (KIP-110).
    Zstd = 4,
}

impl Codec {
    /// Return the codec for the codec bits of the attributes.
    #[must_use]
    pub const fn from_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::None),
            1 => Some(Self::Gzip),
            2 => Some(Self::Snappy),
            3 => Some(Self::Lz4),
            4 => Some(Self::Zstd),
            _ => None,
        }
    }

    /// Return the codec of a `compression.type` value; `uncompressed` is [`Codec::None`].
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "uncompressed" | "none" => Some(Self::None),
            "gzip" => Some(Self::Gzip),
            "snappy" => Some(Self::Snappy),
            "lz4" => Some(Self::Lz4),
            "zstd" => Some(Self::Zstd),
            _ => None,
        }
    }

    /// Return Kafka's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }
}

/// Stream of the decompressed bytes of one batch.
pub enum Decoder<'a> {
    /// Uncompressed bytes.
    Plain(&'a [u8]),
    /// gzip members.
    Gzip(Box<BufReader<flate2::bufread::MultiGzDecoder<&'a [u8]>>>),
    /// Snappy blocks.
    Snappy(SnappyReader<'a>),
    /// An LZ4 frame.
    Lz4(Box<lz4_flex::frame::FrameDecoder<&'a [u8]>>),
    /// A zstd frame.
    Zstd(BufReader<zstd::stream::read::Decoder<'a, &'a [u8]>>),
}

impl<'a> Decoder<'a> {
    /// Return a stream over `data`, compressed with `codec`.
    ///
    /// # Errors
    /// If the decoder cannot be set up.
    pub fn new(codec: Codec, data: &'a [u8]) -> Result<Self, BatchError> {
        Ok(match codec {
            Codec::None => Self::Plain(data),
            Codec::Gzip => Self::Gzip(Box::new(BufReader::new(
                flate2::bufread::MultiGzDecoder::new(data),
            ))),
            Codec::Snappy => Self::Snappy(SnappyReader::new(data)),
            Codec::Lz4 => Self::Lz4(Box::new(lz4_flex::frame::FrameDecoder::new(data))),
            Codec::Zstd => {
                let mut decoder = zstd::stream::read::Decoder::with_buffer(data).map_err(failed)?;
                decoder
                    .window_log_max(ZSTD_WINDOW_LOG_MAX)
                    .map_err(failed)?;
                Self::Zstd(BufReader::with_capacity(32 << 10, decoder))
            }
        })
    }
}

impl Read for Decoder<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(reader) => reader.read(out),
            Self::Gzip(reader) => reader.read(out),
            Self::Snappy(reader) => reader.read(out),
            Self::Lz4(reader) => reader.read(out),
            Self::Zstd(reader) => reader.read(out),
        }
    }
}

/// Reader of xerial-framed or bare snappy, with one block in memory at a time.
pub struct SnappyReader<'a> {
    data: &'a [u8],
    framed: bool,
    block: Vec<u8>,
    position: usize,
}

impl<'a> SnappyReader<'a> {
    fn new(data: &'a [u8]) -> Self {
        Self {
            data,
            framed: data.starts_with(XERIAL_MAGIC),
            block: Vec::new(),
            position: 0,
        }
    }

    /// Return the compressed bytes of the next block.
    fn next_block(&mut self) -> io::Result<Option<&'a [u8]>> {
        if !self.framed {
            let all = std::mem::take(&mut self.data);
            return Ok(if all.is_empty() { None } else { Some(all) });
        }
        // Concatenated streams repeat the header between blocks.
        while self.data.starts_with(XERIAL_MAGIC) {
            self.data = self.data.get(XERIAL_HEADER_BYTES..).ok_or_else(cut_short)?;
        }
        if self.data.is_empty() {
            return Ok(None);
        }
        let (length, rest) = self.data.split_first_chunk::<4>().ok_or_else(cut_short)?;
        let length = u32::from_be_bytes(*length) as usize;
        let block = rest.get(..length).ok_or_else(cut_short)?;
        self.data = &rest[length..];
        Ok(Some(block))
    }
}

fn cut_short() -> io::Error {
    io::Error::new(
        io::ErrorKind::UnexpectedEof,
        "snappy stream ends inside a block",
    )
}

impl Read for SnappyReader<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let available = self.fill_buf()?;
        let count = available.len().min(out.len());
        out[..count].copy_from_slice(&available[..count]);
        self.consume(count);
        Ok(count)
    }
}

impl BufRead for SnappyReader<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        while self.position == self.block.len() {
            let Some(compressed) = self.next_block()? else {
                break;
            };
            let size = snap::raw::decompress_len(compressed)?;
            if size > compressed.len() * SNAPPY_EXPANSION_MAX + 64 {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "impossible snappy size",
                ));
            }
            self.block.resize(size, 0);
            self.position = 0;
            snap::raw::Decoder::new().decompress(compressed, &mut self.block)?;
        }
        Ok(&self.block[self.position..])
    }

    fn consume(&mut self, count: usize) {
        self.position += count;
    }
}

/// Return whether a block of the LZ4 frame may refer to earlier ones. Kafka's Java code cannot read such a frame.
pub(crate) fn has_linked_lz4_blocks(frame: &[u8]) -> bool {
    const MAGIC: [u8; 4] = 0x184D_2204_u32.to_le_bytes();
    const BLOCKS_ARE_INDEPENDENT: u8 = 1 << 5;
    frame.starts_with(&MAGIC)
        && frame
            .get(MAGIC.len())
            .is_some_and(|flags| flags & BLOCKS_ARE_INDEPENDENT == 0)
}

/// Append the decompressed `data` to `out`.
///
/// # Errors
/// [`BatchError::Decompression`] for corrupt data or more than `max` bytes of output.
pub fn decompress(
    codec: Codec,
    data: &[u8],
    out: &mut Vec<u8>,
    max: usize,
) -> Result<(), BatchError> {
    let decoder = Decoder::new(codec, data)?;
    let before = out.len();
    decoder
        .take(max as u64 + 1)
        .read_to_end(out)
        .map_err(failed)?;
    if out.len() - before > max {
        return Err(BatchError::Decompression(format!("more than {max} bytes")));
    }
    Ok(())
}

/// Append `data` compressed with `codec` to `out`. `level` is that of `compression.gzip.level` or
/// `compression.zstd.level` (`None` = the codec's default); lz4 has only its fast level here.
///
/// # Errors
/// [`BatchError::Decompression`] if the compressor fails, in practice out of memory.
pub fn compress(
    codec: Codec,
    level: Option<i32>,
    data: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), BatchError> {
    match codec {
        Codec::None => out.extend_from_slice(data),
        Codec::Gzip => {
            let level = level
                .and_then(|l| u32::try_from(l).ok())
                .filter(|&l| l <= 9);
            let level = level.map_or_else(flate2::Compression::default, flate2::Compression::new);
            let mut encoder = flate2::write::GzEncoder::new(out, level);
            encoder
                .write_all(data)
                .and_then(|()| encoder.finish().map(|_| ()))
                .map_err(failed)?;
        }
        Codec::Snappy => {
            out.extend_from_slice(XERIAL_MAGIC);
            out.extend_from_slice(&1u32.to_be_bytes());
            out.extend_from_slice(&1u32.to_be_bytes());
            let mut encoder = snap::raw::Encoder::new();
            for block in data.chunks(XERIAL_BLOCK_BYTES) {
                let compressed = encoder.compress_vec(block).map_err(|e| failed(e.into()))?;
                out.extend_from_slice(&(compressed.len() as u32).to_be_bytes());
                out.extend_from_slice(&compressed);
            }
        }
        Codec::Lz4 => {
            let info =
                lz4_flex::frame::FrameInfo::new().block_size(lz4_flex::frame::BlockSize::Max64KB);
            let mut encoder = lz4_flex::frame::FrameEncoder::with_frame_info(info, out);
            encoder.write_all(data).map_err(failed)?;
            encoder.finish().map_err(|e| failed(e.into()))?;
        }
        Codec::Zstd => {
            let level = level.unwrap_or(zstd::DEFAULT_COMPRESSION_LEVEL);
            zstd::stream::copy_encode(data, out, level).map_err(failed)?;
        }
    }
    Ok(())
}

#[allow(clippy::needless_pass_by_value)] // passed as `map_err(failed)`, which needs a value
pub(crate) fn failed(error: io::Error) -> BatchError {
    BatchError::Decompression(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALL: [Codec; 5] = [
        Codec::None,
        Codec::Gzip,
        Codec::Snappy,
        Codec::Lz4,
        Codec::Zstd,
    ];

    #[test]
    fn bare_snappy_is_read() {
        let data = vec![7u8; 100_000];
        let bare = snap::raw::Encoder::new()
            .compress_vec(&data)
            .expect("compresses");
        let mut out = Vec::new();
        decompress(Codec::Snappy, &bare, &mut out, 1 << 20).expect("decompresses");
        assert_eq!(out, data);
    }

    #[test]
    fn a_bomb_stops_at_the_limit() {
        let data = vec![0u8; 4 << 20];
        for codec in ALL {
            let mut packed = Vec::new();
            compress(codec, None, &data, &mut packed).expect("compresses");
            let mut out = Vec::new();
            assert!(
                decompress(codec, &packed, &mut out, 1 << 20).is_err(),
                "{codec:?}"
            );
            assert!(out.len() <= (1 << 20) + 1);
        }
    }

    #[test]
    fn a_snappy_block_cannot_claim_gigabytes() {
        let mut lie = XERIAL_MAGIC.to_vec();
        lie.extend_from_slice(&[
            0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 6, 0xff, 0xff, 0xff, 0xff, 0x0f, 0,
        ]);
        assert!(decompress(Codec::Snappy, &lie, &mut Vec::new(), 1 << 30).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn round_trip(data in proptest::collection::vec(0u8..4, 0..200_000), pick in 0usize..5) {
            let mut packed = Vec::new();
            compress(ALL[pick], None, &data, &mut packed).expect("compresses");
            let mut out = Vec::new();
            decompress(ALL[pick], &packed, &mut out, 1 << 20).expect("decompresses");
            prop_assert!(out == data);
        }

        #[test]
        fn garbage_is_an_error_or_bytes(data in proptest::collection::vec(any::<u8>(), 0..2000),
                                        pick in 0usize..5, framed: bool) {
            let mut input = if framed { XERIAL_MAGIC.to_vec() } else { Vec::new() };
            input.extend_from_slice(&data);
            let _ = decompress(ALL[pick], &input, &mut Vec::new(), 1 << 20);
        }
    }
}
