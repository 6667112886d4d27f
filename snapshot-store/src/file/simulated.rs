//! A disk in memory that tells what is flushed from what is not, fails when told to, and can lose power.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard},
};

use super::disk::{Disk, NewFile};

/// Clones share the disk; [`copy`](SimulatedDisk::copy) gives another.
#[derive(Debug, Clone)]
pub(crate) struct SimulatedDisk(Arc<Mutex<State>>);

/// A call that fails.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fault {
    /// How many calls succeed before.
    pub(crate) after: usize,
    pub(crate) kind: io::ErrorKind,
    /// Whether the call does its work, or half of it, nevertheless.
    pub(crate) takes_effect: bool,
    /// Whether all later calls fail too: the power is gone.
    pub(crate) for_ever: bool,
}

/// What becomes of each thing that was not flushed when the power went.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Unflushed {
    Lost,
    Kept,
    /// Each one by a coin.
    Random(u64),
}

#[derive(Debug, Clone)]
struct State {
    dirs: BTreeMap<PathBuf, Dir>,
    files: Vec<File>,
    calls: usize,
    fault: Option<Fault>,
    struck: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Entry {
    Dir,
    File(usize),
}

type Entries = BTreeMap<OsString, Entry>;

#[derive(Debug, Clone, Default)]
struct Dir {
    entries: Entries,
    flushed: Entries,
    /// Since the flush: what each name was made to be.
    changes: Vec<(OsString, Option<Entry>)>,
}

#[derive(Debug, Clone, Default)]
struct File {
    bytes: Vec<u8>,
    flushed: Vec<u8>,
}

impl SimulatedDisk {
    /// An empty disk.
    pub(crate) fn new() -> Self {
        let dirs = BTreeMap::from([(PathBuf::from("/"), Dir::default())]);
        Self(Arc::new(Mutex::new(State {
            dirs,
            files: Vec::new(),
            calls: 0,
            fault: None,
            struck: false,
        })))
    }

    pub(crate) fn copy(&self) -> Self {
        Self(Arc::new(Mutex::new(self.state().clone())))
    }

    /// From now on.
    pub(crate) fn fail(&self, fault: Fault) {
        let mut state = self.state();
        state.calls = 0;
        state.fault = Some(fault);
        state.struck = false;
    }

    pub(crate) fn heal(&self) {
        self.state().fault = None;
    }

    /// True if the latest fault has struck.
    pub(crate) fn has_failed(&self) -> bool {
        self.state().struck
    }

    /// The disk as it is found after a power loss.
    pub(crate) fn lose_power(&self, unflushed: Unflushed) {
        let mut coin = Coin::new(unflushed);
        let mut state = self.state();
        state.fault = None;
        for file in &mut state.files {
            if file.bytes != file.flushed {
                if !coin.flip() {
                    file.bytes = file.flushed.clone();
                } else if !coin.flip() {
                    file.bytes.truncate(file.bytes.len() / 2);
                } else if !coin.flip() {
                    file.bytes.fill(0);
                }
                file.flushed = file.bytes.clone();
            }
        }
        for dir in state.dirs.values_mut() {
            let mut survived = std::mem::take(&mut dir.flushed);
            for (name, entry) in dir.changes.drain(..) {
                match entry {
                    _ if !coin.flip() => {}
                    Some(entry) => drop(survived.insert(name, entry)),
                    None => drop(survived.remove(&name)),
                }
            }
            dir.entries = survived.clone();
            dir.flushed = survived;
        }
        let mut reachable = BTreeMap::new();
        let mut open = vec![PathBuf::from("/")];
        while let Some(path) = open.pop() {
            let dir = state.dirs.remove(&path).unwrap_or_default();
            let inner = dir.entries.iter().filter(|(_, entry)| **entry == Entry::Dir);
            open.extend(inner.map(|(name, _)| path.join(name)));
            reachable.insert(path, dir);
        }
        state.dirs = reachable;
    }

    /// Changes the bytes of each file whose path ends so, behind the store's back.
    pub(crate) fn tamper(&self, ending: &str, change: impl Fn(&mut Vec<u8>)) {
        let mut state = self.state();
        let State { dirs, files, .. } = &mut *state;
        for name_and_entry in dirs.values().flat_map(|dir| &dir.entries) {
            if let (name, Entry::File(file)) = name_and_entry
                && name.to_str().unwrap().ends_with(ending)
            {
                change(&mut files[*file].bytes);
            }
        }
    }

    /// The paths of all files.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let state = self.state();
        let entries = state.dirs.iter().flat_map(|(path, dir)| {
            dir.entries
                .iter()
                .filter(|(_, entry)| **entry != Entry::Dir)
                .map(|(name, _)| path.join(name))
        });
        entries.collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// Counts a call; `effect` gets false where it must do only half of its work.
    fn call<T>(&self, effect: impl FnOnce(&mut State, bool) -> io::Result<T>) -> io::Result<T> {
        let mut state = self.state();
        let call = state.calls;
        state.calls += 1;
        let Some(fault) = state.fault.filter(|fault| call >= fault.after) else {
            return effect(&mut state, true);
        };
        if call == fault.after {
            state.struck = true;
            if fault.takes_effect {
                let _ = effect(&mut state, false);
            }
        } else if !fault.for_ever {
            return effect(&mut state, true);
        }
        Err(fault.kind.into())
    }
}

impl State {
    fn dir(&mut self, path: &Path) -> io::Result<&mut Dir> {
        self.dirs.get_mut(path).ok_or(io::ErrorKind::NotFound.into())
    }

    fn get(&mut self, path: &Path) -> io::Result<Option<Entry>> {
        let (parent, name) = split(path)?;
        Ok(self.dir(parent)?.entries.get(name).copied())
    }

    fn set(&mut self, path: &Path, entry: Option<Entry>) -> io::Result<()> {
        let (parent, name) = split(path)?;
        let dir = self.dir(parent)?;
        match entry {
            Some(entry) => drop(dir.entries.insert(name.to_owned(), entry)),
            None => drop(dir.entries.remove(name)),
        }
        dir.changes.push((name.to_owned(), entry));
        Ok(())
    }

    fn file(&mut self, path: &Path) -> io::Result<usize> {
        match self.get(path)? {
            Some(Entry::File(file)) => Ok(file),
            Some(Entry::Dir) => Err(io::ErrorKind::IsADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

fn split(path: &Path) -> io::Result<(&Path, &std::ffi::OsStr)> {
    path.parent()
        .zip(path.file_name())
        .ok_or(io::ErrorKind::AlreadyExists.into())
}

impl Disk for SimulatedDisk {
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        self.call(|state, _| {
            if state.get(dir)?.is_some() {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            state.set(dir, Some(Entry::Dir))?;
            state.dirs.insert(dir.to_owned(), Dir::default());
            Ok(())
        })
    }

    fn names(&self, dir: &Path) -> io::Result<Vec<OsString>> {
        self.call(|state, _| Ok(state.dir(dir)?.entries.keys().cloned().collect()))
    }

    fn flush_dir(&self, dir: &Path) -> io::Result<()> {
        self.call(|state, whole| {
            let dir = state.dir(dir)?;
            if whole {
                dir.flushed = dir.entries.clone();
                dir.changes.clear();
            }
            Ok(())
        })
    }

    fn create(&self, file: &Path) -> io::Result<Box<dyn NewFile>> {
        self.call(|state, whole| {
            if state.get(file)?.is_some() {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            let number = state.files.len();
            state.files.push(File::default());
            // A file is either created or not.
            if whole {
                state.set(file, Some(Entry::File(number)))?;
            }
            Ok(Box::new(OpenFile {
                disk: self.clone(),
                number,
            }) as Box<dyn NewFile>)
        })
    }

    fn read(&self, file: &Path, limit: u64) -> io::Result<(Vec<u8>, u64)> {
        self.call(|state, _| {
            let number = state.file(file)?;
            let bytes = &state.files[number].bytes;
            let read = bytes.len().min(usize::try_from(limit).unwrap_or(usize::MAX));
            Ok((bytes[..read].to_vec(), bytes.len() as u64))
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call(|state, _| {
            let number = state.file(from)?;
            state.set(to, Some(Entry::File(number)))?;
            state.set(from, None)
        })
    }

    fn remove(&self, file: &Path) -> io::Result<()> {
        self.call(|state, _| {
            state.file(file)?;
            state.set(file, None)
        })
    }
}

struct OpenFile {
    disk: SimulatedDisk,
    number: usize,
}

impl NewFile for OpenFile {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.disk.call(|state, whole| {
            let written = if whole { bytes } else { &bytes[..bytes.len() / 2] };
            state.files[self.number].bytes.extend(written);
            Ok(())
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.disk.call(|state, whole| {
            let file = &mut state.files[self.number];
            if whole {
                file.flushed = file.bytes.clone();
            }
            Ok(())
        })
    }
}

enum Coin {
    Always(bool),
    Random(u64),
}

impl Coin {
    fn new(unflushed: Unflushed) -> Self {
        match unflushed {
            Unflushed::Lost => Self::Always(false),
            Unflushed::Kept => Self::Always(true),
            // Xorshift stays at zero for ever.
            Unflushed::Random(seed) => Self::Random(seed | 1),
        }
    }

    fn flip(&mut self) -> bool {
        match self {
            Self::Always(side) => *side,
            Self::Random(state) => {
                *state ^= *state << 13;
                *state ^= *state >> 7;
                *state ^= *state << 17;
                *state >> 63 == 1
            }
        }
    }
}
