//! The contract of adapters on persistent ractor actors: in memory and on disk.

#[path = "common/stores.rs"]
mod stores;

use actor_journal::{
    Command, Handles, Persistence, Persistent, RecoveryError,
    ractor::{AskError, PersistentRef, SpawnError, SpawnPersistent},
};
use journal_conformance::{AdapterHarness, Closed, Tally, Verdict};

#[derive(Default)]
struct Ractor;

impl AdapterHarness for Ractor {
    type Ref = PersistentRef<Tally>;

    async fn spawn(
        &self,
        persistent: Persistent<Tally>,
        persistence: &Persistence,
    ) -> Result<Self::Ref, RecoveryError> {
        persistent.spawn(persistence).await.map_err(|error| match error {
            SpawnError::Recovery(error) => error,
            other => panic!("ractor spawns: {other}"),
        })
    }

    async fn spawn_instant(&self, persistent: Persistent<Tally>, persistence: &Persistence) -> Self::Ref {
        persistent.spawn_instant(persistence).expect("ractor spawns")
    }

    async fn ask<C>(actor: Self::Ref, command: C) -> Result<C::Reply, Closed>
    where
        C: Command,
        Tally: Handles<C>,
    {
        actor.ask(command).await.map_err(|error| match error {
            AskError::Closed => Closed,
            other => panic!("an ask without a bound: {other}"),
        })
    }

    fn tell<C>(actor: &Self::Ref, command: C)
    where
        C: Command,
        Tally: Handles<C>,
    {
        // The cases see what becomes of it.
        drop(actor.tell(command));
    }

    async fn stop(actor: Self::Ref) {
        actor.stop().await;
    }

    async fn kill(actor: Self::Ref) -> Verdict {
        actor.kill().await;
        Ok(())
    }

    async fn ended(actor: Self::Ref) {
        actor.ended().await;
    }
}

mod in_memory {
    journal_conformance::adapter_suite!(crate::Ractor, crate::stores::Memory);
}

mod on_disk {
    journal_conformance::adapter_suite!(crate::Ractor, crate::stores::Embedded);
}
