//! Result of compaction: the newest record of each key, tombstones for a while, everything else unchanged.

use crate::testing::*;
use crate::{AppendOrigin, CleanupPolicy, LogConfig};
use proptest::prelude::*;
use pybroker_model::{
    BatchBuilder, Batches, Codec, ControlType, ValidBatches, end_transaction_marker,
};
use std::collections::BTreeMap;

mod producers;

const KEYS_MAX: usize = 1_000_000;

fn config() -> LogConfig {
    LogConfig {
        segment_bytes: 2000,
        index_interval_bytes: 200,
        delete_retention_ms: 1000,
        min_cleanable_dirty_ratio: 0.5,
        cleanup_policy: CleanupPolicy {
            delete: false,
            compact: true,
        },
        ..LogConfig::default()
    }
}

/// Return the final state that a reader of the whole log sees.
fn table(f: &Fixture) -> BTreeMap<String, String> {
    let mut table = BTreeMap::new();
    for (_, key, value) in read_from(f.log(), f.log().log_start_offset(), 1 << 20) {
        let key = key.expect("keyed");
        match value {
            Some(value) => table.insert(key, value),
            None => table.remove(&key),
        };
    }
    table
}

fn compact(f: &Fixture, now: i64) -> crate::CompactionResult {
    f.log()
        .compact(f.log().log_end_offset(), now, KEYS_MAX)
        .expect("compacts")
}

/// Roll the segment, so that the records so far can be compacted.
fn seal(f: &Fixture) {
    f.log().roll(NOW).expect("rolls");
}

/// Let a pass merge segments, which is only possible if they are not full.
fn merge(f: &Fixture) {
    f.log().set_config(std::sync::Arc::new(LogConfig {
        segment_bytes: 1 << 20,
        ..config()
    }));
}

#[test]
fn only_the_newest_of_a_key_stays() {
    let mut f = Fixture::new(config());
    for n in 0..300 {
        let (key, value) = (format!("k{}", n % 7), format!("v{n}"));
        f.append(keyed(
            Codec::None,
            NOW,
            &[(&key, Some(&value)), ("all", Some(&value))],
        ))
        .expect("appends");
    }
    seal(&f);
    let before = table(&f);
    let end = f.log().log_end_offset();
    let cleanable = f.log().cleanable(end, NOW).expect("looks").expect("dirty");
    assert!(cleanable.due && cleanable.dirty_ratio > 0.99);
    assert_eq!(
        f.log().cleanable(3, NOW).expect("looks"),
        None,
        "nothing above the high watermark"
    );
    let segments = f.log().segment_count();
    merge(&f);
    let done = compact(&f, NOW);
    assert!(done.bytes_after * 10 < done.bytes_before);
    assert!(f.log().segment_count() < segments);
    for round in 0..3 {
        assert_eq!(table(&f), before, "round {round}");
        assert_eq!(read_from(f.log(), 0, 100).len(), 8);
        assert_eq!(f.log().log_end_offset(), end);
        assert_eq!(
            read_from(f.log(), 100, 100),
            read_from(f.log(), 0, 100),
            "gaps are skipped"
        );
        if round == 0 {
            f.stop()
        } else {
            f.crash()
        }
        f.open();
    }
    assert_eq!(
        compact(&f, NOW).bytes_after,
        compact(&f, NOW).bytes_before,
        "nothing left to do"
    );
}

#[test]
fn tombstones_stay_until_their_horizon() {
    for codec in [Codec::None, Codec::Zstd] {
        let f = Fixture::new(config());
        f.append(keyed(codec, NOW, &[("a", Some("1")), ("b", Some("1"))]))
            .expect("appends");
        f.append(keyed(codec, NOW + 5, &[("a", None), ("c", Some("1"))]))
            .expect("appends");
        seal(&f);
        compact(&f, NOW);
        let expected = [(1, "b", Some("1")), (2, "a", None), (3, "c", Some("1"))];
        let read = || {
            let owned = |(offset, key, value): &RecordTuple| {
                (*offset, key.clone().unwrap_or_default(), value.clone())
            };
            read_from(f.log(), 0, 1 << 20)
                .iter()
                .map(owned)
                .collect::<Vec<_>>()
        };
        let text = |list: &[(i64, &str, Option<&str>)]| {
            list.iter()
                .map(|(o, k, v)| (*o, (*k).to_owned(), v.map(str::to_owned)))
                .collect::<Vec<_>>()
        };
        assert_eq!(read(), text(&expected));
        let found = f
            .log()
            .offset_for_timestamp(NOW + 1, 4)
            .expect("searches")
            .expect("some");
        assert_eq!(
            (found.timestamp, found.offset),
            (NOW + 5, 2),
            "timestamps survive the horizon"
        );
        f.append(keyed(codec, NOW, &[("d", Some("1"))]))
            .expect("appends");
        seal(&f);
        compact(&f, NOW + 999);
        assert_eq!(read().len(), 4, "one millisecond early");
        f.append(keyed(codec, NOW, &[("e", Some("1"))]))
            .expect("appends");
        seal(&f);
        compact(&f, NOW + 1000);
        assert_eq!(read().iter().map(|r| r.0).collect::<Vec<_>>(), [1, 3, 4, 5]);
    }
}

#[test]
fn lags_and_the_ratio() {
    let f = Fixture::new(LogConfig {
        min_compaction_lag_ms: 1000,
        max_compaction_lag_ms: 5000,
        ..config()
    });
    f.append(keyed(Codec::None, NOW, &[("a", Some("1"))]))
        .expect("appends");
    f.append(keyed(Codec::None, NOW, &[("a", Some("2"))]))
        .expect("appends");
    seal(&f);
    assert_eq!(
        f.log().cleanable(2, NOW + 500).expect("looks"),
        None,
        "too young"
    );
    compact(&f, NOW + 2000);
    for n in 0..20 {
        f.append(keyed(
            Codec::None,
            NOW + 3000,
            &[(&format!("k{n}"), Some(&"x".repeat(50)))],
        ))
        .expect("appends");
    }
    seal(&f);
    compact(&f, NOW + 5000);
    f.append(keyed(Codec::None, NOW + 6000, &[("a", Some("3"))]))
        .expect("appends");
    seal(&f);
    let at = |now| f.log().cleanable(23, now).expect("looks").expect("dirty");
    assert!(!at(NOW + 8000).due, "{:?}", at(NOW + 8000));
    assert!(at(NOW + 11_001).due, "max.compaction.lag.ms");
}

#[test]
fn a_small_map_makes_several_passes() {
    let f = Fixture::new(config());
    for n in 0..200 {
        f.append(keyed(
            Codec::None,
            NOW,
            &[(&format!("k{}", n % 50), Some(&n.to_string()))],
        ))
        .expect("appends");
    }
    seal(&f);
    let before = table(&f);
    let mut passes = 0;
    while f.log().cleanable(200, NOW).expect("looks").is_some() {
        f.log().compact(200, NOW, 10).expect("compacts");
        assert_eq!(table(&f), before);
        passes += 1;
        assert!(passes < 100, "each pass gets on");
    }
    assert!(passes > 3);
    assert_eq!(read_from(f.log(), 0, 1 << 20).len(), 50);
}

#[test]
fn a_tombstone_that_no_pass_has_covered_stays() {
    // `the_table_never_changes` found this fault: the pass's key map was full before the tombstone, but the pass
    // rewrote the tombstone's segment.
    let f = Fixture::new(LogConfig {
        segment_bytes: 1 << 20,
        delete_retention_ms: 0,
        ..config()
    });
    for (key, value) in [
        ("a", Some("1")),
        ("k", Some("old")),
        ("b", Some("1")),
        ("c", Some("1")),
        ("k", None),
    ] {
        f.append(keyed(Codec::None, NOW, &[(key, value)]))
            .expect("appends");
    }
    seal(&f);
    let expected = table(&f);
    for now in NOW..NOW + 10 {
        f.log().compact(5, now, 1).expect("compacts");
        assert_eq!(table(&f), expected);
        f.log()
            .cleaned_to
            .store(0, std::sync::atomic::Ordering::Release);
    }
}

#[test]
fn a_crash_at_any_step_of_the_swap_is_finished_or_forgotten() {
    // The swap is a sequence of file operations. A crash leaves a prefix of it.
    let prepare = || {
        let f = Fixture::new(config());
        for n in 0..100 {
            f.append(keyed(
                Codec::None,
                NOW,
                &[(&format!("k{}", n % 5), Some(&format!("v{n}")))],
            ))
            .expect("appends");
        }
        seal(&f);
        f.log().flush().expect("flushes");
        f
    };
    let done = prepare();
    merge(&done);
    compact(&done, NOW);
    let cleaned: Vec<(String, Vec<u8>)> = done
        .files()
        .into_iter()
        .filter(|name| !name.ends_with(".deleted") && name.starts_with("00000000000000000000."))
        .filter(|name| !name.ends_with(".snapshot"))
        .map(|name| {
            (
                name.clone(),
                std::fs::read(done.partition().join(&name)).expect("reads"),
            )
        })
        .collect();
    let expected = table(&done);
    let merged: Vec<String> = done
        .files()
        .iter()
        .filter_map(|name| name.strip_suffix(".log.deleted").map(str::to_owned))
        .collect();
    assert!(!merged.is_empty());
    for step in 0..15 {
        let mut f = prepare();
        f.crash();
        let path = |name: &str| f.partition().join(name);
        let mut left = step;
        let mut next = || {
            left -= 1;
            left >= 0
        };
        'crash: {
            for (name, bytes) in &cleaned {
                if !next() {
                    break 'crash;
                }
                std::fs::write(path(&format!("{name}.cleaned")), bytes).expect("writes");
            }
            for from_log in [false, true] {
                for (name, _) in cleaned
                    .iter()
                    .filter(|(name, _)| name.ends_with(".log") == from_log)
                {
                    if !next() {
                        break 'crash;
                    }
                    std::fs::rename(
                        path(&format!("{name}.cleaned")),
                        path(&format!("{name}.swap")),
                    )
                    .expect("renames");
                }
            }
            for base in &merged {
                if !next() {
                    break 'crash;
                }
                std::fs::rename(
                    path(&format!("{base}.log")),
                    path(&format!("{base}.log.deleted")),
                )
                .expect("renames");
            }
            for from_log in [false, true] {
                for (name, _) in cleaned
                    .iter()
                    .filter(|(name, _)| name.ends_with(".log") == from_log)
                {
                    if !next() {
                        break 'crash;
                    }
                    std::fs::rename(path(&format!("{name}.swap")), path(name)).expect("renames");
                }
            }
        }
        f.open();
        assert_eq!(table(&f), expected, "step {step}");
        assert_eq!(f.log().log_end_offset(), 100, "step {step}");
        compact(&f, NOW);
        assert_eq!(table(&f), expected, "step {step}, compacted again");
        assert!(
            !f.files()
                .iter()
                .any(|n| n.ends_with(".swap") || n.ends_with(".cleaned"))
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn the_table_never_changes(ops in proptest::collection::vec((0u8..12, 0u8..8, any::<u16>(), 0usize..5), 1..120)) {
        let mut f = Fixture::new(config());
        let mut expected = BTreeMap::new();
        let mut now = NOW;
        const CODECS: [Codec; 5] = [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];
        for (op, key, value, codec) in ops {
            now += 100;
            let (key, value) = (format!("k{key}"), value.to_string());
            match op {
                0..=6 => {
                    f.append(keyed(CODECS[codec], now, &[(&key, Some(&value)), ("other", Some(&value))])).expect("appends");
                    expected.insert(key, value.clone());
                    expected.insert("other".into(), value);
                }
                7 => {
                    f.append(keyed(CODECS[codec], now, &[(&key, None)])).expect("appends");
                    expected.remove(&key);
                }
                8 => seal(&f),
                9 | 10 => {
                    f.log().compact(f.log().log_end_offset(), now, 1 + codec * 3).expect("compacts");
                }
                _ => {
                    if codec % 2 == 0 { f.stop() } else { f.crash() }
                    f.open();
                }
            }
            prop_assert_eq!(&table(&f), &expected);
        }
    }
}
