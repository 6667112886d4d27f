//! What makes an actix actor persistent.

use actix::{Actor, Context, Handler, Supervised};
use journal_core::{EventSourced, Options, RecoveryError};

use crate::{Durable, message::Internal};

/// An actix actor with a [`Durable`] field. `#[derive(PersistentActor)]` implements it, together with `Actor`,
/// `Supervised` and one `Handler` for everything that the actor is a [`PersistentHandler`](crate::PersistentHandler) of.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a persistent actor",
    note = "derive it: `#[derive(PersistentActor)]`"
)]
pub trait PersistentActor:
    Actor<Context = Context<Self>> + Supervised + Handler<Internal<Self::Model>>
{
    /// What handles the commands: the actor itself, or a type of its own.
    type Model: EventSourced;

    /// Whose events these are.
    fn persistence_id(&self) -> String;

    /// The field.
    fn durable(&self) -> &Durable<Self::Model>;

    /// The field.
    fn durable_mut(&mut self) -> &mut Durable<Self::Model>;

    /// The model.
    fn model(&self) -> &Self::Model;

    /// The options of all actors of this type; those of the field come after.
    #[must_use]
    fn options(options: Options<Self::Model>) -> Options<Self::Model> {
        options
    }

    /// [`PersistentHooks::starting`].
    fn on_starting(&mut self, context: &mut Context<Self>) {
        let _ = context;
    }

    /// [`PersistentHooks::recovered`].
    fn on_recovered(&mut self, context: &mut Context<Self>) {
        let _ = context;
    }

    /// [`PersistentHooks::recovery_failed`].
    fn on_recovery_failed(&mut self, error: &RecoveryError, context: &mut Context<Self>) {
        let _ = (error, context);
    }

    /// [`PersistentHooks::stopped`].
    fn on_stopped(&mut self, context: &mut Context<Self>) {
        let _ = context;
    }
}

/// What an actor does at the turns of its life; the derive calls them where the actor has `#[persistent(hooks)]`. They
/// stand for actix's own `started`, `stopping` and `stopped`, which belong to the adapter.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no hooks",
    note = "write `impl PersistentHooks for {Self} {{}}` with the hooks it has, or leave `hooks` out of `#[persistent(..)]`"
)]
pub trait PersistentHooks: PersistentActor {
    /// Each start, before recovery: the state is the initial one. The place for the mailbox's capacity. What is sent from
    /// here to the actor itself waits for recovery.
    fn starting(&mut self, context: &mut Self::Context) {
        let _ = context;
    }

    /// After each start's recovery, before the first command: the place for timers, streams and subscriptions, which a
    /// restart has cancelled; not when it comes back from passivation, which cancels none. What is sent from here to the
    /// actor itself arrives after what waits already.
    fn recovered(&mut self, context: &mut Self::Context) {
        let _ = context;
    }

    /// The actor could not recover and is about to stop.
    fn recovery_failed(&mut self, error: &RecoveryError, context: &mut Self::Context) {
        let _ = (error, context);
    }

    /// The actor has stopped, and the state is the last one: all that it handled is durable or has failed. Where it
    /// panicked or was terminated it may still be on its way there; after a kill, or the end of its arbiter, with writes
    /// in flight this does not run.
    fn stopped(&mut self, context: &mut Self::Context) {
        let _ = context;
    }
}
