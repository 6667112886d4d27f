//! The reference backend: as strict as any, and gone with the process.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use async_trait::async_trait;
use futures_util::future::ready;

use crate::{
    AppendPart, Appended, AtomicWrite, Bounds, Capabilities, Claim, Deletion, Durability, Epoch, ErrorKind,
    EventStream, Fencing, GapPolicy, Incarnation, Journal, JournalError, JournalInfo, Operation,
    PersistenceId, Record, ReplayRange, SequenceNr, SyncJournal, WriterId,
};

/// A journal in memory, for tests and for actors whose state may die with the process.
///
/// A clone is a second opener of the same data, as another process would be: claims through one end claims through the
/// other, but each is shut down on its own. [`reopen`](MemoryJournal::reopen) acts like a restart.
///
/// It is a [`SyncJournal`] too, for code that cannot wait asynchronously; none of its calls blocks for long.
pub struct MemoryJournal {
    store: Arc<Mutex<Store>>,
    namespace: u64,
    largest_event: usize,
    largest_append: usize,
    closed: AtomicBool,
}

impl MemoryJournal {
    /// The default of the largest event, in bytes.
    pub const LARGEST_EVENT: usize = 8 << 20;
    /// The default of the largest append, in bytes.
    pub const LARGEST_APPEND: usize = 16 << 20;

    /// An empty journal.
    #[must_use]
    pub fn new() -> Self {
        static NAMESPACES: AtomicU64 = AtomicU64::new(1);
        Self {
            store: Arc::default(),
            namespace: NAMESPACES.fetch_add(1, Ordering::Relaxed),
            largest_event: Self::LARGEST_EVENT,
            largest_append: Self::LARGEST_APPEND,
            closed: AtomicBool::new(false),
        }
    }

    /// Sets the largest event and the largest append that it takes, in bytes; what is stored already stays readable.
    #[must_use]
    pub fn with_limits(mut self, largest_event: usize, largest_append: usize) -> Self {
        self.largest_event = largest_event;
        self.largest_append = largest_append;
        self
    }

    /// The same data after a restart of everything that used it: all claims are ended, events stay.
    #[must_use]
    pub fn reopen(&self) -> Self {
        self.lock().end_claims();
        self.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Store> {
        lock(&self.store)
    }

    /// The store, if this handle was not shut down. The check is made under the lock, so that nothing of this handle
    /// happens after `shutdown` returned.
    fn open(&self, operation: Operation) -> Result<MutexGuard<'_, Store>, JournalError> {
        let store = self.lock();
        self.check_open(operation)?;
        Ok(store)
    }

    fn open_for(
        &self,
        operation: Operation,
        id: &PersistenceId,
    ) -> Result<MutexGuard<'_, Store>, JournalError> {
        self.open(operation).map_err(|closed| closed.with_id(id))
    }

    fn check_open(&self, operation: Operation) -> Result<(), JournalError> {
        if self.closed.load(Ordering::Relaxed) {
            let message = "the journal was shut down; open another one";
            return Err(JournalError::not_stored(ErrorKind::Closed, operation, message));
        }
        Ok(())
    }

    fn append_locked(
        &self,
        store: &mut Store,
        claim: &mut Claim,
        expected: SequenceNr,
        writes: &[AtomicWrite],
    ) -> Result<Appended, JournalError> {
        self.check_open(Operation::Append)
            .map_err(|closed| closed.with_id(claim.id()))?;
        let appended = claim.begin(expected, writes, &Journal::capabilities(self))?;
        let result = store.append(claim, appended, writes);
        claim.settle(appended, result)
    }
}

/// No user code runs under the lock, and no step leaves the maps half changed: a poisoned lock is as good as any.
fn lock(store: &Mutex<Store>) -> MutexGuard<'_, Store> {
    store.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Default for MemoryJournal {
    fn default() -> Self {
        Self::new()
    }
}

impl Clone for MemoryJournal {
    fn clone(&self) -> Self {
        Self {
            store: self.store.clone(),
            namespace: self.namespace,
            largest_event: self.largest_event,
            largest_append: self.largest_append,
            closed: AtomicBool::new(false),
        }
    }
}

impl fmt::Debug for MemoryJournal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryJournal")
            .field("namespace", &self.namespace)
            .field("closed", &self.closed)
            .finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Store {
    lives: HashMap<PersistenceId, Life>,
    /// Counted across all ids and never reset, so that a claim from before a purge equals none after it.
    last_epoch: u64,
    last_commit: u64,
}

/// An id from its first claim or event to its purge.
struct Life {
    incarnation: Incarnation,
    /// The one claim that may append.
    claimed: Option<Epoch>,
    /// Without an incarnation as long as nothing is stored: a claim alone is not seen by readers.
    bounds: Bounds,
    /// The events from `deleted_to + 1` to `highest`.
    events: VecDeque<Record>,
}

impl Store {
    fn claim(&mut self, id: &PersistenceId, writer: WriterId) -> Claim {
        self.last_epoch += 1;
        let epoch = Epoch::from_u64(self.last_epoch);
        let life = self.lives.entry(id.clone()).or_insert_with(|| Life {
            incarnation: Incarnation::random(),
            claimed: None,
            bounds: Bounds::default(),
            events: VecDeque::new(),
        });
        life.claimed = Some(epoch);
        Claim::new(id.clone(), writer, epoch, life.incarnation, life.bounds)
    }

    fn end_claims(&mut self) {
        self.lives.retain(|_, life| {
            life.claimed = None;
            life.bounds.incarnation.is_some()
        });
    }

    fn append(
        &mut self,
        claim: &Claim,
        appended: Appended,
        writes: &[AtomicWrite],
    ) -> Result<(), JournalError> {
        let life = self
            .lives
            .get_mut(claim.id())
            // The incarnation too, because the epochs of another journal look alike.
            .filter(|life| life.claimed == Some(claim.epoch()) && life.incarnation == claim.incarnation())
            .ok_or_else(|| {
                JournalError::not_stored(
                    ErrorKind::Fenced,
                    Operation::Append,
                    "a later claim or a purge ended this claim; claim again if this writer is still the right one",
                )
                .with_id(claim.id())
            })?;
        let mut sequence_nr = appended.first;
        for write in writes {
            self.last_commit += 1;
            for event in &write.events {
                life.events.push_back(Record {
                    sequence_nr,
                    writer: claim.writer(),
                    epoch: claim.epoch(),
                    commit_order: Some(self.last_commit),
                    event: event.clone(),
                });
                sequence_nr = sequence_nr.next();
            }
        }
        life.bounds.highest = appended.last;
        life.bounds.incarnation = Some(life.incarnation);
        Ok(())
    }

    fn bounds(&self, id: &PersistenceId) -> Bounds {
        self.lives.get(id).map(|life| life.bounds).unwrap_or_default()
    }

    fn delete_to(&mut self, id: &PersistenceId, deletion: Deletion) -> Result<SequenceNr, JournalError> {
        let Some(life) = self.lives.get_mut(id) else {
            return Ok(SequenceNr::ZERO);
        };
        match life.bounds.incarnation {
            None => return Ok(SequenceNr::ZERO),
            Some(lives) if lives != deletion.incarnation => {
                return Err(JournalError::not_stored(
                    ErrorKind::WrongIncarnation,
                    Operation::DeleteTo,
                    "the id was purged since the deletion was decided; nothing was deleted, drop the deletion",
                )
                .with_id(id));
            }
            Some(_) => {}
        }
        let to = deletion.to.min(life.bounds.highest);
        while life.events.front().is_some_and(|first| first.sequence_nr <= to) {
            life.events.pop_front();
        }
        life.bounds.deleted_to = life.bounds.deleted_to.max(to);
        if deletion.fresh_start {
            life.bounds.fresh_start = life.bounds.fresh_start.max(to);
        }
        Ok(life.bounds.deleted_to)
    }

    /// The events `first` to `last`, as far as they exist and fit a chunk, at least one.
    fn read_chunk(&self, id: &PersistenceId, first: SequenceNr, last: SequenceNr) -> Vec<Record> {
        let Some(life) = self.lives.get(id) else {
            return Vec::new();
        };
        let behind = first.get().saturating_sub(life.bounds.deleted_to.next().get());
        let mut bytes = 0_usize;
        life.events
            .iter()
            .skip(usize::try_from(behind).unwrap_or(usize::MAX))
            .take(CHUNK_RECORDS)
            .take_while(|record| {
                let fits = record.sequence_nr <= last && bytes < CHUNK_BYTES;
                bytes = bytes.saturating_add(record.event.size());
                fits
            })
            .cloned()
            .collect()
    }
}

/// How long a replay holds the lock at a time: at most this many records, and no further one once this many bytes are
/// reached.
const CHUNK_RECORDS: usize = 256;
const CHUNK_BYTES: usize = 256 << 10;

impl SyncJournal for MemoryJournal {
    fn info(&self) -> JournalInfo {
        JournalInfo {
            backend: "memory",
            namespace: self.namespace.to_string(),
        }
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            group_commit: false,
            fencing: Fencing::Claims,
            durability: Durability::Memory,
            largest_event: self.largest_event,
            largest_append: self.largest_append,
            gaps: GapPolicy::Refuse,
            tags: true,
            cross_process: false,
        }
    }

    fn claim(&self, id: &PersistenceId, writer: WriterId) -> Result<Claim, JournalError> {
        Ok(self.open_for(Operation::Claim, id)?.claim(id, writer))
    }

    fn append(
        &self,
        claim: &mut Claim,
        appended: Appended,
        writes: &[AtomicWrite],
    ) -> Result<(), JournalError> {
        self.open_for(Operation::Append, claim.id())?
            .append(claim, appended, writes)
    }

    fn bounds(&self, id: &PersistenceId) -> Result<Bounds, JournalError> {
        Ok(self.open_for(Operation::Bounds, id)?.bounds(id))
    }

    fn read_chunk(
        &self,
        id: &PersistenceId,
        first: SequenceNr,
        last: SequenceNr,
    ) -> Result<Vec<Record>, JournalError> {
        Ok(self.open_for(Operation::Replay, id)?.read_chunk(id, first, last))
    }

    fn delete_to(&self, id: &PersistenceId, deletion: Deletion) -> Result<SequenceNr, JournalError> {
        self.open_for(Operation::DeleteTo, id)?.delete_to(id, deletion)
    }

    fn purge(&self, id: &PersistenceId) -> Result<(), JournalError> {
        self.open_for(Operation::Purge, id)?.lives.remove(id);
        Ok(())
    }

    fn flush(&self) -> Result<(), JournalError> {
        self.open(Operation::Flush).map(drop)
    }

    fn shutdown(&self) -> Result<(), JournalError> {
        let _store = self.lock();
        self.closed.store(true, Ordering::Relaxed);
        Ok(())
    }
}

#[async_trait]
impl Journal for MemoryJournal {
    fn info(&self) -> JournalInfo {
        SyncJournal::info(self)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            group_commit: true,
            ..SyncJournal::capabilities(self)
        }
    }

    async fn claim(&self, id: &PersistenceId, writer: WriterId) -> Result<Claim, JournalError> {
        SyncJournal::claim(self, id, writer)
    }

    async fn append(
        &self,
        claim: &mut Claim,
        expected: SequenceNr,
        writes: Arc<[AtomicWrite]>,
    ) -> Result<Appended, JournalError> {
        self.append_locked(&mut self.lock(), claim, expected, &writes)
    }

    async fn append_group(&self, parts: &mut [AppendPart]) {
        let mut store = self.lock();
        for part in parts {
            let result = self.append_locked(&mut store, &mut part.claim, part.expected, &part.writes);
            part.result = Some(result);
        }
    }

    async fn bounds(&self, id: &PersistenceId) -> Result<Bounds, JournalError> {
        SyncJournal::bounds(self, id)
    }

    fn replay(&self, id: &PersistenceId, range: ReplayRange) -> EventStream {
        let started = match self.open_for(Operation::Replay, id) {
            Ok(store) => store.bounds(id),
            Err(closed) => return EventStream::failed(closed),
        };
        let Some((first, last)) = range.within(&started) else {
            return EventStream::empty();
        };
        let (store, replayed) = (self.store.clone(), id.clone());
        EventStream::in_chunks(id.clone(), first, last, move |next| {
            let store = lock(&store);
            let chunk = started
                .check_replay(&store.bounds(&replayed), &replayed, next)
                .map(|()| store.read_chunk(&replayed, next, last));
            ready(chunk)
        })
    }

    async fn delete_to(&self, id: &PersistenceId, deletion: Deletion) -> Result<SequenceNr, JournalError> {
        SyncJournal::delete_to(self, id, deletion)
    }

    async fn purge(&self, id: &PersistenceId) -> Result<(), JournalError> {
        SyncJournal::purge(self, id)
    }

    async fn flush(&self) -> Result<(), JournalError> {
        SyncJournal::flush(self)
    }

    async fn shutdown(&self) -> Result<(), JournalError> {
        SyncJournal::shutdown(self)
    }
}
