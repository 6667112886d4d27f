//! How commands travel as ractor messages, and replies through ractor's ports.

use std::fmt;

use journal_core::{
    Command, Effect, Handles,
    adapter::{BoxedCommand, NoPort, ReplyPort},
};
use ractor::RpcReplyPort;

use crate::Model;

/// Any command of `A` as the message of an `ActorRef<Envelope<A>>`, for ractor's own `cast`, `call`, timers and derived
/// references. [`PersistentRef::ask`](crate::PersistentRef::ask) is shorter and skips a mailbox.
pub struct Envelope<A: Model>(pub(crate) BoxedCommand<A>);

impl<A: Model> Envelope<A> {
    /// A command that nobody waits for.
    pub fn cast<C: Command>(command: C) -> Self
    where
        A: Handles<C>,
    {
        Self(BoxedCommand::new(command, NoPort))
    }

    /// A command whose reply goes to `port`.
    pub fn call<C: Command>(command: C, port: RpcReplyPort<C::Reply>) -> Self
    where
        A: Handles<C>,
    {
        Self(BoxedCommand::new(command, Port(port)))
    }
}

impl<A: Model> fmt::Debug for Envelope<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Envelope").field(&self.0).finish()
    }
}

#[cfg(feature = "cluster")]
impl<A: Model> ractor::Message for Envelope<A> {}

/// `RpcReplyPort` and `ReplyPort` both belong to other crates.
struct Port<R>(RpcReplyPort<R>);

impl<R: Send + 'static> ReplyPort<R> for Port<R> {
    fn send(self, reply: R) {
        drop(self.0.send(reply));
    }
}

/// Replies of commands that carry their own ports.
pub trait ThenReplyTo<A: Model> {
    /// Sends what `reply` makes of the state right after this command's own events to `port`, once those events are
    /// durable. If they fail the port is dropped: the caller gets ractor's `SenderError`, the model a
    /// [`Signal::CommandFailed`](journal_core::Signal::CommandFailed).
    fn then_reply_to<R: Send + 'static>(
        self,
        port: RpcReplyPort<R>,
        reply: impl FnOnce(&A::State) -> R + Send + 'static,
    ) -> Self;
}

impl<A: Model> ThenReplyTo<A> for Effect<A> {
    fn then_reply_to<R: Send + 'static>(
        self,
        port: RpcReplyPort<R>,
        reply: impl FnOnce(&A::State) -> R + Send + 'static,
    ) -> Self {
        self.then_run(move |state| {
            let reply = reply(state);
            move || drop(port.send(reply))
        })
    }
}
