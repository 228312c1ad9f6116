//! Files that are damaged while the log is in use: readers skip the damage, and the next start removes it.

use super::*;
use crate::{ReadError, StorageError};
use pybroker_model::Batches;
use std::path::PathBuf;

fn filled() -> (Fixture, Vec<PathBuf>) {
    let f = Fixture::new(LogConfig {
        segment_bytes: 1000,
        index_interval_bytes: 150,
        ..LogConfig::default()
    });
    for n in 0..60 {
        f.append(batch(&[&n.to_string()])).expect("appends");
    }
    let names = f.files().into_iter().filter(|name| name.ends_with(".log"));
    let paths: Vec<_> = names.map(|name| f.partition().join(name)).collect();
    assert!(paths.len() > 3);
    (f, paths)
}

fn second_base(paths: &[PathBuf]) -> i64 {
    let stem = paths[1].file_stem().and_then(|stem| stem.to_str());
    stem.and_then(|stem| stem.parse().ok()).expect("an offset")
}

#[test]
fn readers_go_on_after_a_closed_segment_that_was_cut_under_the_log() {
    for keep in [0, 30, 200] {
        let (mut f, paths) = filled();
        let first = second_base(&paths) + keep / 70;
        let next: i64 = second_base(&paths[1..]);
        let bytes = std::fs::read(&paths[1]).expect("reads");
        let mut walk = Batches::new(&bytes);
        walk.next().expect("a batch").expect("good");
        assert!((60..=75).contains(&walk.position()), "{}", walk.position());
        std::fs::OpenOptions::new()
            .write(true)
            .open(&paths[1])
            .and_then(|file| file.set_len(keep as u64))
            .expect("cuts");
        let expected: Vec<String> = (0..60)
            .filter(|n| !(first..next).contains(n))
            .map(|n| n.to_string())
            .collect();
        for max_bytes in [1, 1 << 20] {
            let read = read_from(f.log(), 0, max_bytes);
            let values: Vec<_> = read.into_iter().filter_map(|(_, _, value)| value).collect();
            assert_eq!(values, expected, "{keep} bytes left");
        }
        for offset in first..next {
            let (found, _, _) = read_from(f.log(), offset, 1).remove(0);
            assert_eq!(found, next, "from inside the hole");
        }
        let noted = f.log().take_damage();
        assert_eq!(noted.len(), 1, "{noted:?}");
        let range = format!("records {first} to {} are lost", next - 1);
        assert!(noted[0].starts_with(&range), "{noted:?}");
        f.stop();
        f.open();
        assert_eq!(values(f.log()), expected);
    }
}

#[test]
fn a_damaged_batch_says_so_to_its_readers_until_the_next_start_takes_it_out() {
    // The index has an entry for the fourth batch.
    for (clean, batches) in [(true, 2), (false, 2), (true, 3), (false, 3)] {
        let (mut f, paths) = filled();
        let bad = second_base(&paths) + batches as i64;
        let mut bytes = std::fs::read(&paths[1]).expect("reads");
        let mut walk = Batches::new(&bytes);
        walk.nth(batches - 1).expect("a batch").expect("good");
        // Damage the format number, but keep the file's size and modification time.
        let (at, modified) = (walk.position() + 16, std::fs::metadata(&paths[1]));
        bytes[at] = 9;
        std::fs::write(&paths[1], &bytes).expect("writes");
        std::fs::File::options()
            .write(true)
            .open(&paths[1])
            .and_then(|file| file.set_modified(modified?.modified()?))
            .expect("dates back");
        let error = f.log().read(bad, 1, 60, true).expect_err("damaged");
        assert!(
            matches!(error, ReadError::Storage(StorageError::Corrupt { .. })),
            "{error}"
        );
        assert!(f.log().read(bad, 1, 60, true).is_err());
        assert_eq!(f.log().take_damage().len(), 1, "said once");
        let after = read_from(f.log(), bad + 6, 1);
        assert_eq!(after[0].0, bad + 6, "offsets behind it can be read");
        if clean {
            f.stop();
        } else {
            f.log().flush().expect("flushes");
            let log = std::sync::Arc::clone(f.log());
            f.dir().checkpoint(&[log]).expect("checkpoints");
            f.crash();
        }
        let report = f.open();
        assert_eq!(report.lost, [(bad, bad)], "clean: {clean}");
        assert_eq!(values(f.log()).len(), 59);
    }
}
