//! Reads of offset ranges from damaged, truncated or large responses: a read returns the whole range, or an error.

use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use pybroker_model::{BatchBuilder, Codec};
use pybroker_protocol::ErrorCode;

use crate::decode::{Column, ROWS_BYTES};
use crate::error::{Error, Result};
use crate::source::{Source, SourcePlan};
use pybroker_client::test_broker::{Broker, NO_LEADER, NODES, TOPIC, fetched, fetched_committed};

const BATCHES: i64 = 5;
const ROWS: i64 = 10;
const END: i64 = BATCHES * ROWS;

fn batch(number: i64, codec: Codec) -> Vec<u8> {
    let mut builder = BatchBuilder::new(codec).base_offset(number * ROWS);
    for row in 0..ROWS {
        builder.push(0, None, Some(format!("batch{number}-row{row}").as_bytes()));
    }
    builder.build().expect("builds")
}

/// Return five batches of ten rows, starting with the batch that contains `offset`. `change` modifies batch number 2.
fn log(offset: i64, codec: Codec, change: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
    let mut records = Vec::new();
    for number in offset / ROWS..BATCHES {
        let mut bytes = batch(number, codec);
        if number == 2 {
            change(&mut bytes);
        }
        records.extend(bytes);
    }
    records
}

fn plan(broker: &Broker, columns: &[Column]) -> SourcePlan {
    SourcePlan {
        topic_id: broker.topic_id(),
        topic: TOPIC.into(),
        cluster_id: "c".into(),
        partition: 0,
        start: 0,
        end: END,
        columns: columns.to_vec(),
    }
}

/// Return the offsets that the source returns, and whether it ends with the range or with an error.
fn read(broker: &Broker, settings: &[(&str, &str)]) -> (Vec<i64>, Result<()>) {
    let plan = plan(broker, &[Column::Offset, Column::Value]);
    read_plan(broker, plan, settings)
}

fn read_plan(
    broker: &Broker,
    plan: SourcePlan,
    settings: &[(&str, &str)],
) -> (Vec<i64>, Result<()>) {
    let mut source = Source::new(&super::settings(broker, settings), plan);
    let mut offsets = Vec::new();
    loop {
        match source.next_rows() {
            Ok(None) => return (offsets, Ok(())),
            Ok(Some(rows)) => {
                offsets.extend(rows.column(0).as_primitive::<Int64Type>().values());
            }
            Err(problem) => return (offsets, Err(problem)),
        }
    }
}

fn all() -> Vec<i64> {
    (0..END).collect()
}

/// Check that the range ends before the damage, with an error that names the position.
fn assert_told((offsets, end): (Vec<i64>, Result<()>), at: i64) {
    assert_eq!(offsets, all()[..at as usize]);
    let problem = end.expect_err("damage is told");
    assert!(matches!(problem, Error::Damaged { .. }), "{problem}");
    let text = problem.to_string();
    assert!(
        text.contains(&format!("partition 0 at offset {at}:")) && text.contains("Fetch t ("),
        "{text}"
    );
}

#[test]
fn a_damaged_batch_ends_the_range_with_an_error() {
    let last = |bytes: &mut Vec<u8>| *bytes.last_mut().expect("bytes") ^= 1;
    for codec in [Codec::None, Codec::Zstd] {
        let broker =
            Broker::start(move |request| fetched(&log(request.fetch_offset(), codec, last), END));
        assert_told(read(&broker, &[]), 20);
    }
    // Without a checksum check, the decompression fails.
    let broker = Broker::start(move |request| {
        let cut = |bytes: &mut Vec<u8>| bytes[70..].fill(0xff);
        fetched(&log(request.fetch_offset(), Codec::Zstd, cut), END)
    });
    assert_told(read(&broker, &[("check.crcs", "false")]), 20);
}

#[test]
fn a_record_that_cannot_be_read_ends_the_range_behind_the_one_before() {
    // Three records are intact, and the fourth has a wrong length.
    let broker = Broker::start(move |request| {
        let broken = |bytes: &mut Vec<u8>| bytes[61 + 3 * 19] ^= 2;
        fetched(&log(request.fetch_offset(), Codec::None, broken), END)
    });
    assert_told(read(&broker, &[("check.crcs", "false")]), 23);
    // The header counts fewer records than the batch has.
    let broker = Broker::start(move |request| {
        let fewer = |bytes: &mut Vec<u8>| bytes[60] = 9;
        fetched(&log(request.fetch_offset(), Codec::None, fewer), END)
    });
    assert_told(read(&broker, &[("check.crcs", "false")]), 29);
}

#[test]
fn what_the_checksum_does_not_cover_is_compared_with_its_surroundings() {
    type Change = fn(&mut Vec<u8>);
    let changes: [Change; 5] = [
        // Damage the base offset: far ahead, into the next batch, into the previous one.
        |bytes| bytes[1] = 1,
        |bytes| bytes[7] += 3,
        |bytes| bytes[7] -= 3,
        // Damage the length: beyond the response, and less than the real length.
        |bytes| bytes[8] = 1,
        |bytes| bytes[11] -= 1,
    ];
    for change in changes {
        let broker = Broker::start(move |request| {
            fetched(&log(request.fetch_offset(), Codec::None, change), END)
        });
        let (offsets, end) = read(&broker, &[]);
        assert!(matches!(end, Err(Error::Damaged { .. })), "{end:?}");
        assert_eq!(offsets[..20], all()[..20]);
        assert!(offsets.len() <= 30, "{offsets:?}");
    }
}

#[test]
fn bytes_that_changed_on_the_way_are_asked_for_again() {
    let answers = AtomicUsize::new(0);
    let broker = Broker::start(move |request| {
        let bad = answers.fetch_add(1, Ordering::Relaxed) < 2;
        let change = |bytes: &mut Vec<u8>| bytes[80] ^= u8::from(bad);
        fetched(&log(request.fetch_offset(), Codec::None, change), END)
    });
    let (offsets, end) = read(&broker, &[]);
    end.expect("the third answer is right");
    assert_eq!(offsets, all());
}

#[test]
fn batches_that_do_not_fit_into_an_answer_are_fetched_next() {
    // Each response has two and a half batches.
    let broker = Broker::start(move |request| {
        let records = log(request.fetch_offset(), Codec::None, |_| ());
        let cut = records.len().min(batch(0, Codec::None).len() * 5 / 2);
        fetched(&records[..cut], END)
    });
    let (offsets, end) = read(&broker, &[]);
    end.expect("whole");
    assert_eq!(offsets, all());
}

#[test]
fn compacted_gaps_and_empty_batches_are_no_loss() {
    let broker = Broker::start(move |request| {
        let from = request.fetch_offset();
        let mut records = Vec::new();
        // Compaction has removed batch 1, left only the header of batch 2, and left two records of batch 3.
        for number in [0, 4] {
            if number == 4 {
                let original = batch(2, Codec::Gzip);
                let header = pybroker_model::BatchHeader::parse(&original).expect("a header");
                let empty = BatchBuilder::rewriting(&header, None).expect("a codec");
                records.extend(empty.build().expect("builds"));
            }
            if number * ROWS + ROWS > from {
                records.extend(batch(number, Codec::None));
            }
        }
        fetched(&records, END)
    });
    let (offsets, end) = read(&broker, &[]);
    end.expect("whole");
    let kept: Vec<i64> = (0..10).chain(40..50).collect();
    assert_eq!(offsets, kept);
}

#[test]
fn an_answer_that_decompresses_to_much_becomes_several_arrow_batches() {
    const BIG: usize = 1 << 20;
    // 50 batches with one record of 1 MiB each, which compress to a few KiB in total, then one batch with 50 such
    // records.
    let one = |offset: i64, records: i64| {
        let mut builder = BatchBuilder::new(Codec::Zstd).base_offset(offset);
        for _ in 0..records {
            builder.push(0, None, Some(&vec![b'x'; BIG]));
        }
        builder.build().expect("builds")
    };
    for per_batch in [1, END] {
        let log: Vec<u8> = (0..END / per_batch)
            .flat_map(|number| one(number * per_batch, per_batch))
            .collect();
        let broker = Broker::start(move |request| {
            assert_eq!(request.fetch_offset(), 0);
            fetched(&log, END)
        });
        let columns = [Column::Offset, Column::Value, Column::Topic];
        let mut source = Source::new(&super::settings(&broker, &[]), plan(&broker, &columns));
        let mut offsets = Vec::new();
        while let Some(rows) = source.next_rows().expect("rows") {
            let values = rows.column(1).as_binary::<i32>().values().len();
            assert!(values <= ROWS_BYTES + BIG, "{values} bytes at once");
            offsets.extend(
                rows.column(0)
                    .as_primitive::<Int64Type>()
                    .values()
                    .iter()
                    .copied(),
            );
        }
        assert_eq!(offsets, all());
    }
}

#[test]
fn a_transaction_without_its_marker_hides_no_later_one() {
    const PRODUCER: i64 = 9;
    let broker = Broker::start(|request| {
        let from = request.fetch_offset();
        let number = from / ROWS;
        let mut builder = BatchBuilder::new(Codec::None)
            .base_offset(number * ROWS)
            .producer(PRODUCER, 0, 0)
            .transactional();
        for _ in 0..ROWS {
            builder.push(0, None, None);
        }
        let records = builder.build().expect("builds");
        // Transaction 1 was aborted, but the log no longer has its marker.
        let aborted: &[(i64, i64)] = if number == 1 { &[(PRODUCER, 10)] } else { &[] };
        fetched_committed(&records, END, aborted)
    });
    let (offsets, end) = read(&broker, &[("isolation.level", "read_committed")]);
    end.expect("whole");
    let committed: Vec<i64> = (0..10).chain(20..50).collect();
    assert_eq!(offsets, committed);
}

#[test]
fn a_leader_that_is_not_among_the_brokers_is_waited_for() {
    const UNNAMED: i32 = 7;
    let leaders = |before| vec![if before < 4 { UNNAMED } else { NODES[0] }];
    let broker = Broker::start_led(leaders, |request| {
        fetched(&log(request.fetch_offset(), Codec::None, |_| ()), END)
    });
    let (offsets, end) = read(&broker, &[]);
    end.expect("whole");
    assert_eq!(offsets, all());
}

#[test]
fn only_the_leader_of_the_range_is_waited_for() {
    // Partition 0 has no leader for a while, and partition 1 never has one.
    let leaders = |before| vec![if before < 4 { NO_LEADER } else { NODES[0] }, NO_LEADER];
    let broker = Broker::start_led(leaders, |request| {
        fetched(&log(request.fetch_offset(), Codec::None, |_| ()), END)
    });
    let settings = [("delivery.timeout.ms", "300")];
    let (offsets, end) = read(&broker, &settings);
    end.expect("whole");
    assert_eq!(offsets, all());

    let other = SourcePlan {
        partition: 1,
        ..plan(&broker, &[Column::Offset])
    };
    let (_, end) = read_plan(&broker, other, &settings);
    let expected = format!(
        "Fetch t ({}) partition 1 at offset 0: {}",
        broker.topic_id(),
        ErrorCode::LEADER_NOT_AVAILABLE
    );
    assert_eq!(end.expect_err("nobody leads it").to_string(), expected);
}
