//! What an actor and the references to it share.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use futures_util::future::{Either, select};
use journal_core::RecoveryError;
use tokio::sync::{Mutex, Notify, OwnedMutexGuard, watch};

/// How far an actor is, and what others want of it.
pub(crate) struct Shared {
    life: watch::Sender<Life>,
    stop: AtomicBool,
    stop_wanted: Notify,
    first_recovery_is_awaited: AtomicBool,
    recovery: Arc<Mutex<()>>,
}

/// The right to recover. Held by a recovery until its engine is with the actor, or it is gone with all that it took:
/// aborted on another runtime, that is later than its wait.
pub(crate) type Turn = OwnedMutexGuard<()>;

#[derive(Clone, Default)]
struct Life {
    stage: Stage,
    /// Of the latest recovery.
    failure: Option<Arc<RecoveryError>>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Recovering,
    Live,
    Ended,
}

impl Shared {
    pub(crate) fn recovers(&self) {
        self.life.send_modify(|life| life.stage = Stage::Recovering);
    }

    pub(crate) fn lives(&self) {
        self.first_recovery_is_awaited.store(false, Ordering::SeqCst);
        self.life.send_replace(Life {
            stage: Stage::Live,
            failure: None,
        });
    }

    /// Returns whether that ends it, because somebody waits for the first recovery.
    pub(crate) fn fail(&self, error: Arc<RecoveryError>) -> bool {
        self.life.send_modify(|life| life.failure = Some(error));
        self.first_recovery_is_awaited.swap(false, Ordering::SeqCst)
    }

    pub(crate) fn ended(&self) {
        self.life.send_modify(|life| life.stage = Stage::Ended);
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.life.borrow().stage == Stage::Ended
    }

    /// A first recovery that fails ends the actor.
    pub(crate) fn await_first_recovery(&self) {
        self.first_recovery_is_awaited.store(true, Ordering::SeqCst);
    }

    /// `None`: it ended before it was recovered.
    pub(crate) async fn recovered(&self) -> Result<(), Option<Arc<RecoveryError>>> {
        let mut life = self.life.subscribe();
        let decided = |life: &Life| life.stage != Stage::Recovering || life.failure.is_some();
        match life.wait_for(decided).await {
            Ok(life) if life.stage == Stage::Live => Ok(()),
            Ok(life) => Err(life.failure.clone()),
            // The sender is in `self`.
            Err(_) => Err(None),
        }
    }

    pub(crate) async fn has_come_to_its_end(&self) {
        let mut life = self.life.subscribe();
        // The sender is in `self`.
        drop(life.wait_for(|life| life.stage == Stage::Ended).await);
        drop(self.turn().await);
    }

    pub(crate) async fn turn(&self) -> Turn {
        self.recovery.clone().lock_owned().await
    }

    pub(crate) fn want_stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
        self.stop_wanted.notify_one();
    }

    pub(crate) fn stop_is_wanted(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    /// `None`: somebody wants the end, and the work is dropped.
    pub(crate) async fn unless_stopped<T>(&self, work: impl Future<Output = T> + Unpin) -> Option<T> {
        let stop = std::pin::pin!(self.stop_wanted());
        match select(work, stop).await {
            Either::Left((done, _)) => Some(done),
            Either::Right(_) => None,
        }
    }

    async fn stop_wanted(&self) {
        while !self.stop_is_wanted() {
            self.stop_wanted.notified().await;
        }
    }
}

impl Default for Shared {
    fn default() -> Self {
        Self {
            life: watch::Sender::new(Life::default()),
            stop: AtomicBool::new(false),
            stop_wanted: Notify::new(),
            first_recovery_is_awaited: AtomicBool::new(false),
            recovery: Arc::default(),
        }
    }
}
