//! The journal: hands writes to the committer, reads for itself.

use std::{
    path::Path,
    sync::{Arc, PoisonError, RwLock},
};

use async_trait::async_trait;
use bytes::Bytes;
use futures_channel::oneshot;
use journal_core::{
    AppendPart, Appended, AtomicWrite, Bounds, Capabilities, Claim, Deletion, ErrorKind, EventStream,
    Journal, JournalError, JournalInfo, Operation, PersistenceId, ReplayRange, SequenceNr, WriterId,
};

use crate::{
    EmbeddedBuilder, EmbeddedSnapshots,
    committer::{Claimed, Committer, Part, Request, Sweep, Token},
    config::{Config, Durability},
    directory::Directory,
    head::{Head, damaged, store_error},
    keys,
    meta::Opened,
    record::{self, Row},
    replay,
    store::{Flush, Store, Table},
};

/// The rows a deletion removes per commit.
const SWEEP_ROWS: usize = 1_024;

#[doc = include_str!("docs.md")]
#[derive(Debug, Clone)]
pub struct EmbeddedJournal {
    pub(crate) shared: Arc<Shared>,
}

/// What all handles and running replays of an open directory share; the last to go closes it.
#[derive(Debug)]
pub(crate) struct Shared {
    namespace: String,
    pub(crate) config: Config,
    capabilities: Capabilities,
    committer: Committer,
    /// Reads hold the lock while they read, so that closing waits for them; `None` once closed.
    pub(crate) store: Arc<RwLock<Option<Store>>>,
}

impl EmbeddedJournal {
    /// Opens the journal in `path` with the default settings, creating the directory where it is missing.
    ///
    /// # Errors
    /// See [`EmbeddedBuilder::open`].
    pub async fn open(path: impl AsRef<Path>) -> Result<Self, JournalError> {
        Self::builder(path).open().await
    }

    /// Opens the journal in `path` with other settings.
    pub fn builder(path: impl AsRef<Path>) -> EmbeddedBuilder {
        EmbeddedBuilder::new(path.as_ref().to_owned())
    }

    /// The snapshot store in the same directory. It writes through the same committer, so a snapshot costs no flush of
    /// its own while events are written.
    #[must_use]
    pub fn snapshots(&self) -> EmbeddedSnapshots {
        EmbeddedSnapshots::new(Arc::clone(&self.shared))
    }

    pub(crate) fn open_blocking(path: &Path, config: &Config) -> Result<Self, JournalError> {
        let directory = Arc::new(Directory::open(path)?);
        let flush = match config.durability {
            Durability::Disk => Flush::Disk,
            Durability::OsBuffer => Flush::OsBuffer,
        };
        let store = Store::open(Arc::clone(&directory), config.block_cache, flush)
            .map_err(|error| error.opening(path))?;
        let opened = Opened::count(&store).map_err(|error| error.opening(path))?;
        directory.complete()?;
        let committer = Committer::start(store.clone(), opened, flush).map_err(|error| {
            JournalError::not_stored(
                ErrorKind::Unavailable,
                Operation::Open,
                "the journal's thread could not be started; raise the limit of threads",
            )
            .with_source(error)
        })?;
        Ok(Self {
            shared: Arc::new(Shared {
                namespace: path.display().to_string(),
                config: config.clone(),
                capabilities: config.capabilities(),
                committer,
                store: Arc::new(RwLock::new(Some(store))),
            }),
        })
    }

    /// Removes the rows of a deleted or purged life, in commits of bounded size. Nobody sees them any more: a caller
    /// that goes away half-way leaves the rest to the next deletion, or to the claim that follows a purge.
    async fn sweep(&self, id: &PersistenceId, head: Head) -> Result<(), JournalError> {
        let mut removed_to = head.removed_to;
        loop {
            let found = self
                .shared
                .read(Operation::DeleteTo, {
                    let id = id.clone();
                    move |store| expired(store, &id, &head, removed_to)
                })
                .await?;
            removed_to = found.removed_to;
            let done = found.done;
            if !found.rows.is_empty() || head.purged {
                let sweep = Sweep {
                    id: id.clone(),
                    incarnation: head.incarnation,
                    rows: found.rows,
                    removed_to,
                    forget: head.purged && done,
                };
                self.shared
                    .request(Operation::DeleteTo, |done| Request::Sweep(sweep, done))
                    .await?;
            }
            if done {
                return Ok(());
            }
        }
    }
}

/// Rows that may be removed.
struct Expired {
    rows: Vec<Bytes>,
    removed_to: SequenceNr,
    done: bool,
}

/// The next rows of which every event is deleted. The one that the deletion cuts stays whole.
fn expired(
    store: &Store,
    id: &PersistenceId,
    head: &Head,
    removed_to: SequenceNr,
) -> Result<Expired, JournalError> {
    let mut found = Expired {
        rows: Vec::new(),
        removed_to,
        done: false,
    };
    let keys = keys::event(id, removed_to.next())..=keys::event(id, head.deleted_to);
    for row in store.scan(&store.view(), Table::Events, keys) {
        let (key, row) = row.map_err(|error| store_error(Operation::DeleteTo, id, error))?;
        let first = keys::first_of(&key).unwrap_or_default();
        let last = match Row::decode(first, row) {
            Ok(row) => row.last(),
            // Of a purged life nothing stays, readable or not.
            Err(_) if head.purged => first,
            Err(error) => return Err(damaged(Operation::DeleteTo, id, error).with_sequence_nr(first)),
        };
        if last > head.deleted_to {
            break;
        }
        found.rows.push(key);
        found.removed_to = last;
        if found.rows.len() == SWEEP_ROWS {
            return Ok(found);
        }
    }
    found.done = true;
    Ok(found)
}

impl Shared {
    /// Runs a read on a thread for blocking work.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        operation: Operation,
        read: impl FnOnce(&Store) -> Result<T, JournalError> + Send + 'static,
    ) -> Result<T, JournalError> {
        // Not a handle: a read whose caller went away must not be the last that holds the journal open.
        let store = Arc::clone(&self.store);
        blocking::unblock(move || {
            let store = store.read().unwrap_or_else(PoisonError::into_inner);
            read(store.as_ref().ok_or_else(|| closed(operation))?)
        })
        .await
    }

    /// Queues a request and waits for its answer.
    pub(crate) async fn request<T>(
        &self,
        operation: Operation,
        request: impl FnOnce(oneshot::Sender<Result<T, JournalError>>) -> Request,
    ) -> Result<T, JournalError> {
        let (done, answer) = oneshot::channel();
        if !self.committer.submit(request(done)) {
            return Err(closed(operation));
        }
        answer.await.unwrap_or_else(|_| Err(lost(operation)))
    }

    /// Finishes what is queued, waits for running reads and gives the directory free.
    fn close(&self) {
        self.committer.close();
        let store = self.store.write().unwrap_or_else(PoisonError::into_inner).take();
        drop(store);
    }

    fn part(
        &self,
        claim: &mut Claim,
        writes: &Arc<[AtomicWrite]>,
        numbers: Appended,
    ) -> Result<Part, JournalError> {
        let mut bytes = 0;
        for (index, write) in writes.iter().enumerate() {
            let len = record::encoded_len(write);
            if u32::try_from(len).is_err() {
                return Err(JournalError::rejected(
                    Some(index),
                    format!(
                        "{} events are too many for one atomic write; persist fewer at once",
                        write.len()
                    ),
                ));
            }
            bytes += len;
        }
        Ok(Part {
            // Of a claim that another journal made there is none; a new one is never current.
            token: claim.backend_mut::<Token>().cloned().unwrap_or_default(),
            id: claim.id().clone(),
            writer: claim.writer(),
            first: numbers.first,
            writes: Arc::clone(writes),
            bytes,
        })
    }

    /// Begins an append: the checks, and what the committer needs.
    fn begin(
        &self,
        claim: &mut Claim,
        expected: SequenceNr,
        writes: &Arc<[AtomicWrite]>,
    ) -> Result<(Part, Appended), JournalError> {
        let numbers = claim.begin(expected, writes, &self.capabilities)?;
        match self.part(claim, writes, numbers) {
            Ok(part) => Ok((part, numbers)),
            Err(error) => {
                claim.not_stored();
                Err(error.with_id(claim.id()))
            }
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.close();
    }
}

fn closed(operation: Operation) -> JournalError {
    JournalError::not_stored(
        ErrorKind::Closed,
        operation,
        "the journal was shut down; open its directory again",
    )
}

fn lost(operation: Operation) -> JournalError {
    JournalError::unknown(
        ErrorKind::Poisoned,
        operation,
        "the journal's thread ended; open its directory again",
    )
}

#[async_trait]
impl Journal for EmbeddedJournal {
    fn info(&self) -> JournalInfo {
        JournalInfo {
            backend: "embedded",
            namespace: self.shared.namespace.clone(),
        }
    }

    fn capabilities(&self) -> Capabilities {
        self.shared.capabilities
    }

    async fn claim(&self, id: &PersistenceId, writer: WriterId) -> Result<Claim, JournalError> {
        loop {
            let claimed = self
                .shared
                .request(Operation::Claim, |done| Request::Claim(id.clone(), done))
                .await
                .map_err(|error| error.with_id(id))?;
            match claimed {
                Claimed::Claim {
                    epoch,
                    bounds,
                    incarnation,
                    token,
                } => {
                    return Ok(Claim::new(id.clone(), writer, epoch, incarnation, bounds).with_backend(token));
                }
                Claimed::Purged(head) => self.sweep(id, head).await?,
            }
        }
    }

    async fn append(
        &self,
        claim: &mut Claim,
        expected: SequenceNr,
        writes: Arc<[AtomicWrite]>,
    ) -> Result<Appended, JournalError> {
        let (part, numbers) = self.shared.begin(claim, expected, &writes)?;
        let result = self
            .shared
            .request(Operation::Append, |done| Request::Append(part, done))
            .await;
        claim
            .settle(numbers, result)
            .map_err(|error| error.with_id(claim.id()))
    }

    async fn append_group(&self, parts: &mut [AppendPart]) {
        let mut queued = Vec::with_capacity(parts.len());
        let mut group = Vec::with_capacity(parts.len());
        for part in parts {
            match self.shared.begin(&mut part.claim, part.expected, &part.writes) {
                Ok((ours, numbers)) => {
                    group.push(ours);
                    queued.push((part, numbers));
                }
                Err(error) => part.result = Some(Err(error)),
            }
        }
        if group.is_empty() {
            return;
        }
        let (done, answer) = oneshot::channel();
        let submitted = self.shared.committer.submit(Request::AppendGroup(group, done));
        let mut results = if submitted {
            answer.await.ok().map(Vec::into_iter)
        } else {
            None
        };
        for (part, numbers) in queued {
            let result = match &mut results {
                Some(results) => results.next().unwrap_or_else(|| Err(lost(Operation::Append))),
                None if submitted => Err(lost(Operation::Append)),
                None => Err(closed(Operation::Append)),
            };
            let settled = part.claim.settle(numbers, result);
            part.result = Some(settled.map_err(|error| error.with_id(part.claim.id())));
        }
    }

    async fn bounds(&self, id: &PersistenceId) -> Result<Bounds, JournalError> {
        let id = id.clone();
        self.shared
            .read(Operation::Bounds, move |store| {
                let head = Head::load(store, &store.view(), &id, Operation::Bounds)?;
                Ok(head.map(|head| head.bounds()).unwrap_or_default())
            })
            .await
    }

    fn replay(&self, id: &PersistenceId, range: ReplayRange) -> EventStream {
        replay::replay(Arc::clone(&self.shared), id, range)
    }

    async fn delete_to(&self, id: &PersistenceId, deletion: Deletion) -> Result<SequenceNr, JournalError> {
        let head = self
            .shared
            .request(Operation::DeleteTo, |done| {
                Request::Delete(id.clone(), deletion, done)
            })
            .await
            .map_err(|error| error.with_id(id))?;
        let Some(head) = head else {
            return Ok(SequenceNr::ZERO);
        };
        self.sweep(id, head).await?;
        Ok(head.deleted_to)
    }

    async fn purge(&self, id: &PersistenceId) -> Result<(), JournalError> {
        let head = self
            .shared
            .request(Operation::Purge, |done| Request::Purge(id.clone(), done))
            .await
            .map_err(|error| error.with_id(id))?;
        match head {
            Some(head) => self.sweep(id, head).await,
            None => Ok(()),
        }
    }

    async fn flush(&self) -> Result<(), JournalError> {
        match self.shared.config.durability {
            Durability::Disk if self.shared.committer.is_closed() => Err(closed(Operation::Flush)),
            Durability::Disk => Ok(()),
            Durability::OsBuffer => self.shared.request(Operation::Flush, Request::Flush).await,
        }
    }

    async fn shutdown(&self) -> Result<(), JournalError> {
        let shared = Arc::clone(&self.shared);
        blocking::unblock(move || shared.close()).await;
        Ok(())
    }
}
