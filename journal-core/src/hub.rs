//! Owns every write of one journal. Where the journal commits groups, it drains what many actors gathered into one
//! append; otherwise it runs one append per id, side by side, so that a slow id delays no other.

use std::{
    collections::VecDeque,
    fmt,
    panic::AssertUnwindSafe,
    pin::pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_core::Stream;
use futures_util::{
    FutureExt, StreamExt,
    future::{Either, pending, select},
    stream::FuturesUnordered,
};
use tokio::{sync::Notify, time::Instant};

use crate::{AppendPart, Claim, ErrorKind, Journal, JournalError, Operation, cell::Cell, ledger::Append};

/// The bytes of events in one group.
const GROUP_BYTES: usize = 8 << 20;
/// Groups in flight. A journal that commits groups gathers what is handed over while it flushes, so more of them do not
/// make its flushes smaller, and fewer let it wait for the hub; bounded, so that memory is.
const GROUPS_IN_FLIGHT: usize = 4;

pub(crate) struct Hub {
    journal: Arc<dyn Journal>,
    queue: Mutex<VecDeque<Arc<Cell>>>,
    changed: Notify,
    closed: AtomicBool,
    /// Its runtime was shut down: nothing is appended any more.
    gone: AtomicBool,
}

/// An append to repeat after a wait.
type Repeat = (Arc<Cell>, Duration);

impl Hub {
    pub(crate) fn new(journal: Arc<dyn Journal>) -> Arc<Self> {
        Arc::new(Self {
            journal,
            queue: Mutex::default(),
            changed: Notify::new(),
            closed: AtomicBool::new(false),
            gone: AtomicBool::new(false),
        })
    }

    /// A cell has something to append.
    pub(crate) fn schedule(&self, cell: Arc<Cell>) {
        let was_empty = {
            let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
            queue.push_back(cell);
            queue.len() == 1
        };
        if was_empty {
            self.changed.notify_one();
        }
        if self.gone.load(Ordering::Acquire) {
            self.lose_queue();
        }
    }

    fn lose_queue(&self) {
        let queue = std::mem::take(&mut *self.queue.lock().unwrap_or_else(PoisonError::into_inner));
        queue.iter().for_each(Cell::hub_is_gone);
    }

    /// Ends `run` once nothing is queued or in flight.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.changed.notify_one();
    }

    pub(crate) fn run(self: Arc<Self>) -> impl Future<Output = ()> + Send {
        // Not in the future: a runtime that is shut down already drops it before its first poll.
        let gone = Gone(self.clone());
        async move {
            self.append_all().await;
            drop(gone);
        }
    }

    async fn append_all(self: Arc<Self>) {
        let (most_groups, bytes) = if self.journal.capabilities().group_commit {
            (GROUPS_IN_FLIGHT, GROUP_BYTES)
        } else {
            (usize::MAX, 0)
        };
        let mut appends = FuturesUnordered::new();
        let mut repeats = FuturesUnordered::new();
        let mut appended = VecDeque::new();
        loop {
            // What is appended is answered only after the next group is under way: the journal must not wait for that.
            while appends.len() < most_groups
                && let Some(group) = self.next_group(bytes)
            {
                appends.push(self.clone().append(group));
            }
            if let Some(Some(group)) = appends.next().now_or_never() {
                appended.push_back(group);
                continue;
            }
            if let Some(group) = appended.pop_front() {
                for (cell, wait) in group.complete() {
                    repeats.push(self.clone().repeat(cell, wait));
                }
                continue;
            }
            if appends.is_empty() && repeats.is_empty() && self.closed.load(Ordering::Acquire) {
                return;
            }
            let changed = pin!(self.changed.notified());
            let done = pin!(next_of(&mut appends, &mut repeats));
            match select(changed, done).await {
                Either::Right((group, _)) => appended.push_back(group),
                // The actors that are ready now add theirs to the group; where none is, this costs nothing.
                Either::Left(_) => tokio::task::yield_now().await,
            }
        }
    }

    /// The appends of queued cells, up to `bytes`, at least one.
    fn next_group(&self, bytes: usize) -> Option<Group> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let mut group = Group::default();
        let mut size = 0;
        while size <= bytes {
            let Some(cell) = queue.pop_front() else { break };
            if let Some((claim, append)) = cell.next_append() {
                size += append.size().max(1);
                group.push(cell, claim, append);
            }
        }
        (!group.cells.is_empty()).then_some(group)
    }

    async fn append(self: Arc<Self>, mut group: Group) -> Group {
        let started = Instant::now();
        let appended = AssertUnwindSafe(self.append_parts(&mut group.parts))
            .catch_unwind()
            .await;
        if appended.is_err() {
            for part in &mut group.parts {
                part.claim.spend();
                part.result = Some(Err(JournalError::unknown(
                    ErrorKind::Unavailable,
                    Operation::Append,
                    "the journal panicked; report this to the backend's authors",
                )));
            }
        }
        for part in &mut group.parts {
            part.result = part
                .result
                .take()
                .map(|result| result.map_err(|error| error.since(started)));
        }
        group
    }

    async fn append_parts(&self, parts: &mut [AppendPart]) {
        match parts {
            [part] => {
                let writes = part.writes.clone();
                part.result = Some(self.journal.append(&mut part.claim, part.expected, writes).await);
            }
            parts => self.journal.append_group(parts).await,
        }
    }

    async fn repeat(self: Arc<Self>, cell: Arc<Cell>, wait: Duration) -> Group {
        let mut waiting = Group {
            cells: vec![cell],
            parts: Vec::new(),
        };
        tokio::time::sleep(wait).await;
        let mut group = Group::default();
        for cell in std::mem::take(&mut waiting.cells) {
            if let Some((claim, append)) = cell.repeat_append() {
                group.push(cell, claim, append);
            }
        }
        self.append(group).await
    }
}

/// Dropped with `run`, also where the runtime drops it half-way: nobody waits for a hub that is gone.
struct Gone(Arc<Hub>);

impl Drop for Gone {
    fn drop(&mut self) {
        self.0.gone.store(true, Ordering::Release);
        self.0.lose_queue();
    }
}

/// Appends in flight; the cells are taken out when they are completed.
#[derive(Default)]
struct Group {
    cells: Vec<Arc<Cell>>,
    parts: Vec<AppendPart>,
}

impl Group {
    /// Gives each cell its result; returns what is to be repeated.
    fn complete(mut self) -> Vec<Repeat> {
        let parts = std::mem::take(&mut self.parts);
        let cells = std::mem::take(&mut self.cells);
        let completed = cells.into_iter().zip(parts);
        completed
            .filter_map(|(cell, part)| cell.complete(part).map(|wait| (cell, wait)))
            .collect()
    }
}

/// The next group that ends; waits for ever where there is none.
async fn next_of(
    appends: &mut (impl Stream<Item = Group> + Unpin),
    repeats: &mut (impl Stream<Item = Group> + Unpin),
) -> Group {
    match select(appends.next(), repeats.next()).await {
        Either::Left((Some(group), _)) | Either::Right((Some(group), _)) => group,
        Either::Left((None, repeat)) => match repeat.await {
            Some(group) => group,
            None => pending().await,
        },
        Either::Right((None, append)) => match append.await {
            Some(group) => group,
            None => pending().await,
        },
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.cells.iter().for_each(Cell::hub_is_gone);
    }
}

impl Group {
    fn push(&mut self, cell: Arc<Cell>, claim: Claim, append: Append) {
        self.cells.push(cell);
        self.parts.push(AppendPart {
            claim,
            expected: append.expected,
            writes: append.writes,
            result: None,
        });
    }
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hub")
            .field("journal", &self.journal)
            .finish_non_exhaustive()
    }
}
