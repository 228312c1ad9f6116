//! Round trips: from Arrow to record batches, to the records that pybroker-model reads, and back to Arrow.

mod sink;
mod source;
mod transaction;

use std::sync::Arc;

use arrow_array::builder::{BinaryBuilder, ListBuilder, StringBuilder, StructBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampMicrosecondType};
use arrow_array::{
    Array, ArrayRef, Int32Array, Int64Array, LargeBinaryArray, StringArray, StructArray,
    TimestampMicrosecondArray,
};
use arrow_schema::{DataType, Field, Fields};
use proptest::prelude::*;
use pybroker_model::{Batches as WireBatches, Codec, Records, decompressed_records};

use pybroker_client::test_broker::{Broker, TOPIC};

use crate::decode::{Column, Decoder, Place, schema_of};
use crate::encode::{Batches, Rows, record_bytes};
use crate::settings::Settings;
use crate::sink::{SinkPlan, Target, Transaction};

/// Return the settings of a client of `broker`, with the settings in `more` added.
fn settings(broker: &Broker, more: &[(&str, &str)]) -> Settings {
    Settings::new(&broker.given(more)).expect("settings")
}

/// Return a plan for a sink that writes to a topic with two partitions, with or without a transaction.
fn plan(broker: &Broker, transaction: Option<Transaction>) -> SinkPlan {
    SinkPlan {
        targets: vec![Target {
            id: broker.topic_id(),
            name: TOPIC.into(),
            partitions: 2,
            batch_bytes_max: usize::MAX,
        }],
        topic_column: false,
        staging: None,
        transaction,
    }
}

/// Return rows of (partition, value), as Spark passes them.
fn rows_of(rows: &[(i32, &str)]) -> StructArray {
    let partitions: Int32Array = rows.iter().map(|(partition, _)| Some(*partition)).collect();
    let values: StringArray = rows.iter().map(|(_, value)| Some(*value)).collect();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("partition", Arc::new(partitions)),
        ("value", Arc::new(values)),
    ];
    StructArray::try_from(columns).expect("columns of one length")
}

type Row = (
    Option<Vec<u8>>,
    Option<Vec<u8>>,
    i64,
    Vec<(String, Option<Vec<u8>>)>,
);

fn header_column(rows: &[Row]) -> ArrayRef {
    let fields = Fields::from(vec![
        Field::new("key", DataType::Utf8, true),
        Field::new("value", DataType::Binary, true),
    ]);
    let entries = StructBuilder::new(
        fields,
        vec![
            Box::new(StringBuilder::new()),
            Box::new(BinaryBuilder::new()),
        ],
    );
    let mut lists = ListBuilder::new(entries);
    for (.., headers) in rows {
        for (key, value) in headers {
            let entry = lists.values();
            let keys: &mut StringBuilder = entry.field_builder(0).expect("the key");
            keys.append_value(key);
            let values: &mut BinaryBuilder = entry.field_builder(1).expect("the value");
            values.append_option(value.as_deref());
            entry.append(true);
        }
        lists.append(!headers.is_empty());
    }
    Arc::new(lists.finish())
}

fn arrow_of(rows: &[Row]) -> StructArray {
    let keys: LargeBinaryArray = rows.iter().map(|(key, ..)| key.as_deref()).collect();
    let values: arrow_array::BinaryArray =
        rows.iter().map(|(_, value, ..)| value.as_deref()).collect();
    let times: Int64Array = rows.iter().map(|(.., at, _)| Some(*at)).collect();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("key", Arc::new(keys)),
        ("value", Arc::new(values)),
        ("timestamp", Arc::new(times)),
        ("headers", header_column(rows)),
    ];
    StructArray::try_from(columns).expect("columns of one length")
}

/// Return the batches that the sink makes of the rows, for one partition.
fn encoded(rows: &StructArray, codec: Codec, limit: usize) -> Vec<u8> {
    let rows = Rows::of(rows).expect("columns of a writer");
    let mut batches = Batches::new(1, codec, None, limit);
    let mut out = Vec::new();
    let mut headers = Vec::new();
    for row in 0..rows.count {
        rows.headers(row, &mut headers).expect("headers");
        let (key, value) = (rows.key(row), rows.value(row));
        if batches.is_full_for(0, record_bytes(key, value, &headers)) {
            let batch = batches
                .seal(0, None, false)
                .expect("builds")
                .expect("is there");
            assert!(codec != Codec::None || batch.bytes.len() <= limit || batch.records == 1);
            out.extend(batch.bytes);
        }
        let at = rows.timestamp(row).expect("a time that records can have");
        let at = at.expect("all rows have a time");
        batches.push(0, at, key, value, &headers);
    }
    if let Some(batch) = batches.seal(0, None, false).expect("builds") {
        out.extend(batch.bytes);
    }
    assert_eq!(batches.buffered, 0);
    out
}

/// Return the rows that pybroker-model reads from the batches.
fn read(wire: &[u8]) -> Vec<Row> {
    let mut rows = Vec::new();
    for batch in WireBatches::new(wire) {
        let (header, bytes) = batch.expect("whole batches");
        header.check_crc(bytes).expect("checksum");
        let mut scratch = Vec::new();
        let records = decompressed_records(&header, bytes, &mut scratch).expect("decompresses");
        let records = Records::new(&header, records);
        let places = records.clone();
        for record in records {
            let record = record.expect("a record");
            let headers = record
                .headers
                .map(|each| {
                    let key = String::from_utf8(each.key.to_vec()).expect("text");
                    (key, each.value.map(<[u8]>::to_vec))
                })
                .collect();
            rows.push((
                record.key.map(<[u8]>::to_vec),
                record.value.map(<[u8]>::to_vec),
                places.timestamp(&record),
                headers,
            ));
        }
    }
    rows
}

fn row() -> impl Strategy<Value = Row> {
    let bytes = || proptest::option::of(proptest::collection::vec(any::<u8>(), 0..60));
    let header = ("[a-z]{0,5}", bytes());
    (
        bytes(),
        bytes(),
        0i64..1_800_000_000_000,
        proptest::collection::vec(header, 0..3),
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn rows_survive_both_ways(
        rows in proptest::collection::vec(row(), 0..80),
        codec in 0u8..5,
        limit in 100usize..4000,
    ) {
        let codec = Codec::from_code(codec).expect("a codec");
        let wire = encoded(&arrow_of(&rows), codec, limit);
        prop_assert_eq!(&read(&wire), &rows);

        let columns: Vec<Column> = Column::ALL.iter().map(|(column, _)| *column).collect();
        let place = Place {
            topic: "t".into(), topic_id: "id".into(), cluster_id: "c".into(), partition: 4,
        };
        let mut decoder = Decoder::new(&columns, place);
        for batch in WireBatches::new(&wire) {
            let (header, bytes) = batch.expect("whole batches");
            decoder.push(&header, bytes, &mut 0, i64::MAX).expect("decodes");
        }
        let found = decoder.take().expect("columns of one length");
        prop_assert_eq!(found.num_rows(), rows.len());
        prop_assert_eq!(found.schema(), schema_of(&columns));
        for (index, (key, value, at, headers)) in rows.iter().enumerate() {
            let bytes = |column: usize| {
                let array = found.column(column).as_binary::<i32>();
                array.is_valid(index).then(|| array.value(index).to_vec())
            };
            prop_assert_eq!(&bytes(0), key);
            prop_assert_eq!(&bytes(1), value);
            let times = found.column(6).as_primitive::<TimestampMicrosecondType>();
            prop_assert_eq!(times.value(index), at * 1000);
            let lists = found.column(8).as_list::<i32>();
            prop_assert_eq!(lists.is_null(index), headers.is_empty());
            prop_assert_eq!(lists.value(index).len(), headers.len());
        }
        prop_assert_eq!(decoder.rows(), 0);
    }
}

#[test]
fn only_offsets_of_the_range_are_decoded() {
    let rows: Vec<Row> = (0..10)
        .map(|number| (None, Some(vec![number]), 0, Vec::new()))
        .collect();
    let wire = encoded(&arrow_of(&rows), Codec::None, 10_000);
    let place = Place {
        topic: "t".into(),
        topic_id: String::new(),
        cluster_id: String::new(),
        partition: 0,
    };
    let mut decoder = Decoder::new(&[Column::Offset], place);
    for batch in WireBatches::new(&wire) {
        let (header, bytes) = batch.expect("whole batches");
        decoder.push(&header, bytes, &mut 3, 7).expect("decodes");
    }
    let found = decoder.take().expect("columns");
    let offsets = found.column(0).as_primitive::<Int64Type>();
    assert_eq!(offsets.values().to_vec(), [3, 4, 5, 6]);
}

#[test]
fn times_before_1970_are_refused() {
    let value: ArrayRef = Arc::new(StringArray::from(vec!["a", "b", "c"]));
    // The last microsecond before 1970 is in millisecond −1, which in records means "no timestamp".
    let at: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![
        Some(-1),
        None,
        Some(999),
    ]));
    let partition: ArrayRef = Arc::new(Int32Array::from(vec![Some(3), None, None]));
    let columns = vec![
        ("value", value),
        ("timestamp", at),
        ("partition", partition),
    ];
    let array = StructArray::try_from(columns).expect("columns of one length");
    let rows = Rows::of(&array).expect("columns of a writer");
    let told = rows.timestamp(0).expect_err("refused").to_string();
    assert!(told.contains("-1 ms is before 1970"), "{told}");
    assert_eq!(rows.timestamp(1).expect("none"), None);
    assert_eq!(rows.timestamp(2).expect("in 1970"), Some(0));
    assert_eq!((rows.partition(0), rows.partition(1)), (Some(3), None));
}
