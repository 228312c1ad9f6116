//! Files that changed between a stop and the next start.

use super::*;

/// Return a cleanly stopped log of `count` one-record batches in many segments.
fn stopped(count: usize) -> (Fixture, Vec<String>) {
    let (mut f, expected) = crashed(count);
    f.open();
    f.stop();
    (f, expected)
}

fn base(path: &std::path::Path) -> i64 {
    let stem = path.file_stem().and_then(|stem| stem.to_str());
    stem.and_then(|stem| stem.parse().ok()).expect("an offset")
}

fn without(expected: &[String], lost: &[(i64, i64)]) -> Vec<String> {
    let gone = |offset: usize| {
        lost.iter()
            .any(|(first, last)| (*first..=*last).contains(&(offset as i64)))
    };
    let kept = expected.iter().enumerate().filter(|(at, _)| !gone(*at));
    kept.map(|(_, value)| value.clone()).collect()
}

/// Name, effect on the file's bytes, and how many of the given number of batches remain complete.
type Damage = (&'static str, fn(&[u8]) -> Vec<u8>, fn(usize) -> usize);

const DAMAGES: [Damage; 6] = [
    ("empty", |_| Vec::new(), |_| 0),
    ("cut by one", |b| b[..b.len() - 1].to_vec(), |n| n - 1),
    ("cut inside the first", |b| b[..30].to_vec(), |_| 0),
    (
        "cut between batches",
        |b| b[..boundaries(b)[2]].to_vec(),
        |_| 2,
    ),
    ("zeros", |b| vec![0; b.len()], |_| 0),
    ("longer", |b| [b, &[0x7f; 50]].concat(), |n| n),
];

#[test]
fn a_segment_that_changed_after_a_clean_stop_is_noticed_and_the_rest_stays() {
    let segments = logs(&stopped(60).0).len();
    assert!(segments > 3);
    for at in 0..segments {
        for (name, damage, whole) in DAMAGES {
            let (mut f, expected) = stopped(60);
            let paths = logs(&f);
            let bytes = std::fs::read(&paths[at]).expect("reads");
            let batches = boundaries(&bytes).len() - 1;
            std::fs::write(&paths[at], damage(&bytes)).expect("writes");
            let report = f.open();
            let name = format!("{name} of segment {at}");
            assert!(!report.clean, "{name}");
            let first = base(&paths[at]) + whole(batches) as i64;
            let end = paths.get(at + 1).map_or(60, |next| base(next));
            let lost: Vec<_> = (first < end)
                .then_some((first, end - 1))
                .into_iter()
                .collect();
            assert_eq!(report.lost, lost, "{name}");
            assert_eq!(f.log().log_end_offset(), 60, "{name}: no offset twice");
            let mut kept = without(&expected, &lost);
            check_whole(&f, &kept);
            kept.push("more".into());
            f.crash();
            let again = f.open();
            assert_eq!((again.lost, values(f.log())), (vec![], kept), "{name}");
        }
    }
}

#[test]
fn a_segment_that_is_gone_after_a_clean_stop_is_noticed() {
    for at in 0..logs(&stopped(60).0).len() {
        let (mut f, expected) = stopped(60);
        let paths = logs(&f);
        std::fs::remove_file(&paths[at]).expect("removes");
        let end = paths.get(at + 1).map_or(60, |next| base(next));
        let lost = [(base(&paths[at]), end - 1)];
        let report = f.open();
        assert_eq!(report.lost, lost);
        check_whole(&f, &without(&expected, &lost));
    }
}

#[test]
fn all_segments_gone_after_a_clean_stop_give_no_offset_twice() {
    let (mut f, _) = stopped(60);
    for path in logs(&f) {
        std::fs::remove_file(path).expect("removes");
    }
    f.open();
    assert_eq!(f.log().log_end_offset(), 60);
    let again = f.append(sequenced_value(19, "v57")).expect("a duplicate");
    assert!(again.duplicate, "producers are known from the snapshot");
    assert_eq!(f.append(batch(&["more"])).expect("appends").base_offset, 60);
}

#[test]
fn a_closed_segment_cut_while_the_broker_was_killed_is_noticed() {
    for (name, damage, whole) in DAMAGES {
        let (mut f, expected) = crashed(60);
        f.open();
        f.log().flush().expect("flushes");
        f.dir()
            .checkpoint(&[Arc::clone(f.log())])
            .expect("checkpoints");
        f.crash();
        let paths = logs(&f);
        let bytes = std::fs::read(&paths[1]).expect("reads");
        let batches = boundaries(&bytes).len() - 1;
        std::fs::write(&paths[1], damage(&bytes)).expect("writes");
        let first = base(&paths[1]) + whole(batches) as i64;
        let end = base(&paths[2]);
        let lost: Vec<_> = (first < end)
            .then_some((first, end - 1))
            .into_iter()
            .collect();
        let report = f.open();
        assert_eq!(report.lost, lost, "{name}");
        check_whole(&f, &without(&expected, &lost));
    }
}

#[test]
fn a_shorter_transaction_index_is_made_anew() {
    let (mut f, _) = stopped(60);
    let path = f.partition().join("00000000000000000000.txnindex");
    std::fs::write(&path, [1; 34]).expect("writes");
    let report = f.open();
    assert!(!report.clean);
    assert!(!path.exists(), "no transaction was aborted here");
    f.stop();
    assert!(f.open().clean);
}
