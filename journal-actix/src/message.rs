//! How commands travel as actix messages, and replies through actix's senders.

use std::{
    fmt, mem,
    sync::{Arc, Mutex, PoisonError},
};

use actix::{
    Actor, Message,
    dev::{MessageResponse, OneshotSender},
};
use journal_core::{
    Command, EventSourced, FromFailure, Handles,
    adapter::{BoxedCommand, ReplyPort},
};

use tokio::sync::oneshot;

use crate::{PersistentActor, life};

/// Handles a message as a command. Implemented for every command whose model handles it: one that is an actix message
/// itself, or any in an [`Ask`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not handle the message `{M}`",
    note = "as a command: `impl Command for {M}` and `impl Handles<{M}>` for the model of `{Self}`",
    note = "as a message that persists nothing: `impl actix::Handler<{M}> for {Self}`"
)]
pub trait PersistentHandler<M>: PersistentActor
where
    M: Message,
    M::Result: FromFailure + Send,
{
    /// Takes the message; its reply comes once everything that it depends on is durable.
    fn handle(&mut self, message: M, context: &mut Self::Context) -> DurableResponse<M::Result>;
}

impl<A, C> PersistentHandler<C> for A
where
    A: PersistentActor,
    A::Model: Handles<C>,
    C: Command + Message<Result = C::Reply>,
{
    fn handle(&mut self, command: C, context: &mut Self::Context) -> DurableResponse<C::Reply> {
        let (port, response) = response();
        life::take(self, context, BoxedCommand::new(command, port));
        response
    }
}

/// Any command as an actix message: for models that know nothing of actix.
#[derive(Debug, Clone, Copy)]
pub struct Ask<C>(pub C);

impl<C: Command> Message for Ask<C> {
    type Result = C::Reply;
}

impl<A, C> PersistentHandler<Ask<C>> for A
where
    A: PersistentActor,
    A::Model: Handles<C>,
    C: Command,
{
    fn handle(&mut self, Ask(command): Ask<C>, context: &mut Self::Context) -> DurableResponse<C::Reply> {
        let (port, response) = response();
        life::take(self, context, BoxedCommand::new(command, port));
        response
    }
}

/// What the adapter sends to its actors.
#[doc(hidden)]
#[expect(missing_debug_implementations, reason = "nobody else sees one")]
pub struct Internal<M: EventSourced>(pub(crate) Inbox<M>);

pub(crate) enum Inbox<M: EventSourced> {
    /// A command that has its port already.
    Command(BoxedCommand<M>),
    /// The engine wants to be looked at, or somebody wants the end.
    Wake,
    /// Time to see whether it is idle; dropped once that is seen.
    Look(oneshot::Sender<()>),
    /// Everything that waited for a recovery that failed is refused.
    Refused,
    /// Everything before this is handled: end.
    Finish,
    /// Everything before this is handled: answer when it is durable or has failed.
    Settle(oneshot::Sender<()>),
}

impl<M: EventSourced> Message for Internal<M> {
    type Result = ();
}

impl<A: PersistentActor> PersistentHandler<Internal<A::Model>> for A {
    fn handle(
        &mut self,
        Internal(inbox): Internal<A::Model>,
        context: &mut Self::Context,
    ) -> DurableResponse<()> {
        match inbox {
            Inbox::Command(command) => life::take(self, context, command),
            Inbox::Wake => life::pump(self, context),
            Inbox::Look(_looked) => life::look(self),
            Inbox::Refused => life::refused(self, context),
            Inbox::Finish => life::end(self, context),
            Inbox::Settle(settled) => {
                let all = self.durable().settled();
                actix::spawn(async move {
                    all.await;
                    // Whoever no longer waits does not matter.
                    let _ = settled.send(());
                });
            }
        }
        DurableResponse::now(())
    }
}

/// A reply that comes when it may, through the sender that actix made for it: nothing is spawned to wait for it.
#[must_use = "the caller gets it only if the handler returns it"]
pub struct DurableResponse<R>(Arc<Slot<R>>);

impl<R> DurableResponse<R> {
    /// A reply that depends on nothing.
    pub fn now(reply: R) -> Self {
        Self(Arc::new(Slot(Mutex::new(Half::Reply(reply)))))
    }
}

impl<R> fmt::Debug for DurableResponse<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DurableResponse").finish_non_exhaustive()
    }
}

impl<A, M> MessageResponse<A, M> for DurableResponse<M::Result>
where
    A: Actor,
    M: Message,
{
    fn handle(self, _: &mut A::Context, sender: Option<OneshotSender<M::Result>>) {
        // Without a sender nobody waits, and the reply goes with the slot.
        if let Some(sender) = sender {
            self.0.meet(Half::Sender(sender));
        }
    }
}

/// Where a reply and actix's sender for it meet; whichever comes second completes the other. Dropped with only the
/// sender in it, the caller sees a closed mailbox.
struct Slot<R>(Mutex<Half<R>>);

enum Half<R> {
    None,
    Reply(R),
    Sender(OneshotSender<R>),
}

impl<R> Slot<R> {
    fn meet(&self, half: Half<R>) {
        let met = {
            let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            match (mem::replace(&mut *slot, Half::None), half) {
                (Half::Reply(reply), Half::Sender(sender)) | (Half::Sender(sender), Half::Reply(reply)) => {
                    Some((sender, reply))
                }
                (_, first) => {
                    *slot = first;
                    None
                }
            }
        };
        if let Some((sender, reply)) = met {
            // Whoever no longer waits does not matter.
            drop(sender.send(reply));
        }
    }
}

fn response<R>() -> (Port<R>, DurableResponse<R>) {
    let slot = Arc::new(Slot(Mutex::new(Half::None)));
    (Port(slot.clone()), DurableResponse(slot))
}

struct Port<R>(Arc<Slot<R>>);

impl<R: Send + 'static> ReplyPort<R> for Port<R> {
    fn send(self, reply: R) {
        self.0.meet(Half::Reply(reply));
    }
}
