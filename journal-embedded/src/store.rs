//! Ordered tables with atomic, flushed batches and views of one moment. The only place that knows fjall; a log of our
//! own can take its place behind the same functions.

use std::{
    ffi::OsString, fmt, fs, io, ops::RangeInclusive, panic, path::Path, sync::Arc, thread, time::Duration,
};

use bytes::Bytes;
use fjall::{
    AbstractTree, Database, Keyspace, KeyspaceCreateOptions, LsmError, OwnedWriteBatch, PersistMode,
    Readable,
    config::{BlockSizePolicy, FilterPolicy},
};
use journal_core::{ErrorKind, JournalError, Operation};

use crate::{
    directory::Directory,
    log::{self, FileError},
};

/// The bytes of events in memory before they become a table file. Twice this may be in memory (one being written), plus
/// what the files' index needs.
const EVENTS_IN_MEMORY: u64 = 32 << 20;
const OTHERS_IN_MEMORY: u64 = 8 << 20;
/// The log that a start has to read again at most.
const LOG_BYTES: u64 = 128 << 20;
/// Replays are sequential: larger blocks than the default 4 KiB halve their cost, and index and cache entries are few.
const EVENT_BLOCK: u32 = 16 << 10;
/// Below the numbers (4 and 30) at which fjall's own commit waits, in steps of 100 ms and without an end if its workers
/// have died.
const MAX_SEALED: usize = 3;
const MAX_RUNS: usize = 28;
const WAIT: Duration = Duration::from_millis(1);
/// The engine's folders: one for its own facts and one for each [`Table`].
const FOLDERS: u64 = 5;

/// What a table holds.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Table {
    /// Facts about the directory.
    Meta,
    /// A row per id.
    Heads,
    /// A row per atomic write.
    Events,
    /// Two rows per snapshot.
    Snapshots,
}

/// Whether a commit waits for the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flush {
    /// It does.
    Disk,
    /// The operating system's memory is enough.
    OsBuffer,
}

/// An open store. Clones are handles on the same one; the last closes it and gives the directory free.
#[derive(Clone)]
pub(crate) struct Store(Arc<Inner>);

// Fields drop in this order: the directory is given free after everything in it is closed.
struct Inner {
    meta: Keyspace,
    heads: Keyspace,
    events: Keyspace,
    snapshots: Keyspace,
    database: Database,
    #[cfg(test)]
    faults: std::sync::Mutex<std::collections::VecDeque<Fault>>,
    #[cfg(test)]
    commits: std::sync::atomic::AtomicUsize,
    _directory: Arc<Directory>,
}

/// What happens to a commit.
#[cfg(test)]
#[derive(Debug)]
pub(crate) enum Fault {
    /// It fails before anything is written.
    Lose,
    /// It writes, then fails all the same.
    StoreAndFail,
    /// It waits for the sender of this to go, then does its work.
    Wait(std::sync::mpsc::Receiver<()>),
}

/// Rows to write together.
pub(crate) struct Batch(OwnedWriteBatch, Store);

/// What was committed at one moment. Holding one keeps deleted rows from being reclaimed, nothing in memory.
pub(crate) struct View(fjall::Snapshot);

type Row = (Bytes, Bytes);

impl Store {
    /// Opens or creates the store of a directory, and keeps the directory as long as it is open; `block_cache` in bytes,
    /// `flush` as commits will do.
    pub(crate) fn open(
        directory: Arc<Directory>,
        block_cache: u64,
        flush: Flush,
    ) -> Result<Self, StoreError> {
        let path = directory.store();
        refuse_strangers(&path)?;
        if path.try_exists().map_err(fjall::Error::from)? {
            log::check(&path, FOLDERS, flush)?;
        }
        let open = || -> Result<Self, fjall::Error> {
            let database = Database::builder(&path)
                .cache_size(block_cache)
                .max_journaling_size(LOG_BYTES)
                // Each commit names its own durability.
                .manual_journal_persist(true)
                .open()?;
            let options = || KeyspaceCreateOptions::default().max_memtable_size(OTHERS_IN_MEMORY);
            let events = || {
                options()
                    .max_memtable_size(EVENTS_IN_MEMORY)
                    .data_block_size_policy(BlockSizePolicy::all(EVENT_BLOCK))
                    // Events are only ever found by range.
                    .filter_policy(FilterPolicy::disabled())
            };
            Ok(Self(Arc::new(Inner {
                meta: database.keyspace("meta", options)?,
                heads: database.keyspace("heads", options)?,
                events: database.keyspace("events", events)?,
                snapshots: database.keyspace("snapshots", options)?,
                database,
                #[cfg(test)]
                faults: std::sync::Mutex::default(),
                #[cfg(test)]
                commits: std::sync::atomic::AtomicUsize::new(0),
                _directory: directory,
            })))
        };
        // fjall panics on some damaged directories where it should fail.
        match panic::catch_unwind(panic::AssertUnwindSafe(open)) {
            Ok(opened) => opened.map_err(StoreError::Engine),
            Err(_) => Err(StoreError::Panicked),
        }
    }

    fn keyspace(&self, table: Table) -> &Keyspace {
        match table {
            Table::Meta => &self.0.meta,
            Table::Heads => &self.0.heads,
            Table::Events => &self.0.events,
            Table::Snapshots => &self.0.snapshots,
        }
    }

    /// An empty batch.
    pub(crate) fn batch(&self) -> Batch {
        Batch(self.0.database.batch(), self.clone())
    }

    /// Writes a batch: all of it or nothing, also across a crash. After an error nothing can be written any more.
    pub(crate) fn commit(&self, batch: Batch, flush: Flush) -> Result<(), StoreError> {
        #[cfg(test)]
        let batch = self.suffer(batch)?;
        self.wait_for_room()?;
        let mode = match flush {
            Flush::Disk => PersistMode::SyncData,
            Flush::OsBuffer => PersistMode::Buffer,
        };
        batch.0.durability(Some(mode)).commit()?;
        Ok(())
    }

    /// Waits while the engine is behind with its table files.
    fn wait_for_room(&self) -> Result<(), StoreError> {
        for table in [&self.0.events, &self.0.heads, &self.0.snapshots] {
            while table.sealed_memtable_count() >= MAX_SEALED || table.tree.l0_run_count() >= MAX_RUNS {
                // Fails once a worker has died, so that this wait ends.
                self.0.database.persist(PersistMode::Buffer)?;
                thread::sleep(WAIT);
            }
        }
        Ok(())
    }

    /// Returns when everything committed is on the disk.
    pub(crate) fn flush(&self) -> Result<(), StoreError> {
        Ok(self.0.database.persist(PersistMode::SyncData)?)
    }

    /// Everything committed until now.
    pub(crate) fn view(&self) -> View {
        View(self.0.database.snapshot())
    }

    /// One row.
    pub(crate) fn get(&self, view: &View, table: Table, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        Ok(view.0.get(self.keyspace(table), key)?.map(Bytes::from))
    }

    /// The rows of a range of keys, ascending.
    pub(crate) fn scan(
        &self,
        view: &View,
        table: Table,
        keys: RangeInclusive<Bytes>,
    ) -> impl Iterator<Item = Result<Row, StoreError>> + use<> {
        let rows = if keys.is_empty() {
            None
        } else {
            Some(view.0.range(self.keyspace(table), keys))
        };
        rows.into_iter().flatten().map(into_row)
    }

    /// The last row of a range of keys.
    pub(crate) fn last(
        &self,
        view: &View,
        table: Table,
        keys: RangeInclusive<Bytes>,
    ) -> Result<Option<Row>, StoreError> {
        if keys.is_empty() {
            return Ok(None);
        }
        view.0
            .range(self.keyspace(table), keys)
            .next_back()
            .map(into_row)
            .transpose()
    }
}

#[cfg(test)]
impl Store {
    /// What the next commits suffer, in this order.
    pub(crate) fn inject(&self, faults: impl IntoIterator<Item = Fault>) {
        self.0.faults.lock().unwrap().extend(faults);
    }

    /// How many commits were tried.
    pub(crate) fn commits(&self) -> usize {
        self.0.commits.load(std::sync::atomic::Ordering::SeqCst)
    }

    fn suffer(&self, batch: Batch) -> Result<Batch, StoreError> {
        self.0.commits.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        let fault = self.0.faults.lock().unwrap().pop_front();
        match fault {
            None => Ok(batch),
            Some(Fault::Wait(sender_goes)) => {
                sender_goes.recv().ok();
                Ok(batch)
            }
            Some(Fault::Lose) => Err(StoreError::Injected),
            Some(Fault::StoreAndFail) => {
                batch.0.durability(Some(PersistMode::SyncData)).commit()?;
                Err(StoreError::Injected)
            }
        }
    }
}

/// On a folder among its keyspaces that has no number for a name the engine does not only panic, it aborts the process.
fn refuse_strangers(path: &Path) -> Result<(), StoreError> {
    let entries = match fs::read_dir(path.join("keyspaces")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(fjall::Error::from)?,
    };
    for entry in entries {
        let name = entry.map_err(fjall::Error::from)?.file_name();
        if name.to_str().is_none_or(|name| name.parse::<u64>().is_err()) {
            return Err(StoreError::Stranger(name));
        }
    }
    Ok(())
}

fn into_row(guard: fjall::Guard) -> Result<Row, StoreError> {
    let (key, value) = guard.into_inner()?;
    Ok((key.into(), value.into()))
}

impl Batch {
    /// Writes a row, replacing one of the same key.
    pub(crate) fn put(&mut self, table: Table, key: Bytes, value: Bytes) {
        self.0.insert(self.1.keyspace(table), key, value);
    }

    /// Removes a row if it is there.
    pub(crate) fn remove(&mut self, table: Table, key: Bytes) {
        self.0.remove(self.1.keyspace(table), key);
    }

    /// True if there is nothing to write.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").finish_non_exhaustive()
    }
}

/// Why the store failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    #[error("{0}")]
    Engine(#[from] fjall::Error),
    #[error("the files are damaged in a way that the engine does not expect")]
    Panicked,
    #[error("{0:?} among the engine's folders is none of them")]
    Stranger(OsString),
    #[error(transparent)]
    Files(#[from] FileError),
    #[cfg(test)]
    #[error("injected")]
    Injected,
}

impl StoreError {
    fn io(&self) -> Option<&io::Error> {
        match self {
            Self::Engine(fjall::Error::Io(error) | fjall::Error::Storage(LsmError::Io(error)))
            | Self::Files(FileError::Io(error)) => Some(error),
            _ => None,
        }
    }

    /// The error of a read that failed with this.
    pub(crate) fn reading(self, operation: Operation) -> JournalError {
        let (kind, message) = if self.io().is_some() {
            let message = "the disk could not be read; check the file system, then try again";
            (ErrorKind::Unavailable, message)
        } else {
            let message = "stored data is damaged; restore the journal's directory from a backup";
            (ErrorKind::Corrupt, message)
        };
        JournalError::not_stored(kind, operation, message).with_source(self)
    }

    /// The error of an opening that failed with this.
    pub(crate) fn opening(self, path: &Path) -> JournalError {
        let path = path.display();
        // These are what a file that is cut short or gone looks like.
        let io = self.io().filter(|error| {
            !matches!(
                error.kind(),
                io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData | io::ErrorKind::NotFound
            )
        });
        let (kind, message) = match (&self, io) {
            (_, Some(error)) => (
                ErrorKind::Config,
                format!("{path} cannot be opened: {error}; check its permissions and the free space"),
            ),
            (Self::Engine(fjall::Error::Locked), None) => (
                ErrorKind::Config,
                format!("{path} is in use; close the other program that has it open"),
            ),
            (Self::Engine(fjall::Error::InvalidVersion(_)), None) => (
                ErrorKind::Config,
                format!("{path} is of another version of the storage engine; use the build that wrote it"),
            ),
            (cause, None) => (
                ErrorKind::Corrupt,
                format!("{path} is damaged ({cause}); nothing was changed, restore it from a backup"),
            ),
        };
        JournalError::not_stored(kind, Operation::Open, message).with_source(self)
    }
}
