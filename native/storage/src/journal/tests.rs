//! The journal's files without logs: torn groups, damage, and decisions about entries.

use super::replay::{Content, ReplayReport, Verdict, judge, replay};
use super::*;
use crate::testing::batch;
use pybroker_model::{TopicId, set_base_offset, set_leader_epoch};
use std::convert::Infallible;
use std::fs::File;
use std::os::unix::fs::FileExt;

const DIRECTORY: &str = "t-0";

struct Disk {
    temp: tempfile::TempDir,
    id: TopicIdPartition,
}

impl Disk {
    /// Return a log directory with one partition, whose segment has `bytes`.
    fn new(bytes: &[u8]) -> Self {
        let temp = tempfile::tempdir().expect("temp dir");
        let id = TopicIdPartition {
            topic_id: TopicId::random(),
            partition: 0,
        };
        let dir = temp.path().join(DIRECTORY);
        std::fs::create_dir(&dir).expect("creates");
        let text = crate::partition_metadata::render(id.topic_id);
        std::fs::write(dir.join("partition.metadata"), text).expect("writes");
        let disk = Self { temp, id };
        std::fs::write(disk.segment(), bytes).expect("writes");
        disk
    }

    fn path(&self) -> &Path {
        self.temp.path()
    }

    fn segment(&self) -> PathBuf {
        crate::file_names::of_segment(&self.path().join(DIRECTORY), 0, ".log")
    }

    fn journal(&self) -> Journal {
        self.journal_of(0)
    }

    fn journal_of(&self, bytes: u64) -> Journal {
        Journal::create(self.path(), bytes).expect("creates")
    }

    fn put(&self, journal: &mut Journal, position: u32, bytes: &[u8]) {
        journal.begin(entry_bytes(DIRECTORY, bytes.len()));
        let head = EntryHead {
            id: self.id,
            segment: 0,
            position,
            length: bytes.len() as u32,
            directory: DIRECTORY,
        };
        let append = |out: &mut Vec<u8>| -> Result<(), Infallible> {
            out.extend_from_slice(bytes);
            Ok(())
        };
        assert_eq!(journal.push(&head, append), Ok(()));
        journal.commit(false).expect("writes");
    }

    fn replay(&self, journal: Uuid) -> Result<ReplayReport, StorageError> {
        replay(self.path(), journal)
    }

    fn content(&self) -> Vec<u8> {
        std::fs::read(self.segment()).expect("reads")
    }
}

fn flip(path: &Path, at: u64) {
    let file = File::options()
        .read(true)
        .write(true)
        .open(path)
        .expect("opens");
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).expect("reads");
    file.write_all_at(&[byte[0] ^ 0x40], at).expect("writes");
}

#[test]
fn groups_of_all_sizes_are_read_whichever_way_they_were_written() {
    for cached in [false, true] {
        let disk = Disk::new(b"");
        let mut journal = disk.journal_of(32 << 20);
        if cached {
            journal.use_cache();
        }
        let mut expected = Vec::new();
        for count in [
            1,
            4000,
            4096,
            60_000,
            65_300,
            65_536,
            200_000,
            1 << 20,
            3,
            70_000,
            7,
        ] {
            let bytes: Vec<u8> = (0..count).map(|at| (at % 251) as u8).collect();
            disk.put(&mut journal, expected.len() as u32, &bytes);
            expected.extend_from_slice(&bytes);
        }
        let done = disk.replay(journal.id()).expect("replays");
        assert_eq!((done.entries, done.written), (11, 11));
        assert!(disk.content() == expected, "cached: {cached}");
    }
}

#[test]
fn what_a_segment_lacks_is_written() {
    let disk = Disk::new(b"0123");
    let mut journal = disk.journal();
    disk.put(&mut journal, 4, b"4567");
    disk.put(&mut journal, 8, b"89");
    for there in [
        "0123",
        "01234",
        "0123456789",
        "0123....89",
        "0123456..9 and more",
    ] {
        std::fs::write(disk.segment(), there).expect("writes");
        let done = disk.replay(journal.id()).expect("replays");
        assert_eq!(done.entries, 2);
        assert!(disk.content().starts_with(b"0123456789"), "{there}");
        let again = disk.replay(journal.id()).expect("replays");
        assert_eq!((again.written, again.notes.len()), (0, 0), "{there}");
    }
    std::fs::write(disk.segment(), "012").expect("writes");
    let done = disk.replay(journal.id()).expect("replays");
    assert_eq!(done.notes.len(), 1, "{done:?}");
    assert_eq!(disk.content(), b"012", "no hole is filled");
    std::fs::remove_file(disk.segment()).expect("removes");
    disk.replay(journal.id()).expect("replays");
    assert!(!disk.segment().exists(), "no file is made");
}

#[test]
fn an_entry_of_another_partition_is_left_alone() {
    let disk = Disk::new(b"0123");
    let mut journal = disk.journal();
    disk.put(&mut journal, 4, b"4567");
    let metadata = disk.path().join(DIRECTORY).join("partition.metadata");
    let other = crate::partition_metadata::render(TopicId::random());
    std::fs::write(&metadata, other).expect("writes");
    disk.replay(journal.id()).expect("replays");
    assert_eq!(disk.content(), b"0123");
    std::fs::remove_file(metadata).expect("removes");
    disk.replay(journal.id()).expect("replays");
    assert_eq!(disk.content(), b"0123");
    std::fs::rename(disk.path().join(DIRECTORY), disk.path().join("t-1")).expect("renames");
    assert_eq!(disk.replay(journal.id()).expect("replays").entries, 0);
}

#[test]
fn entries_before_a_log_has_left_are_void() {
    let disk = Disk::new(b"0123");
    let mut journal = disk.journal();
    disk.put(&mut journal, 4, b"4567");
    let other = TopicIdPartition {
        partition: 1,
        ..disk.id
    };
    journal.void(&[other]).expect("writes");
    assert_eq!(disk.replay(journal.id()).expect("replays").written, 1);
    std::fs::write(disk.segment(), b"0123").expect("writes");
    journal.void(&[other, disk.id]).expect("writes");
    assert_eq!(disk.replay(journal.id()).expect("replays").entries, 0);
    disk.put(&mut journal, 4, b"abc");
    disk.replay(journal.id()).expect("replays");
    assert_eq!(disk.content(), b"0123abc");
}

#[test]
fn a_batch_of_a_later_epoch_stays() {
    let of = |epoch, value: &str| {
        let mut batch = batch(&[value]);
        set_base_offset(&mut batch, 0);
        set_leader_epoch(&mut batch, epoch);
        batch
    };
    for (there, kept) in [(3, false), (4, false), (5, true)] {
        let disk = Disk::new(&of(there, "in the file"));
        let mut journal = disk.journal();
        disk.put(&mut journal, 0, &of(4, "journaled.."));
        disk.put(&mut journal, of(4, "journaled..").len() as u32, b"more");
        let done = disk.replay(journal.id()).expect("replays");
        assert_eq!(disk.content() == of(there, "in the file"), kept, "{there}");
        assert_eq!(done.notes.len(), usize::from(kept), "{done:?}");
    }
    let disk = Disk::new(&of(5, "in the file"));
    flip(&disk.segment(), 70);
    let mut journal = disk.journal();
    disk.put(&mut journal, 0, &of(4, "journaled.."));
    disk.replay(journal.id()).expect("replays");
    assert_eq!(
        disk.content(),
        of(4, "journaled.."),
        "what is torn has no epoch"
    );
}

#[test]
fn only_the_last_group_may_be_torn() {
    let disk = Disk::new(b"");
    let mut journal = disk.journal();
    for at in 0..4 {
        disk.put(&mut journal, at, &[b'a' + at as u8]);
    }
    let path = path_of(disk.path(), 0);
    // The file has an empty first group, then the four groups of this test.
    let body_of = |group: u64| group * BLOCK_BYTES as u64 + HEADER_BYTES as u64;
    for group in 1..=4 {
        for at in [body_of(group) + 3, group * BLOCK_BYTES as u64 + 20] {
            std::fs::write(disk.segment(), b"").expect("writes");
            flip(&path, at);
            let replayed = disk.replay(journal.id());
            if group == 4 {
                assert_eq!(replayed.expect("the rest counts").written, 3);
                assert_eq!(disk.content(), b"abc");
            } else {
                let error = replayed.expect_err("was on disk before later ones");
                assert!(error.to_string().contains("group"), "{error}");
                assert!(error.to_string().contains("journal.0"), "{error}");
                assert!(error.to_string().contains(DIRECTORY), "{error}");
                assert_eq!(disk.content(), b"", "nothing was changed");
            }
            flip(&path, at);
        }
    }
    std::fs::write(&path, b"").expect("writes");
    assert!(disk.replay(journal.id()).is_err(), "nothing can be read");
    std::fs::remove_file(&path).expect("removes");
    assert!(disk.replay(journal.id()).is_err(), "a file is gone");
}

#[test]
fn what_was_given_back_is_not_needed() {
    let disk = Disk::new(b"0123");
    let mut journal = disk.journal();
    disk.put(&mut journal, 4, b"4567");
    assert!(journal.change_files().expect("room"));
    assert!(
        !journal.change_files().expect("no error"),
        "not before it is given back"
    );
    disk.put(&mut journal, 8, b"89");
    assert_eq!(disk.replay(journal.id()).expect("replays").entries, 2);
    let damaged = path_of(disk.path(), 0);
    flip(&damaged, BLOCK_BYTES as u64 + 70);
    assert!(disk.replay(journal.id()).is_err());
    journal.release_other().expect("writes");
    assert_eq!(disk.replay(journal.id()).expect("replays").entries, 1);
    assert!(journal.change_files().expect("room"));
    disk.put(&mut journal, 10, b"ab");
    assert_eq!(disk.replay(journal.id()).expect("replays").entries, 2);
    journal.empty().expect("writes");
    assert_eq!(disk.replay(journal.id()).expect("replays").entries, 0);
    disk.put(&mut journal, 12, b"cd");
    assert_eq!(disk.replay(journal.id()).expect("replays").entries, 1);
}

#[test]
fn groups_of_another_journal_are_none() {
    let disk = Disk::new(b"");
    let mut old = disk.journal();
    disk.put(&mut old, 0, b"old");
    let bytes = std::fs::read(path_of(disk.path(), 0)).expect("reads");
    let mut journal = disk.journal();
    // A record can contain any bytes, even a copy of a group at a block border.
    disk.put(
        &mut journal,
        0,
        &[
            &vec![0; BLOCK_BYTES - HEADER_BYTES - entry_bytes(DIRECTORY, 0)],
            bytes.as_slice(),
        ]
        .concat(),
    );
    let done = disk.replay(journal.id()).expect("replays");
    assert_eq!(done.entries, 1);
}

#[test]
fn of_two_writes_of_one_number_the_later_counts() {
    let disk = Disk::new(b"0123");
    let mut journal = disk.journal();
    disk.put(&mut journal, 4, b"4567");
    // Simulate a group that is complete on disk although the disk reported that it is full.
    journal.next -= 1;
    assert!(journal.change_files().expect("room"));
    disk.put(&mut journal, 4, b"abc");
    assert_eq!(disk.replay(journal.id()).expect("replays").entries, 1);
    assert_eq!(disk.content(), b"0123abc");
    std::fs::write(disk.segment(), b"0123").expect("writes");
    journal.next -= 1;
    journal.void(&[disk.id]).expect("writes");
    assert_eq!(disk.replay(journal.id()).expect("replays").entries, 0);
}

#[test]
fn every_case_of_an_entry() {
    let contents = [
        Content::NoFile,
        Content::Gap,
        Content::Same,
        Content::LaterEpoch,
        Content::Other,
    ];
    for void in [false, true] {
        for ours in [false, true] {
            for content in contents {
                let expected = match (void, ours, content) {
                    (false, true, Content::Other) => Verdict::Write,
                    (false, true, Content::Gap | Content::LaterEpoch) => Verdict::Stop,
                    _ => Verdict::Leave,
                };
                assert_eq!(judge(void, ours, content), expected);
            }
        }
    }
}
