//! The contract of adapters on persistent actix actors: in memory and on disk.

#[path = "common/stores.rs"]
mod stores;

use std::{sync::mpsc, thread};

use actor_journal::{
    AskError, Command, Handles, Persistence, Persistent, RecoveryError,
    actix::{
        Durable, PersistentActor, PersistentAddr, SpawnPersistent,
        actix::{self, System},
    },
};
use journal_conformance::{AdapterHarness, Closed, Tally, Verdict};
use tokio::sync::oneshot;

#[derive(PersistentActor)]
struct TallyActor {
    #[persistent(id)]
    id: String,
    #[persistent(state)]
    durable: Durable<Tally>,
}

impl TallyActor {
    fn new(persistent: &Persistent<Tally>, persistence: &Persistence) -> Self {
        let options = persistent.options().clone();
        Self {
            id: persistent.id().to_owned(),
            durable: Durable::of(persistent.model().clone(), persistence).options(move |_| options.clone()),
        }
    }
}

/// A thread with an actix system.
struct Actix(System);

impl Default for Actix {
    fn default() -> Self {
        let (started, system) = mpsc::channel();
        thread::spawn(move || {
            let runner = System::new();
            drop(started.send(System::current()));
            runner.run().expect("the system runs until it is stopped");
        });
        Self(system.recv().expect("the system starts"))
    }
}

impl Drop for Actix {
    fn drop(&mut self) {
        self.0.stop();
    }
}

impl Actix {
    async fn there<T: Send + 'static, F: Future<Output = T> + 'static>(
        &self,
        job: impl FnOnce() -> F + Send + 'static,
    ) -> T {
        let (done, result) = oneshot::channel();
        self.0.arbiter().spawn_fn(move || {
            let job = job();
            actix::spawn(async move {
                // The case may be over.
                drop(done.send(job.await));
            });
        });
        result.await.expect("the system runs")
    }
}

impl AdapterHarness for Actix {
    type Ref = PersistentAddr<TallyActor>;

    async fn spawn(
        &self,
        persistent: Persistent<Tally>,
        persistence: &Persistence,
    ) -> Result<Self::Ref, RecoveryError> {
        let persistence = persistence.clone();
        self.there(move || TallyActor::new(&persistent, &persistence).spawn())
            .await
    }

    async fn spawn_instant(&self, persistent: Persistent<Tally>, persistence: &Persistence) -> Self::Ref {
        let persistence = persistence.clone();
        self.there(async move || TallyActor::new(&persistent, &persistence).spawn_instant())
            .await
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
    journal_conformance::adapter_suite!(crate::Actix, crate::stores::Memory);
}

mod on_disk {
    journal_conformance::adapter_suite!(crate::Actix, crate::stores::Embedded);
}
