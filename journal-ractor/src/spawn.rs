//! From a description of a persistent actor to a live one.

use std::fmt;

use journal_core::{
    Command, Handles, Persistence, Persistent, RecoveryError,
    adapter::{BoxedCommand, NoPort},
};
use ractor::{ActorCell, ActorRuntime, Message, SpawnErr};
use tokio::sync::oneshot;

use crate::{Envelope, Model, PersistentRef, life::Start, slot::Slot, supervisor::Supervisor};

/// Why an actor was not spawned. Nothing of it is left.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpawnError {
    /// It could not recover.
    #[error(transparent)]
    Recovery(#[from] RecoveryError),
    /// It was killed before it was recovered.
    #[error("the actor was killed before it was recovered")]
    Killed,
    /// The actor it was to be linked to is stopping.
    #[error("the actor to link to is stopping; spawn under a running one")]
    ParentStopping,
    /// ractor refused.
    #[error(transparent)]
    Ractor(#[from] SpawnErr),
}

/// A persistent actor that takes messages of type `M` beside typed commands; see [`SpawnPersistent::accepting`].
pub struct Accepting<A: Model, M> {
    persistent: Persistent<A>,
    accept: fn(M) -> BoxedCommand<A>,
}

impl<A: Model, M> fmt::Debug for Accepting<A, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Accepting").field(&self.persistent).finish()
    }
}

/// Spawns what [`persistent`](journal_core::persistent) describes. All methods must be called on a tokio runtime with a
/// time driver, as ractor's own.
pub trait SpawnPersistent: Sized {
    /// The model.
    type Model: crate::Model;
    /// The message type of the spawned [`PersistentRef::actor_ref`].
    type Message: Message;

    /// The description with the messages it takes.
    fn prepare(self) -> Accepting<Self::Model, Self::Message>;

    /// Makes the [`actor_ref`](PersistentRef::actor_ref) take `M`, for code that knows only ractor: an enum whose
    /// variants carry their own `RpcReplyPort`s, answered by [`then_reply_to`](crate::ThenReplyTo::then_reply_to).
    fn accepting<M>(self) -> Accepting<Self::Model, M>
    where
        M: Message + Command<Reply = ()>,
        Self::Model: Handles<M>,
    {
        Accepting {
            persistent: self.prepare().persistent,
            accept: |message| BoxedCommand::new(message, NoPort),
        }
    }

    /// Returns once the actor is recovered. Dropping the future ends it again.
    ///
    /// # Errors
    /// [`SpawnError`], as of the first attempt to recover; later failures are the supervisor's.
    fn spawn(
        self,
        persistence: &Persistence,
    ) -> impl Future<Output = Result<PersistentRef<Self::Model, Self::Message>, SpawnError>> + Send {
        recovered(self.prepare(), persistence.clone(), None)
    }

    /// [`spawn`](SpawnPersistent::spawn), then linked to `parent`: it hears of the end, not of restarts, and its own end
    /// ends the actor.
    ///
    /// # Errors
    /// [`SpawnError`].
    fn spawn_linked(
        self,
        persistence: &Persistence,
        parent: ActorCell,
    ) -> impl Future<Output = Result<PersistentRef<Self::Model, Self::Message>, SpawnError>> + Send {
        recovered(self.prepare(), persistence.clone(), Some(parent))
    }

    /// Returns at once; commands wait in the mailbox until the actor is recovered. A recovery that fails is tried again
    /// under the backoff; the commands that waited for it get [`Closed`](crate::AskError::Closed).
    ///
    /// # Errors
    /// [`SpawnError`], but never a failed recovery.
    fn spawn_instant(
        self,
        persistence: &Persistence,
    ) -> Result<PersistentRef<Self::Model, Self::Message>, SpawnError> {
        begin(self.prepare(), persistence.clone(), None)
    }

    /// [`spawn_instant`](SpawnPersistent::spawn_instant), linked to `parent` from the beginning.
    ///
    /// # Errors
    /// [`SpawnError`], but never a failed recovery.
    fn spawn_linked_instant(
        self,
        persistence: &Persistence,
        parent: ActorCell,
    ) -> Result<PersistentRef<Self::Model, Self::Message>, SpawnError> {
        let actor = begin(self.prepare(), persistence.clone(), None)?;
        link(&actor, parent)?;
        Ok(actor)
    }
}

impl<A: Model> SpawnPersistent for Persistent<A> {
    type Model = A;
    type Message = Envelope<A>;

    fn prepare(self) -> Accepting<A, Envelope<A>> {
        Accepting {
            persistent: self,
            accept: |envelope| envelope.0,
        }
    }
}

impl<A: Model, M: Message> SpawnPersistent for Accepting<A, M> {
    type Model = A;
    type Message = M;

    fn prepare(self) -> Self {
        self
    }
}

fn begin<A: Model, M: Message>(
    Accepting { persistent, accept }: Accepting<A, M>,
    persistence: Persistence,
    caller: Option<oneshot::Sender<Result<(), RecoveryError>>>,
) -> Result<PersistentRef<A, M>, SpawnError> {
    let slot = Slot::new(persistent, persistence).map_err(RecoveryError::from)?;
    let handler = Supervisor {
        slot: slot.clone(),
        accept,
    };
    let (supervisor, _) = ActorRuntime::spawn_instant(None, handler, ())?;
    let start = Start {
        caller,
        ..Start::default()
    };
    slot.begin(supervisor.get_cell(), start)
        .inspect_err(|_| supervisor.kill())?;
    Ok(PersistentRef { slot, supervisor })
}

async fn recovered<A: Model, M: Message>(
    prepared: Accepting<A, M>,
    persistence: Persistence,
    parent: Option<ActorCell>,
) -> Result<PersistentRef<A, M>, SpawnError> {
    let (caller, recovered) = oneshot::channel();
    let actor = begin(prepared, persistence, Some(caller))?;
    let unclaimed = Unclaimed(Some(actor.get_cell()));
    match recovered.await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            actor.ended().await;
            return Err(error.into());
        }
        Err(_) => return Err(SpawnError::Killed),
    }
    if let Some(parent) = parent {
        link(&actor, parent)?;
    }
    unclaimed.claim();
    Ok(actor)
}

/// Links before or after the start, because `parent` is not to hear of an actor that was never spawned.
fn link<A: Model, M: Message>(actor: &PersistentRef<A, M>, parent: ActorCell) -> Result<(), SpawnError> {
    let cell = actor.get_cell();
    cell.link(parent.clone());
    if cell.try_get_supervisor() == Some(parent) {
        Ok(())
    } else {
        cell.kill();
        Err(SpawnError::ParentStopping)
    }
}

/// An actor that nobody has a reference to yet.
struct Unclaimed(Option<ActorCell>);

impl Unclaimed {
    fn claim(mut self) {
        self.0 = None;
    }
}

impl Drop for Unclaimed {
    fn drop(&mut self) {
        if let Some(actor) = &self.0 {
            actor.kill();
        }
    }
}
