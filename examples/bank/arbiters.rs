//! Threads for actix actors.

use std::{sync::Arc, thread::available_parallelism};

use actor_journal::{
    RecoveryError,
    actix::{PersistentActor, PersistentAddr, SpawnPersistent, actix::Arbiter},
};
use tokio::sync::oneshot;

/// One arbiter for each processor.
#[derive(Clone)]
pub(crate) struct Arbiters(Arc<[Arbiter]>);

impl Arbiters {
    /// On an actix `System`.
    pub(crate) fn start() -> Self {
        let processors = available_parallelism().map_or(1, usize::from);
        Self((0..processors).map(|_| Arbiter::new()).collect())
    }

    /// Spawns an actor on the arbiter that is this number's.
    #[expect(
        clippy::indexing_slicing,
        reason = "a remainder is below what it is a remainder of"
    )]
    pub(crate) async fn spawn<A>(&self, number: u32, actor: A) -> Result<PersistentAddr<A>, RecoveryError>
    where
        A: PersistentActor + Send,
    {
        let (spawned, reference) = oneshot::channel();
        self.0[number as usize % self.0.len()].spawn(async move {
            // If nobody waits any more, the reference goes and with it the actor.
            drop(spawned.send(actor.spawn().await));
        });
        let stopped = |_| RecoveryError::Config("the arbiter was stopped".to_owned());
        reference.await.map_err(stopped)?
    }
}
