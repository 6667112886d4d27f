//! Errors that answer the caller's next question: was it stored, and what now?

use std::{error::Error as StdError, fmt, sync::Arc, time::Duration};

use tokio::time::Instant;

use crate::{PersistenceId, SequenceNr};

type Source = Box<dyn StdError + Send + Sync>;

/// Whether a failed append was stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Certainly not. It may be repeated.
    NotStored,
    /// Nobody knows yet. Claim again and read, before anything else is written.
    Unknown,
}

/// What went wrong, for decisions; the text of the error is for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The request itself cannot be stored: empty, too large, cannot be encoded. Decided before any I/O; the claim
    /// stays usable.
    Rejected,
    /// The caller's expected number differs from what the claim knows; the claim stays usable.
    Conflict,
    /// A later claim, or a purge, ended this claim.
    Fenced,
    /// The claim was spent by an earlier append; claim again.
    Spent,
    /// The store cannot be reached or cannot take more at the moment.
    Unavailable,
    /// The store did not answer in time.
    Timeout,
    /// The store failed and refuses further writes until it is reopened.
    Poisoned,
    /// Stored data is damaged or has a gap.
    Corrupt,
    /// Stored data cannot be decoded: unknown manifest, codec or version.
    Undecodable,
    /// The id was purged since the request was decided.
    WrongIncarnation,
    /// The configuration or the data's format does not fit.
    Config,
    /// The journal was shut down.
    Closed,
}

/// The call that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// [`Journal::claim`](crate::Journal::claim)
    Claim,
    /// [`Journal::append`](crate::Journal::append)
    Append,
    /// [`Journal::bounds`](crate::Journal::bounds)
    Bounds,
    /// [`Journal::replay`](crate::Journal::replay)
    Replay,
    /// [`Journal::delete_to`](crate::Journal::delete_to)
    DeleteTo,
    /// [`Journal::purge`](crate::Journal::purge)
    Purge,
    /// [`Journal::flush`](crate::Journal::flush)
    Flush,
    /// Opening the store.
    Open,
    /// [`Journal::shutdown`](crate::Journal::shutdown)
    Shutdown,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Claim => "claim",
            Self::Append => "append",
            Self::Bounds => "bounds",
            Self::Replay => "replay",
            Self::DeleteTo => "delete_to",
            Self::Purge => "purge",
            Self::Flush => "flush",
            Self::Open => "open",
            Self::Shutdown => "shutdown",
        })
    }
}

/// The error of every journal call. Two words long, so that `Result`s on the hot path stay small.
pub struct JournalError(Box<Inner>);

#[derive(Debug)]
struct Inner {
    kind: ErrorKind,
    outcome: Outcome,
    operation: Operation,
    persistence_id: Option<PersistenceId>,
    sequence_nr: Option<SequenceNr>,
    write_index: Option<usize>,
    elapsed: Option<Duration>,
    message: String,
    source: Option<Source>,
}

impl JournalError {
    /// An error after which nothing of the request is stored. `message` says what happened and what to do.
    pub fn not_stored(kind: ErrorKind, operation: Operation, message: impl Into<String>) -> Self {
        Self::new(kind, Outcome::NotStored, operation, message.into())
    }

    /// An error that leaves open whether the request, or a part of it, is stored.
    pub fn unknown(kind: ErrorKind, operation: Operation, message: impl Into<String>) -> Self {
        Self::new(kind, Outcome::Unknown, operation, message.into())
    }

    /// A rejected append: `write_index` names the atomic write, counted from 0, or `None` where the call as a whole is
    /// at fault.
    pub fn rejected(write_index: Option<usize>, message: impl Into<String>) -> Self {
        let mut error = Self::not_stored(ErrorKind::Rejected, Operation::Append, message);
        error.0.write_index = write_index;
        error
    }

    fn new(kind: ErrorKind, outcome: Outcome, operation: Operation, message: String) -> Self {
        Self(Box::new(Inner {
            kind,
            outcome,
            operation,
            persistence_id: None,
            sequence_nr: None,
            write_index: None,
            elapsed: None,
            message,
            source: None,
        }))
    }

    /// Adds whose request it was.
    #[must_use]
    pub fn with_id(mut self, id: &PersistenceId) -> Self {
        self.0.persistence_id = Some(id.clone());
        self
    }

    /// Adds the sequence number at which it went wrong.
    #[must_use]
    pub fn with_sequence_nr(mut self, sequence_nr: SequenceNr) -> Self {
        self.0.sequence_nr = Some(sequence_nr);
        self
    }

    /// Adds how long the call took.
    #[must_use]
    pub fn with_elapsed(mut self, elapsed: Duration) -> Self {
        self.0.elapsed = Some(elapsed);
        self
    }

    /// Adds how long the call has taken since `started`, unless the backend said it.
    pub(crate) fn since(mut self, started: Instant) -> Self {
        self.0.elapsed.get_or_insert_with(|| started.elapsed());
        self
    }

    /// The same once it is known that nothing is stored.
    pub(crate) fn resolved(self: &Arc<Self>) -> Self {
        let Inner {
            kind,
            operation,
            ref persistence_id,
            sequence_nr,
            write_index,
            elapsed,
            ref message,
            ..
        } = *self.0;
        Self(Box::new(Inner {
            kind,
            outcome: Outcome::NotStored,
            operation,
            persistence_id: persistence_id.clone(),
            sequence_nr,
            write_index,
            elapsed,
            message: message.clone(),
            source: Some(self.clone().into()),
        }))
    }

    /// Adds the cause.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Source>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// What went wrong.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Whether the request was stored. Reads answer [`Outcome::NotStored`].
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        self.0.outcome
    }

    /// True if the same request may succeed later without anyone doing anything.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        self.0.outcome == Outcome::NotStored
            && matches!(self.0.kind, ErrorKind::Unavailable | ErrorKind::Timeout)
    }

    /// The call that failed.
    #[must_use]
    pub fn operation(&self) -> Operation {
        self.0.operation
    }

    /// Whose request it was, if of one id.
    #[must_use]
    pub fn persistence_id(&self) -> Option<&PersistenceId> {
        self.0.persistence_id.as_ref()
    }

    /// The sequence number at which it went wrong, if known.
    #[must_use]
    pub fn sequence_nr(&self) -> Option<SequenceNr> {
        self.0.sequence_nr
    }

    /// Which atomic write of a rejected append is at fault, counted from 0.
    #[must_use]
    pub fn write_index(&self) -> Option<usize> {
        self.0.write_index
    }

    /// How long the call took, if measured.
    #[must_use]
    pub fn elapsed(&self) -> Option<Duration> {
        self.0.elapsed
    }
}

impl fmt::Debug for JournalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner {
            kind,
            outcome,
            operation,
            persistence_id,
            sequence_nr,
            write_index,
            elapsed,
            message,
            source,
        } = &*self.0;
        f.debug_struct("JournalError")
            .field("kind", kind)
            .field("outcome", outcome)
            .field("operation", operation)
            .field("persistence_id", persistence_id)
            .field("sequence_nr", sequence_nr)
            .field("write_index", write_index)
            .field("elapsed", elapsed)
            .field("message", message)
            .field("source", source)
            .finish()
    }
}

impl fmt::Display for JournalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &*self.0;
        write!(f, "{}", inner.operation)?;
        if let Some(id) = &inner.persistence_id {
            write!(f, " of {id}")?;
        }
        if let Some(sequence_nr) = inner.sequence_nr {
            write!(f, " at {sequence_nr}")?;
        }
        if let Some(index) = inner.write_index {
            write!(f, ", write {index}")?;
        }
        if let Some(elapsed) = inner.elapsed {
            write!(f, ", after {elapsed:?}")?;
        }
        write!(f, ": {}", inner.message)?;
        if inner.outcome == Outcome::Unknown {
            write!(f, " (outcome unknown: claim again and read before writing)")?;
        }
        Ok(())
    }
}

impl StdError for JournalError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0
            .source
            .as_deref()
            .map(|source| source as &(dyn StdError + 'static))
    }
}
