//! The one writer. Callers of all ids put their requests into one queue; a thread takes everything that has gathered,
//! writes it as one batch with one flush, then answers all of it, while the next group gathers. What it knows of an id
//! is what its batches made of it, so an append reads nothing.

use std::{
    collections::{HashMap, hash_map::Entry},
    mem,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
};

use bytes::{Bytes, BytesMut};
use futures_channel::oneshot::Sender;
use journal_core::{
    AtomicWrite, Bounds, Deletion, Epoch, ErrorKind, Incarnation, JournalError, Operation, PersistenceId,
    SequenceNr, WriterId,
};

use crate::{
    head::Head,
    keys,
    meta::Opened,
    record::{self, EPOCH, Stamp},
    store::{Batch, Flush, Store, StoreError, Table},
};

/// A group is written once it has this many bytes, whatever else waits.
const GROUP_BYTES: usize = 8 << 20;
/// Rows are encoded into blocks of this size and share them: an allocation per block, not per row.
const ARENA: usize = 64 << 10;
/// Below this number of ids in memory, ids without a claim are not looked for.
const FEWEST_LIVES: usize = 1_024;

/// What makes a claim the current one of its id: the claim and the committer hold the same.
pub(crate) type Token = Arc<()>;

/// An append of one id.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) id: PersistenceId,
    pub(crate) token: Token,
    pub(crate) writer: WriterId,
    /// Follows the number the claim was at.
    pub(crate) first: SequenceNr,
    pub(crate) writes: Arc<[AtomicWrite]>,
    /// The encoded length of all rows.
    pub(crate) bytes: usize,
}

/// The answer to a claim.
#[derive(Debug)]
pub(crate) enum Claimed {
    Claim {
        epoch: Epoch,
        bounds: Bounds,
        incarnation: Incarnation,
        token: Token,
    },
    /// The rows of the id's former life must be removed first.
    Purged(Head),
}

/// Rows of one life to remove.
#[derive(Debug)]
pub(crate) struct Sweep {
    pub(crate) id: PersistenceId,
    pub(crate) incarnation: Incarnation,
    pub(crate) rows: Vec<Bytes>,
    pub(crate) removed_to: SequenceNr,
    /// No row of a purged life is left: its head goes too.
    pub(crate) forget: bool,
}

/// A change of a snapshot's row.
#[derive(Debug)]
pub(crate) enum Change {
    Put(Bytes, Bytes),
    Remove(Bytes),
}

type Done<T> = Sender<Result<T, JournalError>>;

/// What the committer does.
#[derive(Debug)]
pub(crate) enum Request {
    Append(Part, Done<()>),
    AppendGroup(Vec<Part>, Sender<Vec<Result<(), JournalError>>>),
    Claim(PersistenceId, Done<Claimed>),
    Delete(PersistenceId, Deletion, Done<Option<Head>>),
    Purge(PersistenceId, Done<Option<Head>>),
    Sweep(Sweep, Done<()>),
    Snapshots(Vec<Change>, Done<()>),
    Flush(Done<()>),
}

/// A result that waits for the flush.
enum Answer {
    One(Operation, Result<(), JournalError>, Done<()>),
    Many(
        Vec<Result<(), JournalError>>,
        Sender<Vec<Result<(), JournalError>>>,
    ),
    Claimed(Result<Claimed, JournalError>, Done<Claimed>),
    Head(Operation, Result<Option<Head>, JournalError>, Done<Option<Head>>),
}

impl Answer {
    /// Gives the result, or the error that came between. A caller that went away is no concern of ours.
    fn release(self, failed: Option<&Arc<StoreError>>) {
        fn after<T>(
            failed: Option<&Arc<StoreError>>,
            operation: Operation,
            result: Result<T, JournalError>,
        ) -> Result<T, JournalError> {
            match failed {
                Some(cause) if result.is_ok() => Err(JournalError::unknown(
                    ErrorKind::Poisoned,
                    operation,
                    "the group of writes could not be flushed; nothing more is written until the journal is reopened",
                )
                .with_source(Arc::clone(cause))),
                _ => result,
            }
        }
        match self {
            Self::One(operation, result, done) => drop(done.send(after(failed, operation, result))),
            Self::Many(results, done) => drop(
                done.send(
                    results
                        .into_iter()
                        .map(|result| after(failed, Operation::Append, result))
                        .collect(),
                ),
            ),
            Self::Claimed(result, done) => drop(done.send(after(failed, Operation::Claim, result))),
            Self::Head(operation, result, done) => drop(done.send(after(failed, operation, result))),
        }
    }
}

/// Hands requests over to the committer's thread.
#[derive(Debug)]
pub(crate) struct Committer {
    queue: Arc<Queue>,
    thread: Mutex<Option<thread::JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    arrived: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    requests: Vec<Request>,
    /// The committer sleeps until it is woken.
    idle: bool,
    closed: bool,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self) {
        self.lock().closed = true;
        self.arrived.notify_one();
    }

    /// Takes everything that has gathered, waiting for the first; `false` once closed and empty.
    fn next_group(&self, group: &mut Vec<Request>) -> bool {
        let mut waiting = self.lock();
        while waiting.requests.is_empty() {
            if waiting.closed {
                return false;
            }
            waiting.idle = true;
            waiting = self.arrived.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
        waiting.idle = false;
        mem::swap(&mut waiting.requests, group);
        true
    }
}

impl Committer {
    /// Starts the thread.
    pub(crate) fn start(store: Store, opened: Opened, flush: Flush) -> std::io::Result<Self> {
        let queue = Arc::new(Queue::default());
        let worker = Worker {
            arena: BytesMut::new(),
            staged: 0,
            batch: store.batch(),
            answers: Vec::new(),
            lives: Lives::default(),
            opened,
            flush,
            failed: None,
            store,
        };
        let thread = thread::Builder::new().name("journal-committer".into()).spawn({
            let queue = Arc::clone(&queue);
            move || {
                // However the thread ends, nobody waits for it in vain: requests that come later are refused, and the
                // answers of those that are dropped resolve.
                let _guard = CloseOnDrop(&queue);
                worker.run(&queue);
            }
        })?;
        Ok(Self {
            queue,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Queues a request; `false` if the committer is closed.
    pub(crate) fn submit(&self, request: Request) -> bool {
        let mut waiting = self.queue.lock();
        if waiting.closed {
            return false;
        }
        // One wakes it for all that arrive until it is up.
        let wake = mem::take(&mut waiting.idle);
        waiting.requests.push(request);
        drop(waiting);
        if wake {
            self.queue.arrived.notify_one();
        }
        true
    }

    /// True once it takes no more requests.
    pub(crate) fn is_closed(&self) -> bool {
        self.queue.lock().closed
    }

    /// Lets the committer finish what is queued, and waits until it has.
    pub(crate) fn close(&self) {
        self.queue.close();
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(thread) = thread.take() {
            // A waker may drop the last handle on the committer's own thread, which cannot wait for itself; it ends
            // after this group.
            if thread.thread().id() != thread::current().id() && thread.join().is_err() {
                tracing::error!("the committer of the embedded journal panicked");
            }
        }
    }
}

struct CloseOnDrop<'a>(&'a Queue);

impl Drop for CloseOnDrop<'_> {
    fn drop(&mut self) {
        let mut waiting = self.0.lock();
        waiting.closed = true;
        let unanswered = mem::take(&mut waiting.requests);
        drop(waiting);
        drop(unanswered);
    }
}

/// What the committer knows of an id.
#[derive(Debug)]
struct Life {
    head: Head,
    /// False while only claimed: nothing of it is stored, nobody sees it.
    stored: bool,
    token: Token,
    epoch: [u8; EPOCH],
}

/// The ids that were touched lately: about 200 bytes and the id for each, kept as long as a claim of it lives. Ids
/// without a claim are dropped whenever the table has doubled.
#[derive(Debug, Default)]
struct Lives {
    by_id: HashMap<PersistenceId, Life>,
    evict_at: usize,
}

impl Lives {
    /// The life of `id`, read from the store if it is not in memory: two point reads, on this thread, so that nothing
    /// comes between them and what is queued. Also a life that is read for a deletion goes into
    /// memory: what a batch changes is not in the store until it is committed.
    fn load(
        &mut self,
        store: &Store,
        id: &PersistenceId,
        operation: Operation,
    ) -> Result<&mut Life, JournalError> {
        match self.by_id.entry(id.clone()) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(unknown) => {
                let stored = Head::load(store, &store.view(), id, operation)?;
                Ok(unknown.insert(Life {
                    head: stored.unwrap_or_else(|| Head::new(Incarnation::random())),
                    stored: stored.is_some(),
                    token: Token::default(),
                    epoch: [0; EPOCH],
                }))
            }
        }
    }

    fn evict(&mut self) {
        if self.by_id.len() >= self.evict_at.max(FEWEST_LIVES) {
            self.by_id.retain(|_, life| Arc::strong_count(&life.token) > 1);
            self.evict_at = 2 * self.by_id.len();
        }
    }
}

struct Worker {
    store: Store,
    opened: Opened,
    flush: Flush,
    lives: Lives,
    arena: BytesMut,
    batch: Batch,
    /// The bytes in `batch`.
    staged: usize,
    answers: Vec<Answer>,
    failed: Option<Arc<StoreError>>,
}

impl Worker {
    fn run(mut self, queue: &Queue) {
        let mut group = Vec::new();
        while queue.next_group(&mut group) {
            for request in group.drain(..) {
                self.stage(request);
                if self.staged >= GROUP_BYTES {
                    self.commit();
                }
            }
            self.commit();
            self.lives.evict();
        }
    }

    fn stage(&mut self, request: Request) {
        let answer = match request {
            Request::Append(part, done) => Answer::One(Operation::Append, self.append(&part), done),
            Request::AppendGroup(parts, done) => {
                Answer::Many(parts.iter().map(|part| self.append(part)).collect(), done)
            }
            Request::Claim(id, done) => Answer::Claimed(self.claim(&id), done),
            Request::Delete(id, deletion, done) => {
                Answer::Head(Operation::DeleteTo, self.delete(&id, &deletion), done)
            }
            Request::Purge(id, done) => Answer::Head(Operation::Purge, self.purge(&id), done),
            Request::Sweep(sweep, done) => Answer::One(Operation::DeleteTo, self.sweep(sweep), done),
            Request::Snapshots(changes, done) => {
                Answer::One(Operation::Append, self.snapshots(changes), done)
            }
            Request::Flush(done) => {
                // Everything before it in the queue is part of the barrier.
                self.commit();
                Answer::One(Operation::Flush, self.barrier(), done)
            }
        };
        self.answers.push(answer);
    }

    /// Writes and flushes what was staged, then answers everyone.
    fn commit(&mut self) {
        let batch = mem::replace(&mut self.batch, self.store.batch());
        self.staged = 0;
        let mut failed = None;
        if !batch.is_empty()
            && let Err(error) = self.store.commit(batch, self.flush)
        {
            tracing::error!(%error, "the embedded journal writes nothing more until it is reopened");
            let error = Arc::new(error);
            self.failed = Some(Arc::clone(&error));
            failed = Some(error);
        }
        for answer in self.answers.drain(..) {
            answer.release(failed.as_ref());
        }
    }

    fn barrier(&mut self) -> Result<(), JournalError> {
        self.check(Operation::Flush)?;
        self.store.flush().map_err(|error| {
            let error = Arc::new(error);
            self.failed = Some(Arc::clone(&error));
            JournalError::unknown(
                ErrorKind::Poisoned,
                Operation::Flush,
                "the flush failed; nothing more is written until the journal is reopened",
            )
            .with_source(error)
        })
    }

    /// Refuses to write after a failure.
    fn check(&self, operation: Operation) -> Result<(), JournalError> {
        match &self.failed {
            None => Ok(()),
            Some(cause) => Err(JournalError::not_stored(
                ErrorKind::Poisoned,
                operation,
                "an earlier write failed; reopen the journal once the disk is in order",
            )
            .with_source(Arc::clone(cause))),
        }
    }

    fn append(&mut self, part: &Part) -> Result<(), JournalError> {
        self.check(Operation::Append)?;
        let life = self
            .lives
            .by_id
            .get_mut(&part.id)
            .filter(|life| Arc::ptr_eq(&life.token, &part.token))
            .ok_or_else(|| {
                JournalError::not_stored(
                    ErrorKind::Fenced,
                    Operation::Append,
                    "a later claim or a purge has ended this claim; stop this writer",
                )
            })?;
        debug_assert_eq!(part.first, life.head.highest.next());
        let key_len = keys::event_len(&part.id);
        let needed = part.bytes + key_len * part.writes.len();
        if self.arena.capacity() < needed {
            self.arena = BytesMut::with_capacity(needed.max(ARENA));
        }
        let mut first = part.first;
        for write in part.writes.iter() {
            // `Claim::begin` has checked that the numbers do not end before.
            let last = SequenceNr::new(first.previous().get() + count(write));
            let stamp = Stamp {
                writer: part.writer,
                epoch: life.epoch,
                commit_order: self.opened.next_commit_order(&mut self.batch),
            };
            keys::put_event(&mut self.arena, &part.id, first);
            let key = self.arena.split().freeze();
            record::encode(&mut self.arena, write, &stamp, last);
            let row = self.arena.split().freeze();
            self.batch.put(Table::Events, key, row);
            life.head.highest = last;
            first = last.next();
        }
        // After the events: who sees the id, sees them.
        if !life.stored {
            life.stored = true;
            self.batch
                .put(Table::Heads, keys::head(&part.id), life.head.encode());
        }
        self.staged += part.bytes;
        Ok(())
    }

    fn claim(&mut self, id: &PersistenceId) -> Result<Claimed, JournalError> {
        self.check(Operation::Claim)?;
        let life = self.lives.load(&self.store, id, Operation::Claim)?;
        if life.head.purged {
            return Ok(Claimed::Purged(life.head));
        }
        life.token = Token::default();
        life.epoch = self.opened.next_epoch();
        Ok(Claimed::Claim {
            epoch: Epoch::new(&life.epoch).unwrap_or_else(|| Epoch::from_u64(0)),
            bounds: if life.stored {
                life.head.bounds()
            } else {
                Bounds::default()
            },
            incarnation: life.head.incarnation,
            token: Arc::clone(&life.token),
        })
    }

    /// Deletes logically; the rows go by [`Request::Sweep`]. `None` if there is nothing of this id.
    fn delete(&mut self, id: &PersistenceId, deletion: &Deletion) -> Result<Option<Head>, JournalError> {
        self.check(Operation::DeleteTo)?;
        let life = self.lives.load(&self.store, id, Operation::DeleteTo)?;
        if !life.stored || life.head.purged {
            return Ok(None);
        }
        if life.head.incarnation != deletion.incarnation {
            return Err(JournalError::not_stored(
                ErrorKind::WrongIncarnation,
                Operation::DeleteTo,
                "the id was purged since the deletion was decided; recover and decide again",
            ));
        }
        let before = life.head;
        let to = deletion.to.min(life.head.highest);
        life.head.deleted_to = life.head.deleted_to.max(to);
        if deletion.fresh_start {
            life.head.fresh_start = life.head.fresh_start.max(to);
        }
        if life.head != before {
            self.batch.put(Table::Heads, keys::head(id), life.head.encode());
        }
        Ok(Some(life.head))
    }

    /// Ends all claims and hides everything; the rows and the head go by [`Request::Sweep`]. `None` if nothing of this
    /// id is stored.
    fn purge(&mut self, id: &PersistenceId) -> Result<Option<Head>, JournalError> {
        self.check(Operation::Purge)?;
        let life = self.lives.load(&self.store, id, Operation::Purge)?;
        life.token = Token::default();
        if !life.stored {
            life.head = Head::new(Incarnation::random());
            return Ok(None);
        }
        if !life.head.purged {
            life.head.purged = true;
            life.head.deleted_to = life.head.highest;
            self.batch.put(Table::Heads, keys::head(id), life.head.encode());
        }
        Ok(Some(life.head))
    }

    fn sweep(&mut self, sweep: Sweep) -> Result<(), JournalError> {
        self.check(Operation::DeleteTo)?;
        let life = self.lives.load(&self.store, &sweep.id, Operation::DeleteTo)?;
        // Another sweep may have been faster, and the id be in its next life already.
        if !life.stored || life.head.incarnation != sweep.incarnation {
            return Ok(());
        }
        for row in sweep.rows {
            self.staged += row.len();
            self.batch.remove(Table::Events, row);
        }
        life.head.removed_to = life.head.removed_to.max(sweep.removed_to);
        if sweep.forget && life.head.purged {
            life.head = Head::new(Incarnation::random());
            life.stored = false;
            self.batch.remove(Table::Heads, keys::head(&sweep.id));
        } else {
            self.batch
                .put(Table::Heads, keys::head(&sweep.id), life.head.encode());
        }
        Ok(())
    }

    fn snapshots(&mut self, changes: Vec<Change>) -> Result<(), JournalError> {
        self.check(Operation::Append)?;
        for change in changes {
            match change {
                Change::Put(key, row) => {
                    self.staged += row.len();
                    self.batch.put(Table::Snapshots, key, row);
                }
                Change::Remove(key) => self.batch.remove(Table::Snapshots, key),
            }
        }
        Ok(())
    }
}

fn count(write: &AtomicWrite) -> u64 {
    u64::try_from(write.len()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::Directory;

    #[test]
    fn ids_without_a_living_claim_leave_the_memory_and_others_stay() {
        let folder = tempfile::tempdir().unwrap();
        let directory = Arc::new(Directory::open(folder.path()).unwrap());
        let store = Store::open(directory, 1 << 20, Flush::Disk).unwrap();
        let mut lives = Lives::default();
        let mut claims = Vec::new();
        for number in 0..20_000 {
            let id = PersistenceId::new(number.to_string()).unwrap();
            let life = lives.load(&store, &id, Operation::Claim).unwrap();
            if number % 10 == 0 {
                claims.push((id, Arc::clone(&life.token)));
            }
            lives.evict();
            assert!(lives.by_id.len() <= 2 * claims.len() + 2 * FEWEST_LIVES);
        }
        for (id, token) in claims {
            assert!(Arc::ptr_eq(&lives.by_id[&id].token, &token));
        }
    }
}
