//! Decoding of record batches into Arrow columns, under the names and types of Spark's Kafka source, plus two ids of
//! pybroker.

use std::sync::Arc;

use arrow_array::builder::{
    ArrayBuilder, BinaryBuilder, Int32Builder, Int64Builder, StringBuilder,
    TimestampMicrosecondBuilder,
};
use arrow_array::{ArrayRef, ListArray, RecordBatch, StructArray};
use arrow_buffer::{NullBufferBuilder, OffsetBuffer};
use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};
use pybroker_model::{
    BatchError, BatchHeader, Codec, HEADER_BYTES, RecordRef, Records, TimestampType,
    decompressed_records,
};

/// Target size of an Arrow batch. It is well below the 2 GiB limit of 32-bit offsets, for any size of the decompressed
/// records.
pub(crate) const ROWS_BYTES: usize = 8 << 20;

/// Columns of a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// `key`, binary.
    Key,
    /// `value`, binary.
    Value,
    /// `topic`, the name, string.
    Topic,
    /// `topic_id`, string.
    TopicId,
    /// `partition`, int.
    Partition,
    /// `offset`, bigint.
    Offset,
    /// `timestamp`, microseconds UTC.
    Timestamp,
    /// `timestampType`, int: 0 = set by the producer, 1 = set by the broker.
    TimestampType,
    /// `headers`, array of key and value.
    Headers,
    /// `cluster_id`, string.
    ClusterId,
}

impl Column {
    /// All columns with their names.
    pub const ALL: [(Column, &'static str); 10] = [
        (Column::Key, "key"),
        (Column::Value, "value"),
        (Column::Topic, "topic"),
        (Column::TopicId, "topic_id"),
        (Column::Partition, "partition"),
        (Column::Offset, "offset"),
        (Column::Timestamp, "timestamp"),
        (Column::TimestampType, "timestampType"),
        (Column::Headers, "headers"),
        (Column::ClusterId, "cluster_id"),
    ];

    /// Return the column of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .find_map(|(column, known)| (*known == name).then_some(*column))
    }

    fn field(self) -> Field {
        let name = Self::ALL
            .iter()
            .find_map(|(column, name)| (*column == self).then_some(*name))
            .unwrap_or_default();
        let kind = match self {
            Self::Key | Self::Value => DataType::Binary,
            Self::Topic | Self::TopicId | Self::ClusterId => DataType::Utf8,
            Self::Partition | Self::TimestampType => DataType::Int32,
            Self::Offset => DataType::Int64,
            Self::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            Self::Headers => DataType::List(Arc::new(header_element())),
        };
        Field::new(name, kind, true)
    }
}

fn header_fields() -> Fields {
    Fields::from(vec![
        Field::new("key", DataType::Utf8, true),
        Field::new("value", DataType::Binary, true),
    ])
}

fn header_element() -> Field {
    Field::new("element", DataType::Struct(header_fields()), true)
}

/// Return the Arrow schema of `columns`.
#[must_use]
pub fn schema_of(columns: &[Column]) -> SchemaRef {
    Arc::new(Schema::new(
        columns
            .iter()
            .map(|column| column.field())
            .collect::<Fields>(),
    ))
}

/// Values shared by all rows of one partition.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) topic: String,
    pub(crate) topic_id: String,
    pub(crate) cluster_id: String,
    pub(crate) partition: i32,
}

enum ColumnBuilder {
    Key(BinaryBuilder),
    Value(BinaryBuilder),
    Constant(StringBuilder, String),
    Partition(Int32Builder, i32),
    Offset(Int64Builder),
    Timestamp(TimestampMicrosecondBuilder),
    TimestampType(Int32Builder),
    Headers(Box<HeaderColumn>),
}

struct HeaderColumn {
    offsets: Vec<i32>,
    keys: StringBuilder,
    values: BinaryBuilder,
    present: NullBufferBuilder,
}

impl HeaderColumn {
    fn push(&mut self, record: &RecordRef<'_>) {
        for header in record.headers {
            self.keys.append_value(String::from_utf8_lossy(header.key));
            self.values.append_option(header.value);
        }
        self.offsets.push(self.keys.len() as i32);
        // As in Spark's own source, missing headers are null, not an empty array.
        self.present.append(!record.headers.is_empty());
    }
}

/// Builder of the columns from records of one partition.
pub(crate) struct Decoder {
    schema: SchemaRef,
    columns: Vec<Column>,
    place: Place,
    builder: Vec<ColumnBuilder>,
    rows: usize,
    bytes: usize,
    /// Approximate number of bytes that a row takes in addition to its record.
    row_bytes: usize,
    scratch: Vec<u8>,
    part: Option<Part>,
}

/// Position in a record batch that has too many records for one Arrow batch.
struct Part {
    /// Position of the next record.
    at: usize,
    /// Number of remaining records.
    left: i32,
    /// Lowest possible offset of the next record.
    next: i64,
}

impl Decoder {
    pub(crate) fn new(columns: &[Column], place: Place) -> Self {
        let mut decoder = Self {
            schema: schema_of(columns),
            columns: columns.to_vec(),
            place,
            builder: Vec::new(),
            rows: 0,
            bytes: 0,
            row_bytes: 0,
            scratch: Vec::new(),
            part: None,
        };
        decoder.start();
        decoder
    }

    pub(crate) const fn rows(&self) -> usize {
        self.rows
    }

    /// Return whether there are enough rows for an Arrow batch.
    pub(crate) const fn is_full(&self) -> bool {
        self.bytes >= ROWS_BYTES
    }

    /// Stop decoding the batch that [`Decoder::push`] has decoded only partly.
    pub(crate) fn leave(&mut self) {
        self.part = None;
    }

    fn start(&mut self) {
        let place = &self.place;
        self.builder = self
            .columns
            .iter()
            .map(|column| match column {
                Column::Key => ColumnBuilder::Key(BinaryBuilder::new()),
                Column::Value => ColumnBuilder::Value(BinaryBuilder::new()),
                Column::Topic => ColumnBuilder::Constant(StringBuilder::new(), place.topic.clone()),
                Column::TopicId => {
                    ColumnBuilder::Constant(StringBuilder::new(), place.topic_id.clone())
                }
                Column::ClusterId => {
                    ColumnBuilder::Constant(StringBuilder::new(), place.cluster_id.clone())
                }
                Column::Partition => ColumnBuilder::Partition(Int32Builder::new(), place.partition),
                Column::Offset => ColumnBuilder::Offset(Int64Builder::new()),
                Column::Timestamp => ColumnBuilder::Timestamp(TimestampMicrosecondBuilder::new()),
                Column::TimestampType => ColumnBuilder::TimestampType(Int32Builder::new()),
                Column::Headers => ColumnBuilder::Headers(Box::new(HeaderColumn {
                    offsets: vec![0],
                    keys: StringBuilder::new(),
                    values: BinaryBuilder::new(),
                    present: NullBufferBuilder::new(0),
                })),
            })
            .collect();
        let width = |builder: &ColumnBuilder| match builder {
            ColumnBuilder::Constant(_, text) => text.len() + 4,
            _ => 8,
        };
        self.row_bytes = self.builder.iter().map(width).sum();
        self.rows = 0;
        self.bytes = 0;
    }

    /// Add the records of one batch with offsets in `position..end`, until the Arrow batch is full. Return whether all
    /// were added. If not, call it again with the same batch to continue, or call [`Decoder::leave`] before passing
    /// another batch. Sets `position` to the offset after the decoded records, even after an error.
    pub(crate) fn push(
        &mut self,
        header: &BatchHeader,
        batch: &[u8],
        position: &mut i64,
        end: i64,
    ) -> Result<bool, BatchError> {
        let mut scratch = core::mem::take(&mut self.scratch);
        let all = self.push_records(header, batch, &mut scratch, position, end);
        self.scratch = scratch;
        if let Ok(true) = all {
            *position = header.next_offset().max(*position);
        }
        all
    }

    fn push_records(
        &mut self,
        header: &BatchHeader,
        batch: &[u8],
        scratch: &mut Vec<u8>,
        position: &mut i64,
        end: i64,
    ) -> Result<bool, BatchError> {
        let part = self.part.take();
        let bytes = match part {
            // Compaction removed all records and kept only the header.
            None if header.size_in_bytes() == HEADER_BYTES => &[][..],
            Some(_) if header.codec()? != Codec::None => scratch.as_slice(),
            _ => decompressed_records(header, batch, scratch)?,
        };
        let Part {
            mut at,
            mut left,
            mut next,
        } = part.unwrap_or(Part {
            at: 0,
            left: header.record_count,
            next: header.base_offset,
        });
        let start = *position;
        let rest = BatchHeader {
            record_count: left,
            ..*header
        };
        let records = Records::new(&rest, &bytes[at..]);
        let kind = i32::from(header.timestamp_type() == TimestampType::LogAppendTime);
        let places = records.clone();
        for record in records {
            let record = record?;
            let offset = places.offset(&record);
            if offset < next || offset > header.last_offset() {
                return Err(BatchError::invalid(
                    "its offset does not follow the one before",
                ));
            }
            at += record.raw.len();
            left -= 1;
            next = offset + 1;
            if offset < start || offset >= end {
                continue;
            }
            self.append(&record, offset, places.timestamp(&record), kind);
            *position = next;
            if self.is_full() && left > 0 {
                self.part = Some(Part { at, left, next });
                return Ok(false);
            }
        }
        if at < bytes.len() {
            return Err(BatchError::BadHeader(
                "there are more records than it counts",
            ));
        }
        Ok(true)
    }

    #[inline]
    fn append(&mut self, record: &RecordRef<'_>, offset: i64, timestamp: i64, kind: i32) {
        self.rows += 1;
        self.bytes += record.raw.len() + self.row_bytes;
        for builder in &mut self.builder {
            match builder {
                ColumnBuilder::Key(column) => column.append_option(record.key),
                ColumnBuilder::Value(column) => column.append_option(record.value),
                ColumnBuilder::Constant(column, text) => column.append_value(&*text),
                ColumnBuilder::Partition(column, partition) => column.append_value(*partition),
                ColumnBuilder::Offset(column) => column.append_value(offset),
                ColumnBuilder::Timestamp(column) => {
                    column.append_value(timestamp.saturating_mul(1000));
                }
                ColumnBuilder::TimestampType(column) => column.append_value(kind),
                ColumnBuilder::Headers(column) => column.push(record),
            }
        }
    }

    /// Return the columns so far, and start new, empty ones.
    pub(crate) fn take(&mut self) -> Result<RecordBatch, arrow_schema::ArrowError> {
        let filled = core::mem::take(&mut self.builder);
        self.start();
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(filled.len());
        for builder in filled {
            arrays.push(match builder {
                ColumnBuilder::Key(mut column) | ColumnBuilder::Value(mut column) => {
                    Arc::new(column.finish())
                }
                ColumnBuilder::Constant(mut column, _) => Arc::new(column.finish()),
                ColumnBuilder::Partition(mut column, _)
                | ColumnBuilder::TimestampType(mut column) => Arc::new(column.finish()),
                ColumnBuilder::Offset(mut column) => Arc::new(column.finish()),
                ColumnBuilder::Timestamp(mut column) => {
                    Arc::new(column.finish().with_timezone("UTC"))
                }
                ColumnBuilder::Headers(mut column) => {
                    let entries = StructArray::try_new(
                        header_fields(),
                        vec![
                            Arc::new(column.keys.finish()),
                            Arc::new(column.values.finish()),
                        ],
                        None,
                    )?;
                    Arc::new(ListArray::try_new(
                        Arc::new(header_element()),
                        OffsetBuffer::new(column.offsets.into()),
                        Arc::new(entries),
                        column.present.finish(),
                    )?)
                }
            });
        }
        RecordBatch::try_new(self.schema.clone(), arrays)
    }
}
