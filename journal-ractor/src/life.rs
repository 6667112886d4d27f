//! One life of a persistent actor: the ractor actor that owns the engine, from recovery to its end.

use std::{sync::Arc, time::Duration};

use journal_core::{
    RecoveryError,
    adapter::{BoxedCommand, Engine, Halt},
};
use ractor::{ActorCell, ActorId, ActorProcessingErr, ActorRef, ActorRuntime, SpawnErr};
use tokio::{
    runtime::Handle,
    sync::{oneshot, watch},
    task::JoinHandle,
};

use crate::{Model, slot::Slot};

/// What reaches the mailbox.
pub(crate) enum Inbox<A: Model> {
    Command(BoxedCommand<A>),
    /// The engine wants to be looked at.
    Wake,
    /// Time to see whether it is idle; dropped once that is seen.
    Look(oneshot::Sender<()>),
    /// Everything before this is handled: end.
    Finish,
}

#[cfg(feature = "cluster")]
impl<A: Model> ractor::Message for Inbox<A> {}

/// How a life begins; by default at once, and nobody waits for it.
#[derive(Default)]
pub(crate) struct Start {
    /// The wait before recovery; the mailbox takes commands meanwhile.
    pub(crate) wait: Duration,
    /// Who waits for the recovery, and gets its error.
    pub(crate) caller: Option<oneshot::Sender<Result<(), RecoveryError>>>,
}

/// The error of a life whose caller was told why it could not begin.
#[derive(Debug, thiserror::Error)]
#[error("the recovery failed; its caller knows why")]
pub(crate) struct CallerTold;

/// A handle on one life.
pub(crate) struct Life<A: Model> {
    actor: ActorRef<Inbox<A>>,
    /// True once recovered; closed once its engine is dropped.
    recovered: watch::Receiver<bool>,
}

impl<A: Model> Life<A> {
    pub(crate) fn begin(slot: Arc<Slot<A>>, supervisor: ActorCell, start: Start) -> Result<Self, SpawnErr> {
        let (alive, recovered) = watch::channel(false);
        let (actor, _) = ActorRuntime::spawn_linked_instant(
            None,
            Living { slot },
            Arguments { start, alive },
            supervisor,
        )?;
        Ok(Self { actor, recovered })
    }

    pub(crate) fn actor(&self) -> &ActorRef<Inbox<A>> {
        &self.actor
    }

    pub(crate) fn is(&self, actor: ActorId) -> bool {
        self.actor.get_id() == actor
    }

    /// Ends it after the command that it is handling; one that is not recovered has handled nothing.
    pub(crate) fn stop(&self) {
        if *self.recovered.borrow() {
            self.actor.stop(None);
        } else {
            self.actor.kill();
        }
    }

    /// Ends it after everything in its mailbox.
    pub(crate) async fn finish(self) {
        drop(self.actor.send_message(Inbox::Finish));
        let _finishing = KillOnDrop(&self.actor);
        // Not for the engine: a killed actor's waits in its supervisor's mailbox, and dies with it.
        drop(self.actor.wait(None).await);
    }

    pub(crate) async fn kill(self) {
        self.actor.kill();
        ended(self.recovered).await;
    }

    /// Returns once its engine is dropped, so that the next life can have the id.
    pub(crate) fn ended(&self) -> impl Future<Output = ()> + Send + use<A> {
        ended(self.recovered.clone())
    }
}

async fn ended(mut recovered: watch::Receiver<bool>) {
    while recovered.changed().await.is_ok() {}
}

impl<A: Model> Clone for Life<A> {
    fn clone(&self) -> Self {
        Self {
            actor: self.actor.clone(),
            recovered: self.recovered.clone(),
        }
    }
}

/// A supervisor that is killed while it waits for the end takes its child with it.
struct KillOnDrop<'a, A: Model>(&'a ActorRef<Inbox<A>>);

impl<A: Model> Drop for KillOnDrop<'_, A> {
    fn drop(&mut self) {
        self.0.kill();
    }
}

/// Asks whether it is idle, not again before the answer: asked twice in a row, a busy one would seem so.
async fn look<A: Model>(actor: ActorRef<Inbox<A>>, idle: Duration) {
    loop {
        tokio::time::sleep(idle).await;
        let (look, looked) = oneshot::channel();
        if actor.send_message(Inbox::Look(look)).is_err() {
            return;
        }
        // Dropped is the answer.
        drop(looked.await);
    }
}

struct Living<A: Model> {
    slot: Arc<Slot<A>>,
}

struct Arguments {
    start: Start,
    alive: watch::Sender<bool>,
}

struct State<A: Model> {
    start: Option<Start>,
    engine: Option<Engine<A>>,
    /// Dropped after the engine.
    alive: watch::Sender<bool>,
    looks: Option<Looks>,
}

/// The timer that sends [`Inbox::Look`]; ends with the life, not up to a period later.
struct Looks(JoinHandle<()>);

impl Drop for Looks {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[ractor::actor(message = Inbox<A>, state = State<A>, arguments = Arguments)]
impl<A: Model> Living<A> {
    async fn pre_start(
        &self,
        _myself: ActorRef<Inbox<A>>,
        Arguments { start, alive }: Arguments,
    ) -> Result<State<A>, ActorProcessingErr> {
        Ok(State {
            start: Some(start),
            engine: None,
            alive,
            looks: None,
        })
    }

    async fn post_start(
        &self,
        myself: ActorRef<Inbox<A>>,
        state: &mut State<A>,
    ) -> Result<(), ActorProcessingErr> {
        let Some(Start { wait, caller }) = state.start.take() else {
            return Ok(());
        };
        tokio::time::sleep(wait).await;
        let slot = &self.slot;
        let looks = myself.clone();
        let wake = move || drop(myself.send_message(Inbox::Wake));
        let recovered = slot
            .persistent
            .recover(&slot.persistence, slot.admission.clone(), wake);
        match (recovered.await, caller) {
            (Ok(engine), caller) => {
                state.engine = Some(engine);
                state.alive.send_replace(true);
                if let Some(idle) = slot.persistent.options().idle_limit() {
                    state.looks = Some(Looks(Handle::current().spawn(look(looks, idle))));
                }
                if let Some(caller) = caller {
                    drop(caller.send(Ok(())));
                }
                Ok(())
            }
            (Err(error), Some(caller)) => {
                drop(caller.send(Err(error)));
                Err(Box::new(CallerTold))
            }
            (Err(error), None) => Err(Box::new(Halt::RecoveryFailed(Arc::new(error)))),
        }
    }

    async fn handle(
        &self,
        myself: ActorRef<Inbox<A>>,
        message: Inbox<A>,
        state: &mut State<A>,
    ) -> Result<(), ActorProcessingErr> {
        let Some(engine) = &mut state.engine else {
            return Ok(());
        };
        match message {
            Inbox::Command(command) => engine.push(command),
            Inbox::Wake => {}
            Inbox::Look(_looked) => {
                if engine.was_idle() && self.slot.passivate(myself.get_id(), || engine.retire()) {
                    myself.stop(None);
                }
                return Ok(());
            }
            Inbox::Finish => myself.stop(None),
        }
        engine.run(self.slot.persistent.model()).await?;
        if engine.stop_is_due() {
            myself.stop(None);
        }
        Ok(())
    }

    async fn post_stop(
        &self,
        _myself: ActorRef<Inbox<A>>,
        state: &mut State<A>,
    ) -> Result<(), ActorProcessingErr> {
        if let Some(engine) = &state.engine {
            engine.settled().await;
        }
        // Before the supervisor is told: it gets the state.
        state.engine = None;
        Ok(())
    }
}
