//! A reference to a persistent actor that can do more than its address.

use std::{fmt, sync::Arc, time::Duration};

use actix::Addr;
use journal_core::{
    AskError, Command, Handles, TellError,
    adapter::{Admission, BoxedCommand, NoPort},
};
use tokio::{sync::oneshot, task::AbortHandle};

use crate::{
    PersistentActor,
    message::{Inbox, Internal},
    shared::Shared,
    told::Hears,
};

/// A persistent actor over all its lives. Cheap to clone; usable on any thread and runtime.
///
/// What it sends is not bounded by the mailbox's capacity but by
/// [`max_waiting`](journal_core::Options::max_waiting), before it enters the mailbox.
pub struct PersistentAddr<A: PersistentActor> {
    pub(crate) address: Addr<A>,
    pub(crate) admission: Admission,
    pub(crate) hears: Hears<A::Model>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) task: AbortHandle,
}

impl<A: PersistentActor> PersistentAddr<A> {
    /// Sends a command and waits for its reply, which comes once everything it depends on is durable.
    ///
    /// Failures of the command arrive inside the reply:
    /// [`Overloaded`](journal_core::PersistError::Overloaded) at once, without passing the mailbox. Dropping the future
    /// does not take the command back.
    ///
    /// # Errors
    /// [`AskError::Closed`] only.
    pub async fn ask<C: Command>(&self, command: C) -> Result<C::Reply, AskError>
    where
        A::Model: Handles<C>,
    {
        let (port, reply) = oneshot::channel();
        match BoxedCommand::new(command, port).admit(&self.admission) {
            Ok(command) => self.send(Inbox::Command(command)),
            Err((command, overloaded)) => {
                if let Some(told) = command.refuse(overloaded) {
                    self.hears.tell(told, || self.send(Inbox::Wake));
                }
            }
        }
        reply.await.map_err(|_| AskError::Closed)
    }

    /// [`ask`](PersistentAddr::ask), with a bound of the wait.
    ///
    /// # Errors
    /// [`AskError`].
    pub async fn ask_timeout<C: Command>(&self, command: C, timeout: Duration) -> Result<C::Reply, AskError>
    where
        A::Model: Handles<C>,
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
        A::Model: Handles<C>,
    {
        if !self.address.connected() {
            return Err(TellError::Closed);
        }
        let command = BoxedCommand::new(command, NoPort)
            .admit(&self.admission)
            .map_err(|(_, overloaded)| TellError::Overloaded(overloaded))?;
        self.send(Inbox::Command(command));
        Ok(())
    }

    /// How many commands wait in the mailbox (of those sent from here), stashed, or for their events to become durable.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.admission.waiting()
    }

    /// Waits until everything sent before is handled, and durable or failed.
    pub async fn settled(&self) {
        let (settled, all) = oneshot::channel();
        self.send(Inbox::Settle(settled));
        // Dropped where the actor ended before it came to that.
        drop(all.await);
    }

    /// Stops it: what is handled becomes durable and is answered, what is queued gets [`AskError::Closed`]. Returns when
    /// the last is durable, or has failed. Later commands get [`AskError::Closed`].
    pub async fn stop(&self) {
        self.shared.want_stop();
        self.send(Inbox::Wake);
        self.ended().await;
    }

    /// Stops it after it has handled what is queued. Later commands get [`AskError::Closed`].
    pub async fn drain(&self) {
        self.send(Inbox::Finish);
        self.ended().await;
    }

    /// Ends it at once: what is queued gets [`AskError::Closed`]; what is handled is written and answered nevertheless,
    /// perhaps after this returns. It is not started again. A new one of this id can be started, and waits for those
    /// writes.
    pub async fn kill(&self) {
        self.task.abort();
        self.ended().await;
    }

    /// Returns when it has ended for good.
    pub async fn ended(&self) {
        self.shared.has_come_to_its_end().await;
    }

    /// The address, for everything else that actix has.
    #[must_use]
    pub fn addr(&self) -> &Addr<A> {
        &self.address
    }

    fn send(&self, inbox: Inbox<A::Model>) {
        self.address.do_send(Internal(inbox));
    }
}

impl<A: PersistentActor> Clone for PersistentAddr<A> {
    fn clone(&self) -> Self {
        Self {
            address: self.address.clone(),
            admission: self.admission.clone(),
            hears: self.hears.clone(),
            shared: self.shared.clone(),
            task: self.task.clone(),
        }
    }
}

impl<A: PersistentActor> fmt::Debug for PersistentAddr<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PersistentAddr")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}
