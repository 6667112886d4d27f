//! The ractor supervisor of one persistent actor: outlives its lives, begins the next one, forwards ractor messages.

use std::sync::Arc;

use journal_core::adapter::{BoxedCommand, Halt, Restart, Restarts};
use ractor::{ActorProcessingErr, ActorRef, Message, SupervisionEvent};

use crate::{
    Model,
    life::{CallerTold, Start},
    slot::{Refused, Slot},
};

pub(crate) struct Supervisor<A: Model, M> {
    pub(crate) slot: Arc<Slot<A>>,
    /// What a message asks for.
    pub(crate) accept: fn(M) -> BoxedCommand<A>,
}

impl<A: Model, M> Drop for Supervisor<A, M> {
    fn drop(&mut self) {
        self.slot.forget();
    }
}

#[ractor::actor(message = M, state = Restarts)]
impl<A: Model, M: Message> Supervisor<A, M> {
    async fn pre_start(&self, _myself: ActorRef<M>, (): ()) -> Result<Restarts, ActorProcessingErr> {
        Ok(Restarts::new(self.slot.persistent.options().restart_backoff()))
    }

    async fn handle(
        &self,
        myself: ActorRef<M>,
        message: M,
        _restarts: &mut Restarts,
    ) -> Result<(), ActorProcessingErr> {
        let command = (self.accept)(message);
        if let Err(Refused::Overloaded(command, error)) = self.slot.send(&myself, command) {
            self.slot.refuse(command, error);
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<M>,
        event: SupervisionEvent,
        restarts: &mut Restarts,
    ) -> Result<(), ActorProcessingErr> {
        match event {
            SupervisionEvent::ActorStarted(_) => restarts.healthy(),
            SupervisionEvent::ActorTerminated(life, ..) | SupervisionEvent::ActorFailed(life, _)
                if !self.slot.is_present(life.get_id()) =>
            {
                // It had made room for the next one.
            }
            // A stop, or a kill: somebody wanted the end.
            SupervisionEvent::ActorTerminated(..) => myself.stop(None),
            SupervisionEvent::ActorFailed(_, failure) => {
                if let Some(life) = self.slot.life() {
                    life.ended().await;
                }
                let id = &self.slot.id;
                // Whoever spawned it knows, and may try again.
                let next = if failure.is::<CallerTold>() {
                    Restart::End
                } else {
                    restarts.after(failure.downcast_ref::<Halt>())
                };
                match next {
                    Restart::After(wait) => {
                        tracing::warn!(persistence_id = %id, %failure, ?wait, "a persistent actor failed; it starts again");
                        self.slot.begin(myself.get_cell(), Start { wait, caller: None })?;
                    }
                    Restart::Rest => {
                        tracing::warn!(persistence_id = %id, %failure, "a persistent actor stopped; the next command starts it again");
                        self.slot.rest();
                    }
                    Restart::End => {
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
        _restarts: &mut Restarts,
    ) -> Result<(), ActorProcessingErr> {
        if let Some(life) = self.slot.close() {
            life.finish().await;
        }
        Ok(())
    }
}
