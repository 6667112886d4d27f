//! Starts actors that are restarted under the backoff, and ended for good.

use std::sync::Arc;

use actix::{AsyncContext, Context};
use journal_core::RecoveryError;

use crate::{PersistentActor, PersistentAddr, durable::prepare};

/// Starts a persistent actor under a supervisor of its own: as actix's `Supervisor`, but with an end, and a reference
/// that can stop it. actix's own `start` and `Supervisor::start` work too.
pub trait SpawnPersistent: PersistentActor {
    /// Returns once the actor is recovered. Dropping the future ends it again.
    ///
    /// # Errors
    /// [`RecoveryError`], as of the first attempt to recover, which is not tried again; later failures are the
    /// supervisor's.
    ///
    /// # Panics
    /// Outside of an actix `System`.
    fn spawn(self) -> impl Future<Output = Result<PersistentAddr<Self>, RecoveryError>> {
        let actor = begin(self, true);
        async move {
            let unclaimed = Unclaimed(Some(actor));
            unclaimed.recovered().await
        }
    }

    /// Returns at once; commands wait in the mailbox until the actor is recovered. A recovery that fails is tried again
    /// under the backoff; the commands that waited for it get
    /// [`RecoveryFailed`](journal_core::PersistError::RecoveryFailed).
    ///
    /// # Panics
    /// Outside of an actix `System`.
    fn spawn_instant(self) -> PersistentAddr<Self> {
        begin(self, false)
    }
}

impl<A: PersistentActor> SpawnPersistent for A {}

fn begin<A: PersistentActor>(mut actor: A, first_recovery_is_awaited: bool) -> PersistentAddr<A> {
    let admission = prepare(&mut actor).admission.clone();
    let durable = actor.durable();
    let hears = durable.hears.clone();
    let shared = durable.shared.clone();
    if first_recovery_is_awaited {
        shared.await_first_recovery();
    }
    let context = Context::new();
    let address = context.address();
    let mut lives = context.into_future(actor);
    let ended = Arc::clone(&shared);
    let task = actix::spawn(async move {
        loop {
            (&mut lives).await;
            // No restart either where all addresses are gone.
            if ended.has_ended() || !lives.restart() {
                return;
            }
        }
    });
    PersistentAddr {
        address,
        admission,
        hears,
        shared,
        task: task.abort_handle(),
    }
}

/// An actor that nobody has a reference to yet.
struct Unclaimed<A: PersistentActor>(Option<PersistentAddr<A>>);

impl<A: PersistentActor> Unclaimed<A> {
    async fn recovered(mut self) -> Result<PersistentAddr<A>, RecoveryError> {
        let Some(actor) = &self.0 else {
            return Err(RecoveryError::Stopped);
        };
        let recovered = actor.shared.recovered().await;
        let claimed = self.0.take();
        match (recovered, claimed) {
            (Ok(()), Some(actor)) => Ok(actor),
            (Err(Some(error)), Some(actor)) => {
                actor.ended().await;
                Err((*error).clone())
            }
            _ => Err(RecoveryError::Stopped),
        }
    }
}

impl<A: PersistentActor> Drop for Unclaimed<A> {
    fn drop(&mut self) {
        if let Some(actor) = &self.0 {
            actor.task.abort();
        }
    }
}
