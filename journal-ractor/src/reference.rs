//! The reference to a persistent actor, over all its lives.

use std::{fmt, sync::Arc, time::Duration};

use journal_core::{
    AskError, Command, Handles, PersistenceId, TellError,
    adapter::{BoxedCommand, NoPort},
};
use ractor::{ActorCell, ActorRef, Message};
use tokio::sync::oneshot;

use crate::{
    Envelope, Model,
    slot::{Refused, Slot},
};

/// A persistent actor, whichever ractor actor it is at the moment. Cheap to clone, and shared by all clones.
///
/// `M` is the message type of its [`actor_ref`](PersistentRef::actor_ref).
pub struct PersistentRef<A: Model, M = Envelope<A>> {
    pub(crate) slot: Arc<Slot<A>>,
    pub(crate) supervisor: ActorRef<M>,
}

impl<A: Model, M: Message> PersistentRef<A, M> {
    /// Sends a command and waits for its reply, which comes once everything it depends on is durable.
    ///
    /// Failures of the command arrive inside the reply:
    /// [`Overloaded`](journal_core::PersistError::Overloaded) at once, without passing the mailbox. Dropping the future does not take
    /// the command back.
    ///
    /// # Errors
    /// [`AskError::Closed`] only.
    pub async fn ask<C: Command>(&self, command: C) -> Result<C::Reply, AskError>
    where
        A: Handles<C>,
    {
        let (port, reply) = oneshot::channel();
        match self.send(BoxedCommand::new(command, port)) {
            Ok(()) => {}
            Err(Refused::Overloaded(command, error)) => self.slot.refuse(command, error),
            Err(Refused::Closed) => return Err(AskError::Closed),
        }
        reply.await.map_err(|_| AskError::Closed)
    }

    /// [`ask`](PersistentRef::ask), with a bound of the wait.
    ///
    /// # Errors
    /// [`AskError`].
    pub async fn ask_timeout<C: Command>(&self, command: C, timeout: Duration) -> Result<C::Reply, AskError>
    where
        A: Handles<C>,
    {
        tokio::time::timeout(timeout, self.ask(command))
            .await
            .unwrap_or(Err(AskError::Timeout))
    }

    /// Sends a command whose reply nobody waits for.
    ///
    /// # Errors
    /// [`TellError`].
    pub fn tell<C: Command>(&self, command: C) -> Result<(), TellError>
    where
        A: Handles<C>,
    {
        self.send(BoxedCommand::new(command, NoPort))
            .map_err(|refused| match refused {
                Refused::Overloaded(_, error) => TellError::Overloaded(error),
                Refused::Closed => TellError::Closed,
            })
    }

    fn send(&self, command: BoxedCommand<A>) -> Result<(), Refused<A>> {
        self.slot.send(&self.supervisor, command)
    }

    /// Whose events these are.
    #[must_use]
    pub fn persistence_id(&self) -> &PersistenceId {
        &self.slot.id
    }

    /// How many commands wait in the mailbox, stashed, or for their events to become durable.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.slot.admission.waiting()
    }

    /// Stops it: what is handled becomes durable and is answered, what is queued gets [`AskError::Closed`]. Returns when
    /// the last is durable, or has failed. Later commands get [`AskError::Closed`].
    pub async fn stop(&self) {
        if let Some(life) = self.slot.close() {
            life.stop();
        }
        self.supervisor.stop(None);
        self.ended().await;
    }

    /// Stops it after it has handled what is queued. Later commands get [`AskError::Closed`].
    pub async fn drain(&self) {
        drop(self.supervisor.drain());
        self.ended().await;
    }

    /// Ends it at once: what is queued gets [`AskError::Closed`]; what is handled is written and answered nevertheless,
    /// perhaps after this returns. It is not started again. A new one of this id can be spawned, and waits for those
    /// writes.
    pub async fn kill(&self) {
        let last = self.slot.close();
        self.supervisor.kill();
        if let Some(life) = last {
            life.kill().await;
        }
        self.ended().await;
    }

    /// Returns when it has ended for good: stopped, drained, killed or unable ever to recover.
    pub async fn ended(&self) {
        // Without a timeout there is nothing to report.
        drop(self.supervisor.wait(None).await);
    }

    /// The ractor actor to send messages to, link, monitor or name: the supervisor of all its lives, which forwards
    /// messages to the present one. Stopping or draining it finishes everything it was sent; killing it kills.
    #[must_use]
    pub fn actor_ref(&self) -> ActorRef<M> {
        self.supervisor.clone()
    }

    /// [`actor_ref`](PersistentRef::actor_ref) without its message type.
    #[must_use]
    pub fn get_cell(&self) -> ActorCell {
        self.supervisor.get_cell()
    }
}

impl<A: Model, M> Clone for PersistentRef<A, M> {
    fn clone(&self) -> Self {
        Self {
            slot: self.slot.clone(),
            supervisor: self.supervisor.clone(),
        }
    }
}

impl<A: Model, M> fmt::Debug for PersistentRef<A, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PersistentRef")
            .field("persistence_id", &self.slot.id)
            .finish_non_exhaustive()
    }
}
