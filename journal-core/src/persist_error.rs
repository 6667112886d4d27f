//! How a failed write reaches the caller: as a value of his own error type.

use std::sync::Arc;

use crate::{JournalError, Outcome, RecoveryError};

/// Why a command has no regular reply. Cheap to clone: one failed append answers many commands.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum PersistError {
    /// The command's events cannot be stored (or were computed on ones that cannot). Nothing of it is stored.
    #[error("rejected: {0}")]
    Rejected(Arc<JournalError>),
    /// Nothing of the command is stored. Sending it again is safe.
    #[error("not stored, sending it again is safe: {0}")]
    NotStored(Arc<JournalError>),
    /// Nobody could tell in time whether the command's events are stored. Make it idempotent before sending it again.
    #[error("it is unknown whether this was stored: {0}")]
    Unknown(Arc<JournalError>),
    /// Another writer took this persistence id over; this actor stops.
    #[error("another writer has taken over: {0}")]
    Fenced(Arc<JournalError>),
    /// The actor has as much waiting work as it may; nothing of the command was done. Send it again later.
    #[error("overloaded: {waiting} commands and {bytes} bytes of events are waiting; send it again later")]
    #[non_exhaustive]
    Overloaded {
        /// Commands that are not answered yet.
        waiting: usize,
        /// Bytes of events that wait for the journal.
        bytes: usize,
    },
    /// The actor is stopping or has stopped; nothing of the command was done.
    #[error("the actor has stopped; nothing of the command was done")]
    Stopped,
    /// A handler panicked; nothing of the command is stored and the actor recovers.
    #[error("the command's handler panicked, nothing of it is stored: {0}")]
    Panicked(Arc<str>),
    /// `restart_from_here` was asked for in a state that is not the initial one, or with deliveries that are not
    /// confirmed; nothing of the command was done.
    #[error(
        "restart_from_here was refused, the state after the command is not the initial one; persist the events that \
         reset it, and confirm what is to be delivered, in the same command"
    )]
    NotInitialState,
    /// The command delivers, and the actor does not; nothing of the command was done.
    #[error("the command delivers, but the actor was not set up to: add `.delivers()` to its options")]
    NotDelivering,
    /// The actor has as many unconfirmed deliveries as it may; nothing of the command was done. Send it again later.
    #[error(
        "{unconfirmed} deliveries are not confirmed, and {limit} may be; send it again when some are confirmed, or raise \
         `Redelivery::max_unconfirmed`"
    )]
    #[non_exhaustive]
    TooManyUnconfirmed {
        /// Deliveries that are not confirmed, without those of the command.
        unconfirmed: usize,
        /// How many there may be.
        limit: usize,
    },
    /// The actor could not recover; nothing of the command was done.
    #[error("the actor could not recover, nothing of the command was done: {0}")]
    RecoveryFailed(Arc<RecoveryError>),
}

impl PersistError {
    /// Whether something of the command may be stored.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::Unknown(_) => Outcome::Unknown,
            Self::Fenced(error) => error.outcome(),
            _ => Outcome::NotStored,
        }
    }
}

/// A reply that can also say that its command failed.
#[diagnostic::on_unimplemented(
    message = "a reply of type `{Self}` cannot say that its command failed",
    note = "make it a `Result<.., E>` where `E: From<PersistError>`, or `()` where nobody waits",
    note = "a message that persists nothing needs no such reply, but a handler as the framework has it"
)]
pub trait FromFailure: Sized {
    /// The reply that tells the failure; `None` where nobody waits, and the failure becomes a
    /// [`Signal::CommandFailed`](crate::Signal) instead.
    fn from_failure(error: PersistError) -> Option<Self>;
}

impl<T, E: From<PersistError>> FromFailure for Result<T, E> {
    fn from_failure(error: PersistError) -> Option<Self> {
        Some(Err(error.into()))
    }
}

impl FromFailure for () {
    fn from_failure(_: PersistError) -> Option<Self> {
        None
    }
}

/// Where a reply goes. Sending runs no user code: it is a hand-over to whoever waits.
pub trait ReplyPort<R>: Send + 'static {
    /// Hands the reply over; whoever no longer waits does not matter.
    fn send(self, reply: R);
}

impl<R: Send + 'static> ReplyPort<R> for tokio::sync::oneshot::Sender<R> {
    fn send(self, reply: R) {
        drop(self.send(reply));
    }
}

/// The port of a command that nobody waits for.
#[derive(Debug, Clone, Copy)]
pub struct NoPort;

impl<R> ReplyPort<R> for NoPort {
    fn send(self, _: R) {}
}
