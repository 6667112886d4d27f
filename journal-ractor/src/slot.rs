//! Where all references of one persistent actor find its present life.

use std::{
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use journal_core::{
    InvalidPersistenceId, PersistError, Persistence, PersistenceId, Persistent,
    adapter::{Admission, BoxedCommand},
};
use ractor::{ActorCell, ActorId, SpawnErr};
use tokio::runtime::Handle;

use crate::{
    Model,
    life::{Inbox, Life, Start},
};

pub(crate) struct Slot<A: Model> {
    pub(crate) id: PersistenceId,
    pub(crate) persistent: Persistent<A>,
    pub(crate) persistence: Persistence,
    pub(crate) admission: Admission,
    runtime: Handle,
    phase: Mutex<Phase<A>>,
}

enum Phase<A: Model> {
    /// It lives, or its supervisor is about to see that it does not.
    Live(Life<A>),
    /// Stopped because it was idle, or another has the id; the next command begins a new life.
    Dormant,
    /// No further life; the last one may still be at its end.
    Closed(Option<Life<A>>),
}

/// Why a command did not get into the mailbox.
pub(crate) enum Refused<A: Model> {
    Overloaded(BoxedCommand<A>, PersistError),
    Closed,
}

impl<A: Model> Slot<A> {
    /// On the runtime where all lives run.
    pub(crate) fn new(
        persistent: Persistent<A>,
        persistence: Persistence,
    ) -> Result<Arc<Self>, InvalidPersistenceId> {
        Ok(Arc::new(Self {
            id: PersistenceId::new(persistent.id())?,
            admission: persistent.options().admission(),
            persistent,
            persistence,
            runtime: Handle::current(),
            phase: Mutex::new(Phase::Dormant),
        }))
    }

    /// Begins a life, unless closed.
    pub(crate) fn begin(self: &Arc<Self>, supervisor: ActorCell, start: Start) -> Result<(), SpawnErr> {
        let mut phase = self.phase();
        if matches!(*phase, Phase::Closed(_)) {
            return Ok(());
        }
        let former = mem::replace(&mut *phase, Phase::Live(self.new_life(supervisor, start)?));
        // Not under the lock: its mailbox may go with it, and commands of users with that.
        drop(phase);
        drop(former);
        Ok(())
    }

    fn new_life(self: &Arc<Self>, supervisor: ActorCell, start: Start) -> Result<Life<A>, SpawnErr> {
        // Whoever sends a command to a dormant actor may be on no runtime.
        let _entered = self.runtime.enter();
        Life::begin(self.clone(), supervisor, start)
    }

    /// Answers a command that did not get into a mailbox.
    pub(crate) fn refuse(&self, command: BoxedCommand<A>, error: PersistError) {
        if let Some(told) = command.refuse(error) {
            told.to(self.persistent.model());
        }
    }

    /// Puts a command into the mailbox of the present life, or of a new one.
    pub(crate) fn send(
        self: &Arc<Self>,
        supervisor: &ActorCell,
        command: BoxedCommand<A>,
    ) -> Result<(), Refused<A>> {
        let command = command
            .admit(&self.admission)
            .map_err(|(command, overloaded)| Refused::Overloaded(command, overloaded))?;
        let sent = {
            let mut phase = self.phase();
            if matches!(*phase, Phase::Dormant) {
                let life = self.new_life(supervisor.clone(), Start::default());
                *phase = Phase::Live(life.map_err(|_| Refused::Closed)?);
            }
            match &*phase {
                // Under the lock, so that no life ends of idleness with a command in its mailbox.
                Phase::Live(life) => life.actor().send_message(Inbox::Command(command)),
                Phase::Dormant | Phase::Closed(_) => return Err(Refused::Closed),
            }
        };
        sent.map_err(|_| Refused::Closed)
    }

    /// The next command begins a new life, unless one is on its way to this one: then false. `retire` makes the next
    /// life wait for the end of this one.
    pub(crate) fn passivate(&self, life: ActorId, retire: impl FnOnce()) -> bool {
        let mut phase = self.phase();
        let is_present = matches!(&*phase, Phase::Live(present) if present.is(life));
        // Commands are counted before they are sent.
        if !is_present || self.admission.waiting() > 0 {
            return false;
        }
        retire();
        let former = mem::replace(&mut *phase, Phase::Dormant);
        drop(phase);
        drop(former);
        true
    }

    /// The next command begins a new life.
    pub(crate) fn rest(&self) {
        let mut phase = self.phase();
        if let Phase::Live(_) = *phase {
            let former = mem::replace(&mut *phase, Phase::Dormant);
            drop(phase);
            drop(former);
        }
    }

    /// No further life; returns the last one, which may have ended.
    pub(crate) fn close(&self) -> Option<Life<A>> {
        let mut phase = self.phase();
        let last = phase.life().cloned();
        *phase = Phase::Closed(last.clone());
        last
    }

    /// Lets go of the last life: a command that got into its mailbox too late to be dropped with it is dropped now.
    pub(crate) fn forget(&self) {
        let last = mem::replace(&mut *self.phase(), Phase::Closed(None));
        drop(last);
    }

    /// Whether this is the present life, not one that made room for it.
    pub(crate) fn is_present(&self, life: ActorId) -> bool {
        self.phase().life().is_some_and(|present| present.is(life))
    }

    /// The present life, which may have ended.
    pub(crate) fn life(&self) -> Option<Life<A>> {
        self.phase().life().cloned()
    }

    fn phase(&self) -> MutexGuard<'_, Phase<A>> {
        // Nothing panics under the lock half-way through a change.
        self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<A: Model> Phase<A> {
    fn life(&self) -> Option<&Life<A>> {
        match self {
            Self::Live(life) => Some(life),
            Self::Dormant => None,
            Self::Closed(last) => last.as_ref(),
        }
    }
}
