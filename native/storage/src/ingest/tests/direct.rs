//! Records whose staging bypasses the page cache are attached and recovered like others.

use super::*;

/// Return batches of about 300 KB, of which three fit in a segment.
fn large(prefix: &str, count: usize) -> (Vec<Vec<u8>>, Vec<String>) {
    let text = |i: usize, half: &str| format!("{prefix}{i}-{half}-{}", "v".repeat(150_000 + i));
    let pairs: Vec<_> = (0..count).map(|i| [text(i, "x"), text(i, "y")]).collect();
    let batches = pairs.iter().map(|[x, y]| batch(&[x, y])).collect();
    (batches, pairs.into_iter().flatten().collect())
}

fn direct() -> LogConfig {
    LogConfig {
        segment_bytes: 1 << 20,
        cached_bytes_max: 0,
        ..LogConfig::default()
    }
}

#[test]
fn attached_at_once_and_after_a_crash_at_any_step() {
    for killed in [
        None,
        Some(Step::Patched),
        Some(Step::Intended),
        Some(Step::Linked),
    ] {
        let mut fixture = Fixture::new(direct());
        let (batches, expected) = large("a", 7);
        let staged = stage(&fixture, 1, &batches);
        seal(&fixture, vec![staged]);
        if let Some(step) = killed {
            assert!(killed_at(&fixture, step, LINK).is_err());
            fixture.crash();
            fixture.open();
        }
        let attached = attach(&fixture, LINK).expect("attaches");
        assert_eq!(attached.end_offset, expected.len() as i64, "{killed:?}");
        check_headers(&fixture);
        assert!(values(fixture.log()) == expected, "{killed:?}");
        fixture.crash();
        let report = fixture.open();
        assert_eq!((report.truncated_bytes, report.lost.len()), (0, 0));
        assert!(values(fixture.log()) == expected, "{killed:?}");
    }
}

#[test]
fn an_attempt_goes_on_where_a_crash_has_cut_it() {
    let mut fixture = Fixture::new(direct());
    let (batches, expected) = large("a", 5);
    drop(stage(&fixture, 1, &batches[..2]));
    let file = file_names::of_segment(&place(&fixture).attempt(1, 5), 0, LOG);
    // Cut the file inside the second batch.
    let whole = batches[0].len() as u64;
    std::fs::File::options()
        .write(true)
        .open(&file)
        .expect("opens")
        .set_len(whole + 70_001)
        .expect("cuts");
    fixture.crash();
    fixture.open();
    let staged = stage(&fixture, 1, &batches[1..]);
    assert_eq!(staged.0.rows, expected.len() as i64);
    seal(&fixture, vec![staged]);
    attach(&fixture, LINK).expect("attaches");
    assert!(values(fixture.log()) == expected);
}
