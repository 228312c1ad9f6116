//! A directory whose unsynced changes a power cut loses, tears or damages: the disk below the real metadata log.

use std::cell::{RefCell, RefMut};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::rc::Rc;

use pybroker_metadata_log::{FileHandle, Files};

use crate::random::Random;

/// A file by its inode.
type Inode = u64;

#[derive(Debug, Clone)]
enum Change {
    Write { position: usize, bytes: Vec<u8> },
    SetSize(usize),
}

#[derive(Debug, Clone)]
enum NameChange {
    Set(String, Inode),
    Rename(String, String),
    Remove(String),
}

/// The content that the process sees, and the content after a power cut.
#[derive(Debug)]
struct CrashableValue<T, C> {
    cached: T,
    durable: T,
    /// Unsynced changes, each with its sequence number.
    changes: VecDeque<(u64, C)>,
    last: u64,
}

impl<T: Default, C: Clone> CrashableValue<T, C> {
    fn new() -> Self {
        Self {
            cached: T::default(),
            durable: T::default(),
            changes: VecDeque::new(),
            last: 0,
        }
    }

    fn change(&mut self, change: C, apply: fn(&mut T, &C)) {
        apply(&mut self.cached, &change);
        self.last += 1;
        self.changes.push_back((self.last, change));
    }

    /// Bring all changes up to `number` to the disk.
    fn sync(&mut self, number: u64, apply: fn(&mut T, &C)) {
        let covered = self.changes.partition_point(|(each, _)| *each <= number);
        for (_, change) in self.changes.drain(..covered) {
            apply(&mut self.durable, &change);
        }
    }
}

fn change_bytes(bytes: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Write {
            position,
            bytes: written,
        } => {
            let end = position + written.len();
            if bytes.len() < end {
                bytes.resize(end, 0);
            }
            bytes[*position..end].copy_from_slice(written);
        }
        Change::SetSize(size) => bytes.resize(*size, 0),
    }
}

fn change_names(names: &mut BTreeMap<String, Inode>, name_change: &NameChange) {
    match name_change {
        NameChange::Set(name, inode) => {
            names.insert(name.clone(), *inode);
        }
        NameChange::Rename(from, to) => {
            if let Some(inode) = names.remove(from) {
                names.insert(to.clone(), inode);
            }
        }
        NameChange::Remove(name) => {
            names.remove(name);
        }
    }
}

type Content = CrashableValue<Vec<u8>, Change>;

#[derive(Debug)]
struct Disk {
    names: CrashableValue<BTreeMap<String, Inode>, NameChange>,
    contents: BTreeMap<Inode, Content>,
    last_inode: Inode,
    full: bool,
}

/// The damage of a power cut to unsynced writes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Damage {
    /// Number of lost changes.
    pub(crate) lost: u64,
    /// Number of writes that are only half done.
    pub(crate) torn: u64,
    /// Number of writes with flipped bits.
    pub(crate) flipped: u64,
}

/// A simulated directory.
#[derive(Debug, Clone)]
pub(crate) struct SimulatedFiles(Rc<RefCell<Disk>>);

impl SimulatedFiles {
    pub(crate) fn new() -> Self {
        Self(Rc::new(RefCell::new(Disk {
            names: CrashableValue::new(),
            contents: BTreeMap::new(),
            last_inode: 0,
            full: false,
        })))
    }

    /// Set whether writes fail.
    pub(crate) fn set_full(&self, full: bool) {
        self.0.borrow_mut().full = full;
    }

    /// Return whether writes fail.
    pub(crate) fn is_full(&self) -> bool {
        self.0.borrow().full
    }

    /// Cut the power. Of each file the synced bytes stay, with a prefix of its unsynced changes; the same holds for the
    /// names. One write may be half done, or have a flipped bit.
    pub(crate) fn cut_power(&self, random: &mut Random) -> Damage {
        let disk = &mut *self.0.borrow_mut();
        let mut damage = Damage::default();
        let kept = random.index(disk.names.changes.len() + 1);
        damage.lost += (disk.names.changes.len() - kept) as u64;
        let last = kept.checked_sub(1).map(|last| disk.names.changes[last].0);
        disk.names.sync(last.unwrap_or(0), change_names);
        disk.names.changes.clear();
        disk.names.cached = disk.names.durable.clone();
        let named: Vec<Inode> = disk.names.durable.values().copied().collect();
        disk.contents.retain(|inode, _| named.contains(inode));
        for content in disk.contents.values_mut() {
            cut_content(content, random, &mut damage);
        }
        damage
    }

    fn content(&self, inode: Inode) -> io::Result<RefMut<'_, Content>> {
        let gone = || io::Error::other("the process of this handle is dead");
        let contents =
            RefMut::filter_map(self.0.borrow_mut(), |disk| disk.contents.get_mut(&inode));
        contents.map_err(|_| gone())
    }
}

fn cut_content(content: &mut Content, random: &mut Random, damage: &mut Damage) {
    let kept = random.index(content.changes.len() + 1);
    let (flips, tears) = (kept > 0 && random.percent(20), random.percent(30));
    for (place, (_, change)) in std::mem::take(&mut content.changes).into_iter().enumerate() {
        if place < kept {
            change_bytes(&mut content.durable, &change);
            if let Change::Write { position, bytes } = &change
                && flips
                && !bytes.is_empty()
                && random.percent(50)
            {
                content.durable[position + random.index(bytes.len())] ^= 1 << random.index(8);
                damage.flipped += 1;
            }
            continue;
        }
        damage.lost += 1;
        if let Change::Write { position, bytes } = change
            && place == kept
            && tears
        {
            let half = bytes[..random.index(bytes.len() + 1)].to_vec();
            let half = Change::Write {
                position,
                bytes: half,
            };
            change_bytes(&mut content.durable, &half);
            damage.torn += 1;
        }
    }
    content.cached = content.durable.clone();
}

/// An open simulated file.
#[derive(Debug)]
pub(crate) struct SimulatedFile {
    files: SimulatedFiles,
    inode: Inode,
}

/// A sync that has begun. It covers all changes up to a sequence number.
#[derive(Debug)]
pub(crate) struct ContentSync {
    files: SimulatedFiles,
    inode: Inode,
    number: u64,
}

impl Files for SimulatedFiles {
    type File = SimulatedFile;
    type NamesSync = u64;

    fn names(&self) -> io::Result<Vec<String>> {
        Ok(self.0.borrow().names.cached.keys().cloned().collect())
    }

    fn open(&self, name: &str) -> io::Result<SimulatedFile> {
        let inode = self.0.borrow().names.cached.get(name).copied();
        let inode = inode.ok_or(io::ErrorKind::NotFound)?;
        let files = self.clone();
        Ok(SimulatedFile { files, inode })
    }

    fn create(&self, name: &str) -> io::Result<SimulatedFile> {
        let disk = &mut *self.0.borrow_mut();
        disk.last_inode += 1;
        let inode = disk.last_inode;
        disk.contents.insert(inode, CrashableValue::new());
        let name_change = NameChange::Set(name.to_owned(), inode);
        disk.names.change(name_change, change_names);
        let files = self.clone();
        Ok(SimulatedFile { files, inode })
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let name_change = NameChange::Rename(from.to_owned(), to.to_owned());
        self.0.borrow_mut().names.change(name_change, change_names);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let name_change = NameChange::Remove(name.to_owned());
        self.0.borrow_mut().names.change(name_change, change_names);
        Ok(())
    }

    fn begin_names_sync(&self) -> u64 {
        self.0.borrow().names.last
    }

    fn end_names_sync(&self, sync: &u64) -> io::Result<()> {
        self.0.borrow_mut().names.sync(*sync, change_names);
        Ok(())
    }

    fn path_of(&self, name: &str) -> String {
        name.to_owned()
    }
}

impl FileHandle for SimulatedFile {
    type Sync = ContentSync;

    fn size(&self) -> io::Result<u64> {
        Ok(self.files.content(self.inode)?.cached.len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        let content = self.files.content(self.inode)?;
        let rest = content.cached.get(position as usize..).unwrap_or(&[]);
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<()> {
        let full = self.files.0.borrow().full;
        let written = if full { bytes.len() / 2 } else { bytes.len() };
        let write = Change::Write {
            position: position as usize,
            bytes: bytes[..written].to_vec(),
        };
        self.files.content(self.inode)?.change(write, change_bytes);
        match full {
            true => Err(io::ErrorKind::StorageFull.into()),
            false => Ok(()),
        }
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        let change = Change::SetSize(size as usize);
        self.files.content(self.inode)?.change(change, change_bytes);
        Ok(())
    }

    fn begin_sync(&self) -> ContentSync {
        let content = self.files.content(self.inode);
        ContentSync {
            files: self.files.clone(),
            inode: self.inode,
            number: content.map_or(0, |content| content.last),
        }
    }

    fn end_sync(sync: &ContentSync) -> io::Result<()> {
        let content = sync.files.content(sync.inode);
        content?.sync(sync.number, change_bytes);
        Ok(())
    }
}
