//! What a caller gets where no reply can come.

use crate::PersistError;

/// Why a command got no reply. What went wrong with the command itself stands in its reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// The actor ended, or failed and starts again, before it handled the command: nothing of it was done. Two more end
    /// here, both with a signal for the model: a command whose `Reply` is `()` that failed, and one whose error type
    /// panicked when it was made of the [`PersistError`].
    #[error("the actor ended before it answered the command")]
    Closed,
    /// The reply did not come in time. The command may still be handled.
    #[error("no reply came in time; the command may still be handled")]
    Timeout,
}

/// Why a command was not sent; nothing of it was done.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum TellError {
    /// The actor has ended.
    #[error("the actor has ended; nothing of the command was done")]
    Closed,
    /// As many commands wait as may.
    #[error(transparent)]
    Overloaded(PersistError),
}
