//! Encoding of Arrow columns into record batches: the columns of a writer, and the partition of each row.

use arrow_array::cast::AsArray;
use arrow_array::types::{ByteArrayType, Int32Type, Int64Type, TimestampMicrosecondType};
use arrow_array::{Array, ArrayRef, GenericByteArray, StructArray};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, TimeUnit};
use pybroker_model::{BatchBuilder, Codec, HEADER_BYTES};

use crate::error::{Error, Result};

/// Maximum bytes of a record's length and delta fields, without headers.
const RECORD_OVERHEAD: usize = 5 + 1 + 10 + 5 + 5 + 5 + 5;
/// Maximum number of buffers of delivered batches that are kept for reuse: as many as batches are in flight at a time.
const SPARE_MAX: usize = 8;

/// A column of bytes or text, with the start of each row in `data` and the end of the last row.
pub(crate) struct Bytes<'a> {
    offsets: Offsets<'a>,
    data: &'a [u8],
    nulls: Option<&'a NullBuffer>,
}

#[derive(Clone, Copy)]
enum Offsets<'a> {
    Small(&'a [i32]),
    Large(&'a [i64]),
}

impl<'a> Bytes<'a> {
    fn of(array: &'a ArrayRef, name: &str) -> Result<Self> {
        Ok(match array.data_type() {
            DataType::Binary => Self::new(array.as_binary::<i32>(), Offsets::Small),
            DataType::Utf8 => Self::new(array.as_string::<i32>(), Offsets::Small),
            DataType::LargeBinary => Self::new(array.as_binary::<i64>(), Offsets::Large),
            DataType::LargeUtf8 => Self::new(array.as_string::<i64>(), Offsets::Large),
            other => return Err(wrong(name, "string or binary", other)),
        })
    }

    fn new<T: ByteArrayType>(
        array: &'a GenericByteArray<T>,
        offsets: impl FnOnce(&'a [T::Offset]) -> Offsets<'a>,
    ) -> Self {
        Self {
            offsets: offsets(array.value_offsets()),
            data: array.value_data(),
            nulls: array.nulls(),
        }
    }

    #[inline]
    pub(crate) fn get(&self, row: usize) -> Option<&'a [u8]> {
        if self.nulls.is_some_and(|nulls| nulls.is_null(row)) {
            return None;
        }
        let (start, end) = match self.offsets {
            Offsets::Small(offsets) => (offsets[row] as usize, offsets[row + 1] as usize),
            Offsets::Large(offsets) => (offsets[row] as usize, offsets[row + 1] as usize),
        };
        Some(&self.data[start..end])
    }
}

fn wrong(name: &str, expected: &str, found: &DataType) -> Error {
    Error::Rows(format!("column {name}: {expected} is needed, not {found}"))
}

/// The columns of one Arrow batch from which records are made, by the rules of Spark's Kafka sink.
pub(crate) struct Rows<'a> {
    pub(crate) count: usize,
    key: Option<Bytes<'a>>,
    value: Bytes<'a>,
    topic: Option<Bytes<'a>>,
    partition: Option<&'a ArrayRef>,
    timestamp: Option<(&'a ArrayRef, i64)>,
    headers: Option<Headers<'a>>,
}

struct Headers<'a> {
    lists: &'a ArrayRef,
    entries: &'a StructArray,
    keys: Bytes<'a>,
    values: Bytes<'a>,
}

impl<'a> Rows<'a> {
    pub(crate) fn of(batch: &'a StructArray) -> Result<Self> {
        let column = |name: &str| {
            batch
                .fields()
                .iter()
                .position(|field| field.name() == name)
                .map(|index| batch.column(index))
        };
        let bytes = |name: &str| column(name).map(|array| Bytes::of(array, name)).transpose();
        let value =
            bytes("value")?.ok_or_else(|| Error::Rows("there is no column named value".into()))?;
        let partition = column("partition");
        if let Some(array) = partition
            && *array.data_type() != DataType::Int32
        {
            return Err(wrong("partition", "int", array.data_type()));
        }
        let timestamp = match column("timestamp") {
            None => None,
            Some(array) => match array.data_type() {
                DataType::Timestamp(TimeUnit::Microsecond, _) => Some((array, 1000)),
                DataType::Int64 => Some((array, 1)),
                other => return Err(wrong("timestamp", "timestamp or bigint (ms)", other)),
            },
        };
        Ok(Self {
            count: batch.len(),
            key: bytes("key")?,
            value,
            topic: bytes("topic")?,
            partition,
            timestamp,
            headers: column("headers").map(Headers::of).transpose()?,
        })
    }

    #[inline]
    pub(crate) fn key(&self, row: usize) -> Option<&'a [u8]> {
        self.key.as_ref().and_then(|column| column.get(row))
    }

    #[inline]
    pub(crate) fn value(&self, row: usize) -> Option<&'a [u8]> {
        self.value.get(row)
    }

    pub(crate) fn topic(&self, row: usize) -> Option<&'a str> {
        let bytes = self.topic.as_ref().and_then(|column| column.get(row))?;
        core::str::from_utf8(bytes).ok()
    }

    #[inline]
    pub(crate) fn partition(&self, row: usize) -> Option<i32> {
        let array = self.partition?.as_primitive::<Int32Type>();
        array.is_valid(row).then(|| array.value(row))
    }

    /// Return the row's own timestamp in milliseconds since the Unix epoch, if it has one.
    #[inline]
    pub(crate) fn timestamp(&self, row: usize) -> Result<Option<i64>> {
        let Some((array, divisor)) = self.timestamp else {
            return Ok(None);
        };
        if array.is_null(row) {
            return Ok(None);
        }
        let time = if divisor == 1 {
            array.as_primitive::<Int64Type>().value(row)
        } else {
            array
                .as_primitive::<TimestampMicrosecondType>()
                .value(row)
                .div_euclid(divisor)
        };
        if time < 0 {
            // In a record, −1 means "no timestamp". Other negative values are invalid.
            return Err(Error::Rows(format!(
                "column timestamp: {time} ms is before 1970, which a record cannot store"
            )));
        }
        Ok(Some(time))
    }

    /// Write the row's headers to `out`, which is cleared first.
    #[inline]
    pub(crate) fn headers(
        &self,
        row: usize,
        out: &mut Vec<(&'a [u8], Option<&'a [u8]>)>,
    ) -> Result<()> {
        out.clear();
        self.headers
            .as_ref()
            .map_or(Ok(()), |headers| headers.of_row(row, out))
    }
}

impl<'a> Headers<'a> {
    fn of(lists: &'a ArrayRef) -> Result<Self> {
        let expected = "array<struct<key:string,value:binary>>";
        let entries = match lists.data_type() {
            DataType::List(_) => lists.as_list::<i32>().values(),
            DataType::LargeList(_) => lists.as_list::<i64>().values(),
            other => return Err(wrong("headers", expected, other)),
        };
        let entries = entries
            .as_struct_opt()
            .filter(|entries| entries.num_columns() == 2)
            .ok_or_else(|| wrong("headers", expected, lists.data_type()))?;
        let field = |name: &str| {
            entries
                .column_by_name(name)
                .ok_or_else(|| wrong("headers", expected, lists.data_type()))
        };
        Ok(Self {
            lists,
            entries,
            keys: Bytes::of(field("key")?, "headers.key")?,
            values: Bytes::of(field("value")?, "headers.value")?,
        })
    }

    fn of_row(&self, row: usize, out: &mut Vec<(&'a [u8], Option<&'a [u8]>)>) -> Result<()> {
        if self.lists.is_null(row) {
            return Ok(());
        }
        let range = match self.lists.data_type() {
            DataType::List(_) => {
                let offsets = self.lists.as_list::<i32>().value_offsets();
                offsets[row] as usize..offsets[row + 1] as usize
            }
            _ => {
                let offsets = self.lists.as_list::<i64>().value_offsets();
                offsets[row] as usize..offsets[row + 1] as usize
            }
        };
        for entry in range {
            if self.entries.is_null(entry) {
                return Err(Error::Rows(
                    "column headers: an entry of the array is null, not a header".into(),
                ));
            }
            let key = self
                .keys
                .get(entry)
                .ok_or_else(|| Error::Rows("a header has no key".into()))?;
            out.push((key, self.values.get(entry)));
        }
        Ok(())
    }
}

/// A finished batch, at base offset 0, with its producer's id, epoch and sequence.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) bytes: Vec<u8>,
    pub(crate) records: i32,
    /// Bytes of keys and values, before compression.
    pub(crate) payload: u64,
}

/// The open batch of each partition of one topic.
pub(crate) struct Batches {
    open: Vec<Option<OpenBatch>>,
    codec: Codec,
    level: Option<i32>,
    limit: usize,
    /// Bytes in all open batches.
    pub(crate) buffered: usize,
    /// Buffers of delivered batches. Reusing them avoids allocating and mapping that much memory again.
    spare: Vec<Vec<u8>>,
}

struct OpenBatch {
    builder: BatchBuilder,
    payload: u64,
}

impl Batches {
    pub(crate) fn new(partitions: usize, codec: Codec, level: Option<i32>, limit: usize) -> Self {
        Self {
            open: (0..partitions).map(|_| None).collect(),
            codec,
            level,
            limit: limit.saturating_sub(HEADER_BYTES),
            buffered: 0,
            spare: Vec::new(),
        }
    }

    /// Reuse the memory of a delivered batch.
    pub(crate) fn recycle(&mut self, memory: Vec<u8>) {
        if self.spare.len() < SPARE_MAX {
            self.spare.push(memory);
        }
    }

    /// Return whether a record of `bytes` bytes does not fit into the partition's open batch.
    #[inline]
    pub(crate) fn is_full_for(&self, partition: usize, bytes: usize) -> bool {
        self.open[partition]
            .as_ref()
            .is_some_and(|open| open.builder.records_bytes() + bytes > self.limit)
    }

    #[inline]
    pub(crate) fn push(
        &mut self,
        partition: usize,
        timestamp: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[(&[u8], Option<&[u8]>)],
    ) {
        let (codec, level, spare) = (self.codec, self.level, &mut self.spare);
        let open = self.open[partition].get_or_insert_with(|| {
            let builder = BatchBuilder::reusing(codec, spare.pop().unwrap_or_default());
            OpenBatch {
                builder: match level {
                    Some(level) => builder.level(level),
                    None => builder,
                },
                payload: 0,
            }
        });
        let before = open.builder.records_bytes();
        open.builder
            .push_with_headers(timestamp, key, value, headers);
        open.payload += (key.map_or(0, <[u8]>::len) + value.map_or(0, <[u8]>::len)) as u64;
        self.buffered += open.builder.records_bytes() - before;
    }

    /// Close and return the open batch of a partition, if it has one, with `producer` (id, epoch, sequence).
    pub(crate) fn seal(
        &mut self,
        partition: usize,
        producer: Option<(i64, i16, i32)>,
        transactional: bool,
    ) -> Result<Option<Batch>> {
        let Some(open) = self.open[partition].take() else {
            return Ok(None);
        };
        self.buffered -= open.builder.records_bytes();
        let records = open.builder.len();
        let builder = match producer {
            Some((id, epoch, sequence)) => open.builder.producer(id, epoch, sequence),
            None => open.builder,
        };
        let builder = if transactional {
            builder.transactional()
        } else {
            builder
        };
        let bytes = builder
            .finish()
            .map_err(|error| Error::Rows(error.to_string()))?;
        Ok(Some(Batch {
            bytes,
            records,
            payload: open.payload,
        }))
    }

    /// Return the partition with the largest open batch.
    pub(crate) fn largest(&self) -> Option<usize> {
        let size =
            |open: &Option<OpenBatch>| open.as_ref().map(|open| open.builder.records_bytes());
        (0..self.open.len())
            .filter(|&index| self.open[index].is_some())
            .max_by_key(|&index| size(&self.open[index]))
    }

    pub(crate) fn partitions(&self) -> usize {
        self.open.len()
    }
}

/// Return the maximum bytes of a record in a batch.
#[inline]
pub(crate) fn record_bytes(
    key: Option<&[u8]>,
    value: Option<&[u8]>,
    headers: &[(&[u8], Option<&[u8]>)],
) -> usize {
    let headers: usize = headers
        .iter()
        .map(|(key, value)| 10 + key.len() + value.map_or(0, <[u8]>::len))
        .sum();
    RECORD_OVERHEAD + key.map_or(0, <[u8]>::len) + value.map_or(0, <[u8]>::len) + headers
}
