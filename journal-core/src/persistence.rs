//! One journal with what all its actors share: snapshot store, hub, recovery permits, registry of live ids.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    thread,
    time::Duration,
};

use tokio::{
    runtime::{Handle, RuntimeFlavor},
    sync::{Notify, OwnedSemaphorePermit, Semaphore},
    task::JoinHandle,
};

use crate::{
    Clock, ErrorKind, Journal, JournalError, Operation, PersistenceId, RecoveryError, SnapshotStore,
    SystemClock, hub::Hub,
};

/// Where actors are persisted: a journal, perhaps a snapshot store, and what all actors on them share. Cloning is cheap.
///
/// Every actor of one journal in one process uses clones of the same value: its registry is what keeps an id from
/// being live twice.
#[derive(Clone)]
pub struct Persistence(Arc<Inner>);

static INSTALLED: OnceLock<Persistence> = OnceLock::new();

struct Inner {
    journal: Arc<dyn Journal>,
    snapshots: Option<Arc<dyn SnapshotStore>>,
    clock: Arc<dyn Clock>,
    permits: Arc<Semaphore>,
    registry: Arc<Registry>,
    hub: Arc<Hub>,
    runtime: Handle,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.hub.close();
    }
}

/// See [`Persistence::builder`].
#[must_use]
pub struct PersistenceBuilder {
    journal: Arc<dyn Journal>,
    snapshots: Option<Arc<dyn SnapshotStore>>,
    clock: Arc<dyn Clock>,
    permits: usize,
    runtime: Option<Handle>,
}

impl PersistenceBuilder {
    /// Where snapshots are kept. Default: nowhere; asking an actor for snapshots is then an error.
    pub fn snapshots(mut self, store: impl SnapshotStore) -> Self {
        self.snapshots = Some(Arc::new(store));
        self
    }

    /// How many actors recover at once. Default [`Persistence::DEFAULT_PERMITS`].
    pub fn recovery_permits(mut self, permits: usize) -> Self {
        self.permits = permits.max(1);
        self
    }

    /// Where timestamps come from. Default: the operating system.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// The tokio runtime that appends, snapshots and deletions run on; it needs its time driver and must outlive the
    /// actors. Default: the multi-threaded runtime that [`build`](PersistenceBuilder::build) is called on, or else
    /// one of its own (never a single-threaded one of others, where an actor would delay all writes).
    pub fn runtime(mut self, runtime: Handle) -> Self {
        self.runtime = Some(runtime);
        self
    }

    /// Starts the hub.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if the hub's thread cannot be started.
    pub fn build(self) -> Result<Persistence, JournalError> {
        let Self {
            journal,
            snapshots,
            clock,
            permits,
            runtime,
        } = self;
        let hub = Hub::new(journal.clone());
        // On the runtime of the actors a reply wakes its caller without crossing threads.
        let present = || {
            Handle::try_current()
                .ok()
                .filter(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread)
        };
        let runtime = match runtime.or_else(present) {
            Some(runtime) => {
                runtime.spawn(hub.clone().run());
                runtime
            }
            None => own_runtime(hub.clone()).map_err(|error| {
                JournalError::not_stored(
                    ErrorKind::Config,
                    Operation::Open,
                    format!("no thread for the hub: {error}"),
                )
                .with_source(error)
            })?,
        };
        Ok(Persistence(Arc::new(Inner {
            journal,
            snapshots,
            clock,
            permits: Arc::new(Semaphore::new(permits)),
            registry: Arc::default(),
            hub,
            runtime,
        })))
    }
}

/// Two workers beside the hub's thread: what recovers or applies there delays no write.
fn own_runtime(hub: Arc<Hub>) -> std::io::Result<Handle> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("journal-worker")
        .enable_time()
        .build()?;
    let handle = runtime.handle().clone();
    thread::Builder::new()
        .name("journal-hub".to_owned())
        .spawn(move || runtime.block_on(hub.run()))?;
    Ok(handle)
}

impl Persistence {
    /// How often [`shutdown`](Persistence::shutdown) says whom it still waits for.
    pub const SHUTDOWN_REMINDER: Duration = Duration::from_secs(10);
    /// Actors that recover at once, by default.
    pub const DEFAULT_PERMITS: usize = 50;

    /// Starts with the journal.
    pub fn builder(journal: impl Journal) -> PersistenceBuilder {
        PersistenceBuilder {
            journal: Arc::new(journal),
            snapshots: None,
            clock: Arc::new(SystemClock),
            permits: Self::DEFAULT_PERMITS,
            runtime: None,
        }
    }

    /// Makes it the one of actors that are created by their framework and can be given none: `Default`, services.
    /// Once per process.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if one is installed already; that one stays.
    pub fn install(self) -> Result<(), JournalError> {
        INSTALLED.set(self).map_err(|_| {
            JournalError::not_stored(
                ErrorKind::Config,
                Operation::Open,
                "a persistence is installed already; install one per process, or give actors theirs",
            )
        })
    }

    /// The one that was [installed](Persistence::install).
    #[must_use]
    pub fn installed() -> Option<Self> {
        INSTALLED.get().cloned()
    }

    /// The journal.
    #[must_use]
    pub fn journal(&self) -> &Arc<dyn Journal> {
        &self.0.journal
    }

    /// The snapshot store, if there is one.
    #[must_use]
    pub fn snapshots(&self) -> Option<&Arc<dyn SnapshotStore>> {
        self.0.snapshots.as_ref()
    }

    /// Recoveries that could start now.
    #[must_use]
    pub fn available_permits(&self) -> usize {
        self.0.permits.available_permits()
    }

    /// True while an actor of this id lives, or something of it is still being written.
    #[must_use]
    pub fn is_live(&self, id: &PersistenceId) -> bool {
        self.0.registry.lock().entries.contains_key(id)
    }

    /// The ids that [are live](Persistence::is_live), in order.
    #[must_use]
    pub fn live_ids(&self) -> Vec<PersistenceId> {
        self.0.registry.ids_of(|_| true)
    }

    /// Refuses new actors, waits until everything that live and former actors handed over is done, then shuts the
    /// journal down. Stop the actors first: it waits for them, however long it takes, and names them in a warning at
    /// once and every [`Self::SHUTDOWN_REMINDER`]. To give up earlier, drop the future and ask for
    /// [`live_ids`](Persistence::live_ids): the journal stays open, so that nothing they handle is lost, and a second
    /// call waits again.
    ///
    /// # Errors
    /// Those of [`Journal::shutdown`].
    pub async fn shutdown(&self) -> Result<(), JournalError> {
        let registry = &self.0.registry;
        registry.lock().closed = true;
        let alive = registry.ids_of(|entry| matches!(entry, Entry::Live));
        if !alive.is_empty() {
            tracing::warn!(actors = %Named(&alive), "a shutdown waits for actors that live; stop them");
        }
        let reminder = AbortOnDrop(self.runtime().spawn(remind(registry.clone())));
        registry.empty().await;
        drop(reminder);
        self.0.journal.shutdown().await
    }

    pub(crate) fn hub(&self) -> &Arc<Hub> {
        &self.0.hub
    }

    /// The runtime that appends, snapshots and deletions run on. For adapters whose actors share a thread: recoveries
    /// run here, off that thread.
    #[must_use]
    pub fn runtime(&self) -> &Handle {
        &self.0.runtime
    }

    pub(crate) fn clock(&self) -> &dyn Clock {
        &*self.0.clock
    }

    pub(crate) async fn permit(&self) -> Option<OwnedSemaphorePermit> {
        // The semaphore is never closed.
        self.0.permits.clone().acquire_owned().await.ok()
    }

    /// Waits for a predecessor's last writes, then takes the id.
    pub(crate) async fn register(&self, id: PersistenceId) -> Result<Registration, RecoveryError> {
        let registry = &self.0.registry;
        loop {
            let freed = registry.freed.notified();
            {
                let mut ids = registry.lock();
                if ids.closed {
                    return Err(RecoveryError::Closed);
                }
                match ids.entries.get(&id) {
                    None => {
                        ids.entries.insert(id.clone(), Entry::Live);
                        return Ok(Registration {
                            id,
                            registry: registry.clone(),
                        });
                    }
                    Some(Entry::Live) => return Err(RecoveryError::AlreadyLive { id }),
                    Some(Entry::Retired) => {}
                }
            }
            freed.await;
        }
    }
}

impl fmt::Debug for Persistence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Persistence")
            .field("journal", &self.0.journal)
            .field("snapshots", &self.0.snapshots)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for PersistenceBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PersistenceBuilder")
            .field("journal", &self.journal)
            .finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Registry {
    ids: Mutex<Ids>,
    freed: Notify,
}

#[derive(Default)]
struct Ids {
    entries: HashMap<PersistenceId, Entry>,
    closed: bool,
}

enum Entry {
    /// An actor has the id.
    Live,
    /// The actor is gone, but what it handled is still being written.
    Retired,
}

async fn remind(registry: Arc<Registry>) {
    loop {
        tokio::time::sleep(Persistence::SHUTDOWN_REMINDER).await;
        let waits_for = registry.ids_of(|_| true);
        tracing::warn!(actors = %Named(&waits_for), "a shutdown still waits for actors that live, or for their last writes");
    }
}

struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A few of many ids.
struct Named<'a>(&'a [PersistenceId]);

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const FEW: usize = 10;
        for (nth, id) in self.0.iter().take(FEW).enumerate() {
            write!(f, "{}{id}", if nth == 0 { "" } else { ", " })?;
        }
        match self.0.len().saturating_sub(FEW) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

impl Registry {
    fn ids_of(&self, wanted: impl Fn(&Entry) -> bool) -> Vec<PersistenceId> {
        let ids = self.lock();
        let wanted = ids.entries.iter().filter(|(_, entry)| wanted(entry));
        let mut wanted: Vec<_> = wanted.map(|(id, _)| id.clone()).collect();
        wanted.sort_unstable();
        wanted
    }

    async fn empty(&self) {
        loop {
            let freed = self.freed.notified();
            if self.lock().entries.is_empty() {
                return;
            }
            freed.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Ids> {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A taken id; freed when dropped, which is when actor, ledgers and background duties have all let go.
pub(crate) struct Registration {
    id: PersistenceId,
    registry: Arc<Registry>,
}

impl Registration {
    pub(crate) fn id(&self) -> &PersistenceId {
        &self.id
    }

    /// The actor is gone: successors wait instead of being refused.
    pub(crate) fn retire(&self) {
        self.registry
            .lock()
            .entries
            .insert(self.id.clone(), Entry::Retired);
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.registry.lock().entries.remove(&self.id);
        self.registry.freed.notify_waiters();
    }
}
