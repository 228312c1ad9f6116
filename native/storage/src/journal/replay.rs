//! Replay of a journal at start, before any log is opened: it writes the entries that the logs' files lack. Afterwards
//! the files contain every acknowledged write, and recovery continues as without a journal.
//!
//! | an entry | action |
//! |---|---|
//! | of a log that has left the journal since (truncated, compacted, deleted, moved) | none |
//! | whose directory is gone, or belongs to another topic id or partition | none |
//! | whose segment file is gone: it was on disk before the entry, so it was removed | none |
//! | the file has these bytes there | none |
//! | the file ends before that position | none, also for later entries of that log; reported |
//! | the file has a whole batch of a later leader epoch there | none, also for later entries of that log; reported |
//! | else: the file ends there or inside, or has something else | write |

use super::format::{self, BLOCK_BYTES, Entry, GroupHeader, HEADER_BYTES};
use super::path_of;
use crate::error::StorageError;
use crate::file_names::{self, LOG};
use crate::files;
use crate::partition_metadata;
use pybroker_model::{BatchHeader, Batches, TopicIdPartition, Uuid, crc32c};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::io;
use std::ops::RangeInclusive;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Bytes of one read in the search for headers.
const CHUNK_BYTES: usize = 1 << 20;
/// Limit of open segment files.
const OPEN_FILES_MAX: usize = 256;
/// Maximum number of partitions named in the error about a damaged journal.
const LOGS_NAMED_MAX: usize = 10;
/// Number of files from which one barrier is cheaper than a sync of each.
const BARRIER_FILES: usize = 16;

/// Result of a replay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReplayReport {
    /// Entries that were needed and not void.
    pub(crate) entries: usize,
    /// Entries that the files lacked.
    pub(crate) written: usize,
    /// Entries that could not be written, in words.
    pub(crate) notes: Vec<String>,
}

/// A group as described by its header.
struct Group {
    header: GroupHeader,
    body_crc: u32,
    file: usize,
    position: u64,
}

/// Read the journal with this id in `dir`. Write the entries that the logs' files lack into these files. Durable on
/// return.
///
/// # Errors
/// [`StorageError`] if the journal's records cannot be read (nothing was changed), or the logs' files cannot be
/// written. After an error the directory must not be used.
pub(crate) fn replay(dir: &Path, journal: Uuid) -> Result<ReplayReport, StorageError> {
    let files = [open(dir, 0)?, open(dir, 1)?];
    let groups = readable_groups(dir, &files, journal)?;
    let mut void: HashMap<TopicIdPartition, u64> = HashMap::new();
    for group in groups.iter().filter(|group| group.header.voids) {
        let body = body_of(dir, &files, group)?;
        let ids = format::voided(&body, group.header.entries);
        for id in ids.ok_or_else(|| not_a_body(dir, group))? {
            void.insert(id, group.header.sequence);
        }
    }
    let mut replayer = Replayer::new(dir);
    for group in groups.iter().filter(|group| !group.header.voids) {
        let body = body_of(dir, &files, group)?;
        let entries = format::entries(&body, group.header.entries);
        for entry in entries.ok_or_else(|| not_a_body(dir, group))? {
            let left = void
                .get(&entry.head.id)
                .is_some_and(|since| group.header.sequence < *since);
            replayer.entry(&entry, left)?;
        }
    }
    replayer.finish()
}

/// Return the needed groups in order, all complete. Leaves out the last one if it is torn: no waiter was notified of
/// it.
fn readable_groups(
    dir: &Path,
    files: &[File; 2],
    journal: Uuid,
) -> Result<Vec<Group>, StorageError> {
    let mut found = Vec::new();
    for (at, file) in files.iter().enumerate() {
        find_groups(file, &path_of(dir, at), at, journal, &mut found)?;
    }
    // If a write found no space, it may have left a part of its group, and the next group got the same number.
    found.sort_unstable_by_key(|group| group.header.write);
    let mut found: HashMap<u64, Group> = found
        .into_iter()
        .map(|group| (group.header.sequence, group))
        .collect();
    let needed = needed(&found).ok_or_else(|| damaged(dir, 0, "it has no readable group"))?;
    let (mut readable, mut lost) = (Vec::new(), Vec::new());
    for number in needed.clone() {
        match found.remove(&number) {
            Some(group) if is_whole_group(dir, files, &group)? => readable.push(group),
            Some(_) if number == *needed.end() => {}
            damaged => lost.push((number, damaged)),
        }
    }
    match lost.first() {
        None => Ok(readable),
        Some((first, group)) => {
            let kept = logs_in(dir, files, &readable)?;
            let reason = format!(
                "of its groups {} to {}, {} cannot be read (the first is {first}), although they were on disk when the \
                 last one was written. Nothing was changed. The other groups have records of {kept}",
                needed.start(),
                needed.end(),
                lost.len(),
            );
            let file = group.as_ref().map_or(0, |group| group.file);
            Err(damaged(dir, file, &reason))
        }
    }
}

/// Return the names of the logs that have records in these groups.
fn logs_in(dir: &Path, files: &[File; 2], groups: &[Group]) -> Result<String, StorageError> {
    let mut names = BTreeSet::new();
    for group in groups.iter().filter(|group| !group.header.voids) {
        let body = body_of(dir, files, group)?;
        let entries = format::entries(&body, group.header.entries).unwrap_or_default();
        names.extend(entries.iter().map(|entry| entry.head.directory.to_owned()));
    }
    let named: Vec<_> = names.iter().take(LOGS_NAMED_MAX).cloned().collect();
    Ok(match (named.len(), names.len()) {
        (_, 0) => "no partition".to_owned(),
        (some, all) if some < all => format!("{} and {} more", named.join(", "), all - some),
        _ => named.join(", "),
    })
}

fn open(dir: &Path, file: usize) -> Result<File, StorageError> {
    let path = path_of(dir, file);
    File::open(&path).map_err(StorageError::io("open", &path))
}

/// Collect all blocks that are group headers, in any order. Does not rely on the groups' lengths, because intact groups
/// may follow a damaged one.
fn find_groups(
    file: &File,
    path: &Path,
    number: usize,
    journal: Uuid,
    groups: &mut Vec<Group>,
) -> Result<(), StorageError> {
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut at = 0;
    loop {
        let count = read_at_most(file, &mut chunk, at).map_err(StorageError::io("read", path))?;
        for (block, bytes) in chunk[..count].chunks(BLOCK_BYTES).enumerate() {
            if let Some((header, body_crc)) = GroupHeader::read(bytes, journal) {
                groups.push(Group {
                    header,
                    body_crc,
                    file: number,
                    position: at + (block * BLOCK_BYTES) as u64,
                });
            }
        }
        if count < chunk.len() {
            return Ok(());
        }
        at += count as u64;
    }
}

/// Return the numbers from the last floor to the last group.
fn needed(groups: &HashMap<u64, Group>) -> Option<RangeInclusive<u64>> {
    let last = *groups.keys().max()?;
    let floor = groups.values().map(|group| group.header.floor).max()?;
    Some(floor..=last)
}

/// Return whether the group's body matches its header.
fn is_whole_group(dir: &Path, files: &[File; 2], group: &Group) -> Result<bool, StorageError> {
    let body = body_of(dir, files, group)?;
    Ok(body.len() == group.header.body_bytes as usize && crc32c(&body) == group.body_crc)
}

/// Return a group's body, up to the end of the file.
fn body_of(dir: &Path, files: &[File; 2], group: &Group) -> Result<Vec<u8>, StorageError> {
    let mut body = vec![0; group.header.body_bytes as usize];
    let position = group.position + HEADER_BYTES as u64;
    let read = read_at_most(&files[group.file], &mut body, position);
    let count = read.map_err(StorageError::io("read", &path_of(dir, group.file)))?;
    body.truncate(count);
    Ok(body)
}

fn not_a_body(dir: &Path, group: &Group) -> StorageError {
    let reason = format!(
        "group {} at position {} does not match its checksum",
        group.header.sequence, group.position
    );
    damaged(dir, group.file, &reason)
}

fn damaged(dir: &Path, file: usize, reason: &str) -> StorageError {
    StorageError::Io {
        operation: "replay",
        path: path_of(dir, file),
        source: io::Error::new(io::ErrorKind::InvalidData, reason).into(),
    }
}

fn read_at_most(file: &File, out: &mut [u8], position: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < out.len() {
        match file.read_at(&mut out[done..], position + done as u64) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// Content of a segment file at an entry's position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// The file does not exist.
    NoFile,
    /// The file ends before that position.
    Gap,
    /// The entry's bytes.
    Same,
    /// A whole batch of a later leader epoch.
    LaterEpoch,
    /// The end of the file, a part of the bytes, or anything else.
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The entry is in place, or no longer needed.
    Leave,
    /// Write the entry.
    Write,
    /// The entry does not fit; neither do later ones of its log.
    Stop,
}

/// Decide what to do with an entry. `void`: its log has left the journal since, or an earlier entry of the log did not
/// fit. `ours`: its directory exists and belongs to its topic and partition.
pub(super) const fn judge(void: bool, ours: bool, content: Content) -> Verdict {
    if void || !ours {
        return Verdict::Leave;
    }
    match content {
        Content::NoFile | Content::Same => Verdict::Leave,
        Content::Gap | Content::LaterEpoch => Verdict::Stop,
        Content::Other => Verdict::Write,
    }
}

struct Replayer<'a> {
    dir: &'a Path,
    /// Whether a log's directory exists and belongs to it.
    ours: HashMap<TopicIdPartition, bool>,
    stopped: HashSet<TopicIdPartition>,
    files: HashMap<PathBuf, Option<File>>,
    written: BTreeSet<PathBuf>,
    report: ReplayReport,
}

impl<'a> Replayer<'a> {
    fn new(dir: &'a Path) -> Self {
        Self {
            dir,
            ours: HashMap::new(),
            stopped: HashSet::new(),
            files: HashMap::new(),
            written: BTreeSet::new(),
            report: ReplayReport::default(),
        }
    }

    fn entry(&mut self, entry: &Entry<'_>, left: bool) -> Result<(), StorageError> {
        let head = &entry.head;
        let void = left || self.stopped.contains(&head.id);
        if void || !self.is_ours(entry)? {
            return Ok(());
        }
        self.report.entries += 1;
        let directory = self.dir.join(head.directory);
        let path = file_names::of_segment(&directory, head.segment, LOG);
        let content = self.content(&path, entry)?;
        match judge(void, true, content) {
            Verdict::Leave => {}
            Verdict::Write => {
                let file = self.file(&path)?;
                file.map_or(Ok(()), |file| {
                    file.write_all_at(entry.bytes, u64::from(head.position))
                })
                .map_err(StorageError::io("write", &path))?;
                self.written.insert(path);
                self.report.written += 1;
            }
            Verdict::Stop => {
                self.stopped.insert(head.id);
                let what = match content {
                    Content::Gap => "the file ends before that place",
                    _ => "the file has a batch of a later leader epoch there",
                };
                self.report.notes.push(format!(
                    "{}: ignored the journal's records for position {}: {what}",
                    path.display(),
                    head.position
                ));
            }
        }
        Ok(())
    }

    fn is_ours(&mut self, entry: &Entry<'_>) -> Result<bool, StorageError> {
        let id = entry.head.id;
        if let Some(ours) = self.ours.get(&id) {
            return Ok(*ours);
        }
        let name = entry.head.directory;
        let partition = file_names::id_and_partition(name)
            .map(|id| id.partition)
            .or_else(|| file_names::topic_and_partition(name).map(|(_, partition)| partition));
        let ours = partition == Some(id.partition)
            && match partition_metadata::read(&self.dir.join(name)) {
                Ok(found) => found == Some(id.topic_id),
                // Treat the directory as the log's own. The broker does not serve it until an operator repairs it, and
                // the log must have its records then.
                Err(StorageError::Corrupt { .. }) => true,
                Err(error) => return Err(error),
            };
        self.ours.insert(id, ours);
        Ok(ours)
    }

    fn content(&mut self, path: &Path, entry: &Entry<'_>) -> Result<Content, StorageError> {
        let position = u64::from(entry.head.position);
        let Some(file) = self.file(path)? else {
            return Ok(Content::NoFile);
        };
        let failed = |error| StorageError::io("read", path)(error);
        let mut there = vec![0; entry.bytes.len()];
        let count = read_at_most(file, &mut there, position).map_err(failed)?;
        if there[..count] == *entry.bytes {
            return Ok(Content::Same);
        }
        if count == 0 && file.metadata().map_err(failed)?.len() < position {
            return Ok(Content::Gap);
        }
        if epoch_of(&there[..count]) > epoch_of(entry.bytes) {
            return Ok(Content::LaterEpoch);
        }
        Ok(Content::Other)
    }

    fn file(&mut self, path: &Path) -> Result<Option<&File>, StorageError> {
        if self.files.len() >= OPEN_FILES_MAX && !self.files.contains_key(path) {
            self.files.clear();
        }
        if !self.files.contains_key(path) {
            let file = match File::options().read(true).write(true).open(path) {
                Ok(file) => Some(file),
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                Err(error) => return Err(StorageError::io("open", path)(error)),
            };
            self.files.insert(path.to_path_buf(), file);
        }
        Ok(self.files.get(path).and_then(Option::as_ref))
    }

    fn finish(self) -> Result<ReplayReport, StorageError> {
        let Self {
            dir,
            written,
            report,
            ..
        } = self;
        if written.len() >= BARRIER_FILES && cfg!(target_os = "linux") {
            barrier(dir)?;
        } else {
            for path in &written {
                File::open(path)
                    .and_then(|file| files::sync_data(&file))
                    .map_err(StorageError::io("sync", path))?;
            }
        }
        Ok(report)
    }
}

#[cfg(target_os = "linux")]
fn barrier(dir: &Path) -> Result<(), StorageError> {
    File::open(dir)
        .and_then(|dir| files::sync_filesystem(&dir))
        .map_err(StorageError::io("sync", dir))
}

#[cfg(not(target_os = "linux"))]
fn barrier(dir: &Path) -> Result<(), StorageError> {
    files::sync_dir(dir)
}

/// Return the leader epoch of the first batch; -1 if there is no whole batch.
fn epoch_of(bytes: &[u8]) -> i32 {
    match Batches::new(bytes).next() {
        Some(Ok((header, batch))) if is_whole(&header, batch) => header.partition_leader_epoch,
        _ => -1,
    }
}

fn is_whole(header: &BatchHeader, batch: &[u8]) -> bool {
    header.check().is_ok() && header.check_crc(batch).is_ok()
}
