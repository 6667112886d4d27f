//! Holds calls back until a test lets them through.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tokio::sync::Semaphore;

/// Holds calls back while it is closed. Clones are the same gate.
#[derive(Debug, Clone)]
pub struct Gate(Arc<State>);

#[derive(Debug)]
struct State {
    permits: Semaphore,
    /// One for each call that came and was not yet asked for.
    arrivals: Semaphore,
    waiting: AtomicUsize,
    most_waiting: AtomicUsize,
}

/// More calls than a test makes.
const OPEN: usize = Semaphore::MAX_PERMITS / 2;

impl Gate {
    /// Lets everything through until it is closed.
    #[must_use]
    pub fn opened() -> Self {
        Self::with(OPEN)
    }

    /// Holds everything back.
    #[must_use]
    pub fn closed() -> Self {
        Self::with(0)
    }

    fn with(permits: usize) -> Self {
        Self(Arc::new(State {
            permits: Semaphore::new(permits),
            arrivals: Semaphore::new(0),
            waiting: AtomicUsize::new(0),
            most_waiting: AtomicUsize::new(0),
        }))
    }

    /// Calls from now on wait; [`arrival`](Gate::arrival) counts from here.
    pub fn close(&self) {
        self.0.permits.forget_permits(Semaphore::MAX_PERMITS);
        self.0.arrivals.forget_permits(Semaphore::MAX_PERMITS);
    }

    /// Whoever waits goes on, and nobody waits any more.
    pub fn open(&self) {
        let open = self.0.permits.available_permits();
        self.0.permits.add_permits(OPEN.saturating_sub(open));
    }

    /// This many calls go on, present ones first.
    pub fn let_through(&self, calls: usize) {
        self.0.permits.add_permits(calls);
    }

    /// Returns when one more call has come since the gate was made or closed.
    pub async fn arrival(&self) {
        take(&self.0.arrivals).await;
    }

    /// The most calls that waited at the same time.
    #[must_use]
    pub fn most_waiting(&self) -> usize {
        self.0.most_waiting.load(Ordering::SeqCst)
    }

    /// Returns once the gate lets the caller through.
    pub async fn pass(&self) {
        /// Counts down also where the call is dropped.
        struct Waiting<'a>(&'a AtomicUsize);
        impl Drop for Waiting<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::SeqCst);
            }
        }
        let waiting = self.0.waiting.fetch_add(1, Ordering::SeqCst) + 1;
        let _waiting = Waiting(&self.0.waiting);
        self.0.most_waiting.fetch_max(waiting, Ordering::SeqCst);
        self.0.arrivals.add_permits(1);
        take(&self.0.permits).await;
    }
}

/// Equal are the clones of one gate.
impl PartialEq for Gate {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

async fn take(permits: &Semaphore) {
    if let Ok(permit) = permits.acquire().await {
        permit.forget();
    }
}
