//! A test for each row of the decision table in `recovery.rs`.

use crate::testing::*;
use crate::{LogConfig, StorageError};
use pybroker_model::{BatchHeader, Batches};
use std::path::PathBuf;
use std::sync::Arc;

mod since_stop;

fn config() -> LogConfig {
    LogConfig {
        segment_bytes: 1000,
        index_interval_bytes: 150,
        ..LogConfig::default()
    }
}

/// Return a crashed log of `count` one-record batches, flushed.
fn crashed(count: usize) -> (Fixture, Vec<String>) {
    let mut f = Fixture::new(config());
    let expected: Vec<String> = (0..count).map(|n| format!("v{n}")).collect();
    for (n, value) in expected.iter().enumerate() {
        f.append(if n % 3 == 0 {
            sequenced_value(n / 3, value)
        } else {
            batch(&[value])
        })
        .expect("appends");
    }
    f.log().flush().expect("flushes");
    f.crash();
    (f, expected)
}

fn sequenced_value(sequence: usize, value: &str) -> Vec<u8> {
    let mut builder = pybroker_model::BatchBuilder::new(pybroker_model::Codec::None).producer(
        9,
        0,
        sequence as i32,
    );
    builder.push(NOW, None, Some(value.as_bytes()));
    builder.build().expect("builds")
}

fn logs(f: &Fixture) -> Vec<PathBuf> {
    let names = f.files().into_iter().filter(|name| name.ends_with(".log"));
    names.map(|name| f.partition().join(name)).collect()
}

fn boundaries(bytes: &[u8]) -> Vec<usize> {
    let mut walk = Batches::new(bytes);
    let mut ends = vec![0];
    while let Some(batch) = walk.next() {
        batch.expect("a batch");
        ends.push(walk.position());
    }
    ends
}

/// Check that the log has the expected records, accepts appends, and has all its parts in order.
fn check_whole(f: &Fixture, expected: &[String]) {
    assert_eq!(values(f.log()), expected);
    let end = f.log().log_end_offset();
    for offset in f.log().log_start_offset()..end {
        let read = read_from(f.log(), offset, 1);
        assert!(read.first().is_none_or(|first| first.0 >= offset));
    }
    let newest = f.log().offset_for_timestamp(NOW, end).expect("searches");
    assert_eq!(newest.is_some(), !expected.is_empty());
    assert_eq!(
        f.append(batch(&["more"])).expect("appends").base_offset,
        end
    );
}

#[test]
fn the_active_segment_cut_at_every_byte() {
    let mut f = Fixture::new(LogConfig {
        index_interval_bytes: 100,
        ..LogConfig::default()
    });
    let expected: Vec<String> = (0..12).map(|n| format!("v{n}")).collect();
    for value in &expected {
        f.append(batch(&[value])).expect("appends");
    }
    f.log().flush().expect("flushes");
    f.dir()
        .checkpoint(&[Arc::clone(f.log())])
        .expect("checkpoints");
    f.crash();
    let path = logs(&f).remove(0);
    let whole = std::fs::read(&path).expect("reads");
    let ends = boundaries(&whole);
    let index = f.partition().join("00000000000000000000.index");
    let index_bytes = std::fs::read(&index).expect("reads");
    let log_dir = f.open_dir();
    for length in 0..=whole.len() {
        std::fs::write(&path, &whole[..length]).expect("writes");
        // The checkpoint and the index may reach further than the file.
        std::fs::write(&index, &index_bytes).expect("writes");
        f.log_dir = Some(Arc::clone(&log_dir));
        let report = f.open();
        let kept = ends.iter().filter(|&&end| end > 0 && end <= length).count();
        assert_eq!(values(f.log()), expected[..kept], "cut at {length}");
        assert_eq!(f.log().log_end_offset(), kept as i64, "cut at {length}");
        assert_eq!(
            report.truncated_bytes as usize,
            length - ends[kept],
            "cut at {length}"
        );
        assert!(report.lost.is_empty());
        if length % 37 == 0 {
            check_whole(&f, &expected[..kept]);
        }
    }
}

#[test]
fn garbage_after_the_last_batch() {
    for garbage in [
        vec![0u8; 100],
        vec![0xff; 500],
        b"short".to_vec(),
        [0u8; 16].into_iter().chain([2]).chain([7; 200]).collect(),
    ] {
        let (mut f, expected) = crashed(5);
        let path = logs(&f).pop().expect("a segment");
        let mut bytes = std::fs::read(&path).expect("reads");
        bytes.extend_from_slice(&garbage);
        std::fs::write(&path, bytes).expect("writes");
        let report = f.open();
        assert_eq!(report.truncated_bytes, garbage.len() as u64);
        check_whole(&f, &expected);
    }
}

#[test]
fn a_flipped_bit_with_whole_batches_after_it_costs_one_batch() {
    let (mut f, mut expected) = crashed(6);
    let path = logs(&f).remove(0);
    let mut bytes = std::fs::read(&path).expect("reads");
    let third = boundaries(&bytes)[2];
    bytes[third + 65] ^= 0x10;
    std::fs::write(&path, &bytes).expect("writes");
    let report = f.open();
    assert_eq!(report.lost, [(2, 2)]);
    assert_eq!(report.truncated_bytes, 0);
    assert!(
        f.files().iter().any(|name| name.ends_with(".log.corrupt")),
        "the original is kept"
    );
    expected.remove(2);
    check_whole(&f, &expected);
    f.crash();
    assert!(f.open().lost.is_empty(), "mended for good");
}

#[test]
fn a_flipped_offset_costs_one_batch_at_most() {
    for bit in 0..48 {
        let (mut f, mut expected) = crashed(6);
        let path = logs(&f).remove(0);
        let mut bytes = std::fs::read(&path).expect("reads");
        let third = boundaries(&bytes)[2];
        bytes[third + 7 - bit / 8] ^= 1 << (bit % 8);
        std::fs::write(&path, &bytes).expect("writes");
        let report = f.open();
        assert_eq!(report.lost, [(2, 2)], "bit {bit}");
        expected.remove(2);
        check_whole(&f, &expected);
    }
}

#[test]
fn a_damaged_length_in_a_closed_segment_costs_one_batch() {
    let (mut f, expected) = crashed(60);
    let paths = logs(&f);
    assert!(paths.len() > 3);
    let mut bytes = std::fs::read(&paths[1]).expect("reads");
    let ends = boundaries(&bytes);
    bytes[ends[2] + 8] = 0x7f;
    std::fs::write(&paths[1], &bytes).expect("writes");
    let stem = paths[1].file_stem().and_then(|stem| stem.to_str());
    let base: usize = stem.and_then(|stem| stem.parse().ok()).expect("base");
    let report = f.open();
    let lost = base as i64 + 2;
    assert_eq!(report.lost, [(lost, lost)]);
    let mut kept = expected;
    kept.remove(base + 2);
    check_whole(&f, &kept);
}

#[test]
fn indexes_missing_short_or_wrong() {
    type Damage = fn(&PathBuf);
    let damages: [Damage; 5] = [
        |path| std::fs::remove_file(path).expect("removes"),
        |path| std::fs::write(path, b"odd").expect("writes"),
        |path| std::fs::write(path, [0xff; 24]).expect("writes"),
        |path| std::fs::write(path, []).expect("writes"),
        |path| {
            let mut bytes = std::fs::read(path).expect("reads");
            for byte in bytes.iter_mut().skip(4) {
                *byte = byte.wrapping_add(1);
            }
            std::fs::write(path, bytes).expect("writes");
        },
    ];
    for clean in [true, false] {
        for (number, damage) in damages.iter().enumerate() {
            let (mut f, expected) = crashed(60);
            if clean {
                f.open();
                f.stop();
            }
            for name in f.files().iter().filter(|name| name.ends_with("index")) {
                damage(&f.partition().join(name));
            }
            assert_eq!(f.open().clean, clean);
            check_whole(&f, &expected);
            let _ = number;
        }
    }
}

#[test]
fn every_bit_of_an_index_is_harmless() {
    let (mut f, expected) = crashed(30);
    f.open();
    f.stop();
    let log_dir = f.open_dir();
    let name = "00000000000000000000.index";
    let path = f.partition().join(name);
    let good = std::fs::read(&path).expect("reads");
    assert!(good.len() >= 16);
    for bit in 0..good.len() * 8 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        std::fs::write(&path, bad).expect("writes");
        f.log_dir = Some(Arc::clone(&log_dir));
        f.open();
        for offset in 0..30 {
            assert_eq!(read_from(f.log(), offset, 1)[0].0, offset, "bit {bit}");
        }
        assert_eq!(values(f.log()), expected);
    }
}

#[test]
fn recovery_point_inside_beyond_and_garbage() {
    for (content, scans_all) in [
        ("0\n1\ntopic 0 20\n", false),
        ("0\n1\ntopic 0 99999\n", false),
        ("0\n1\ntopic 0 -5\n", true),
        ("nonsense", true),
        ("0\n7\ntopic 0 20\n", true),
    ] {
        let (mut f, expected) = crashed(60);
        let all: u64 = logs(&f)
            .iter()
            .map(|path| std::fs::metadata(path).expect("looks").len())
            .sum();
        std::fs::write(f.path().join("recovery-point-offset-checkpoint"), content).expect("writes");
        let report = f.open();
        assert_eq!(
            report.scanned_bytes == all,
            scans_all,
            "{content:?}: {} of {all}",
            report.scanned_bytes
        );
        check_whole(&f, &expected);
    }
}

#[test]
fn after_a_checkpoint_little_is_scanned() {
    let mut f = Fixture::new(LogConfig {
        index_interval_bytes: 200,
        ..LogConfig::default()
    });
    let mut expected = Vec::new();
    for n in 0..200 {
        expected.push(n.to_string());
        f.append(batch(&[&n.to_string()])).expect("appends");
    }
    f.log().flush().expect("flushes");
    f.dir()
        .checkpoint(&[Arc::clone(f.log())])
        .expect("checkpoints");
    for n in 200..203 {
        expected.push(n.to_string());
        f.append(batch(&[&n.to_string()])).expect("appends");
    }
    f.crash();
    let report = f.open();
    assert!(
        report.scanned_bytes > 0 && report.scanned_bytes < 1000,
        "{}",
        report.scanned_bytes
    );
    check_whole(&f, &expected);
    f.stop();
    f.open();
    expected.push("more".into());
    assert_eq!(values(f.log()), expected);
}

#[test]
fn snapshots_missing_damaged_or_ahead() {
    for damage in 0..3 {
        let (mut f, expected) = crashed(60);
        for name in f.files().iter().filter(|name| name.ends_with(".snapshot")) {
            let path = f.partition().join(name);
            match damage {
                0 => std::fs::remove_file(path).expect("removes"),
                1 => std::fs::write(path, b"garbage").expect("writes"),
                _ => {
                    let bytes = std::fs::read(&path).expect("reads");
                    std::fs::write(f.partition().join("00000000000000999999.snapshot"), bytes)
                        .expect("writes");
                }
            }
        }
        f.open();
        let again = f.append(sequenced_value(19, "v57")).expect("a duplicate");
        assert_eq!(
            (again.duplicate, again.base_offset),
            (true, 57),
            "damage {damage}"
        );
        check_whole(&f, &expected);
        assert!(
            !f.files()
                .contains(&"00000000000000999999.snapshot".to_owned())
        );
    }
}

#[test]
fn a_log_start_beyond_the_end_deletes_nothing() {
    let (mut f, expected) = crashed(10);
    std::fs::write(
        f.path().join("log-start-offset-checkpoint"),
        "0\n1\ntopic 0 1000\n",
    )
    .expect("writes");
    let report = f.open();
    assert!(report.notes.iter().any(|note| note.contains("log start")));
    assert_eq!(f.log().log_start_offset(), 0);
    check_whole(&f, &expected);
}

#[test]
fn leftovers_go_and_other_files_stay() {
    let (mut f, expected) = crashed(10);
    for name in [
        "leader-epoch-checkpoint.tmp",
        "00000000000000000000.log.deleted",
        "00000000000000000000.log.cleaned",
        "notes.txt",
    ] {
        std::fs::write(f.partition().join(name), b"x").expect("writes");
    }
    f.open();
    check_whole(&f, &expected);
    let files = f.files();
    assert!(files.contains(&"notes.txt".to_owned()));
    assert!(
        !files
            .iter()
            .any(|n| n.ends_with(".tmp") || n.ends_with(".deleted") || n.ends_with(".cleaned"))
    );
}

#[test]
fn a_marker_that_does_not_fit_is_not_believed() {
    let (mut f, expected) = crashed(10);
    f.open();
    f.stop();
    let path = logs(&f).pop().expect("a segment");
    let mut bytes = std::fs::read(&path).expect("reads");
    bytes.extend_from_slice(&[9; 30]);
    std::fs::write(&path, bytes).expect("writes");
    let report = f.open();
    assert!(!report.clean);
    assert_eq!(report.truncated_bytes, 30);
    check_whole(&f, &expected);
}

#[test]
fn an_epoch_is_in_the_file_before_its_first_record() {
    let (mut f, _) = crashed(3);
    f.open();
    f.log().begin_epoch(7).expect("begins");
    f.append(batch(&["x"])).expect("appends");
    f.crash();
    let path = logs(&f).pop().expect("a segment");
    let bytes = std::fs::read(&path).expect("reads");
    std::fs::write(&path, &bytes[..bytes.len() - 1]).expect("writes");
    f.open();
    assert_eq!(
        f.log().latest_epoch().map(|e| (e.epoch, e.start_offset)),
        Some((7, 3)),
        "also when the record was torn"
    );
}

#[test]
fn what_cannot_be_read_is_an_error_for_this_partition_only() {
    let (mut f, _) = crashed(3);
    std::fs::remove_file(f.partition().join("leader-epoch-checkpoint")).expect("removes");
    std::fs::create_dir(f.partition().join("leader-epoch-checkpoint")).expect("creates");
    let log_dir = f.open_dir();
    let error = log_dir
        .open_log(DIRECTORY, f.id, Arc::new(config()), NOW)
        .expect_err("a directory is no file");
    assert!(
        matches!(
            error,
            StorageError::Io { .. } | StorageError::Corrupt { .. }
        ),
        "{error}"
    );
    assert!(log_dir.check().is_ok());
}

#[test]
fn flips_anywhere_never_show_a_wrong_record() {
    // A checksum or an offset rule detects every bit flip after the recovery point.
    let (mut f, expected) = crashed(8);
    let path = logs(&f).remove(0);
    let good = std::fs::read(&path).expect("reads");
    let log_dir = f.open_dir();
    for byte in (0..good.len()).step_by(3) {
        let mut bad = good.clone();
        bad[byte] ^= 1 << (byte % 7);
        std::fs::write(&path, &bad).expect("writes");
        f.log_dir = Some(Arc::clone(&log_dir));
        f.open();
        for (_, _, value) in read_from(f.log(), f.log().log_start_offset(), 1 << 20) {
            assert!(expected.contains(&value.expect("a value")), "byte {byte}");
        }
        for name in f.files() {
            if name.ends_with(".corrupt") || name.ends_with("index") || name.ends_with(".snapshot")
            {
                std::fs::remove_file(f.partition().join(name)).expect("removes");
            }
        }
    }
    assert!(BatchHeader::parse(&good).is_ok());
}
