//! The ractor supervisor of one persistent actor: outlives its lives, begins the next one, forwards ractor messages.

use std::{sync::Arc, time::Duration};

use journal_core::{Backoff, BoxedCommand, EventSourced, Halt, RecoveryError};
use ractor::{ActorProcessingErr, ActorRef, Message, SupervisionEvent};
use tokio::time::Instant;

use crate::{
    life::{CallerTold, Start},
    slot::{Refused, Slot},
};

pub(crate) struct Supervisor<A: EventSourced, M> {
    pub(crate) slot: Arc<Slot<A>>,
    /// What a message asks for.
    pub(crate) accept: fn(M) -> BoxedCommand<A>,
}

impl<A: EventSourced, M> Drop for Supervisor<A, M> {
    fn drop(&mut self) {
        self.slot.forget();
    }
}

/// How often it failed of late.
#[derive(Default)]
pub(crate) struct Failures {
    count: u32,
    healthy_since: Option<Instant>,
}

impl Failures {
    /// The wait before the next life. One that was healthy for as long as the longest wait starts the count anew.
    fn next_wait(&mut self, backoff: Backoff) -> Duration {
        let healthy = self.healthy_since.take();
        if healthy.is_some_and(|since| since.elapsed() >= backoff.longest) {
            self.count = 0;
        }
        let wait = backoff.wait(self.count);
        self.count = self.count.saturating_add(1);
        wait
    }
}

/// What follows a failure.
enum Next {
    Restart,
    /// Another has the id, and restarting would fight it. Wait until somebody wants this actor again.
    Rest,
    /// It cannot get better, or whoever spawned it knows.
    End,
}

impl Next {
    fn after(failure: &ActorProcessingErr) -> Self {
        if failure.is::<CallerTold>() {
            return Self::End;
        }
        match failure.downcast_ref() {
            Some(Halt::Fenced(_)) => Self::Rest,
            Some(Halt::RecoveryFailed(error)) => match **error {
                RecoveryError::AlreadyLive { .. } => Self::Rest,
                RecoveryError::InvalidId(_) | RecoveryError::Config(_) => Self::End,
                _ => Self::Restart,
            },
            _ => Self::Restart,
        }
    }
}

#[ractor::actor(message = M, state = Failures)]
impl<A: EventSourced, M: Message> Supervisor<A, M> {
    async fn pre_start(&self, _myself: ActorRef<M>, (): ()) -> Result<Failures, ActorProcessingErr> {
        Ok(Failures::default())
    }

    async fn handle(
        &self,
        myself: ActorRef<M>,
        message: M,
        _failures: &mut Failures,
    ) -> Result<(), ActorProcessingErr> {
        let command = (self.accept)(message);
        if let Err(Refused::Overloaded(command, error)) = self.slot.send(&myself, command) {
            self.slot.persistent.refuse(command, error);
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<M>,
        event: SupervisionEvent,
        failures: &mut Failures,
    ) -> Result<(), ActorProcessingErr> {
        match event {
            SupervisionEvent::ActorStarted(_) => failures.healthy_since = Some(Instant::now()),
            // A stop, or a kill: somebody wanted the end.
            SupervisionEvent::ActorTerminated(..) => myself.stop(None),
            SupervisionEvent::ActorFailed(_, failure) => {
                if let Some(life) = self.slot.life() {
                    life.ended().await;
                }
                let id = &self.slot.id;
                match Next::after(&failure) {
                    Next::Restart => {
                        let wait = failures.next_wait(self.slot.persistent.restart_backoff());
                        tracing::warn!(persistence_id = %id, %failure, ?wait, "a persistent actor failed; it starts again");
                        self.slot.begin(myself.get_cell(), Start { wait, caller: None })?;
                    }
                    Next::Rest => {
                        tracing::warn!(persistence_id = %id, %failure, "a persistent actor stopped; the next command starts it again");
                        self.slot.rest();
                    }
                    Next::End => {
                        tracing::error!(persistence_id = %id, %failure, "a persistent actor ended");
                        myself.stop(None);
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    async fn post_stop(
        &self,
        _myself: ActorRef<M>,
        _failures: &mut Failures,
    ) -> Result<(), ActorProcessingErr> {
        if let Some(life) = self.slot.close() {
            life.finish().await;
        }
        Ok(())
    }
}
