//! Journals on blocking stores.

use std::fmt::Debug;

#[cfg(doc)]
use crate::Journal;
use crate::{
    Appended, AtomicWrite, Bounds, Capabilities, Claim, Deletion, JournalError, JournalInfo, PersistenceId,
    Record, SequenceNr, WriterId,
};

/// The blocking variant of [`Journal`], for stores without an asynchronous interface. [`Blocking`] runs it as a
/// [`Journal`]. The obligations are those of the methods of the same name.
pub trait SyncJournal: Send + Sync + Debug + 'static {
    /// See [`Journal::info`].
    fn info(&self) -> JournalInfo;
    /// See [`Journal::capabilities`]. `group_commit` must be false: appends of different ids run side by side.
    fn capabilities(&self) -> Capabilities;
    /// See [`Journal::claim`].
    fn claim(&self, id: &PersistenceId, writer: WriterId) -> Result<Claim, JournalError>;
    /// See [`Journal::append`]. [`Claim::begin`] was called: `appended` holds the numbers; the caller settles the
    /// claim by the result.
    fn append(
        &self,
        claim: &mut Claim,
        appended: Appended,
        writes: &[AtomicWrite],
    ) -> Result<(), JournalError>;
    /// See [`Journal::bounds`].
    fn bounds(&self, id: &PersistenceId) -> Result<Bounds, JournalError>;
    /// Reads a chunk of the events `first` to `last`: at least the first of them, as many as fit a bounded buffer.
    fn read_chunk(
        &self,
        id: &PersistenceId,
        first: SequenceNr,
        last: SequenceNr,
    ) -> Result<Vec<Record>, JournalError>;
    /// See [`Journal::delete_to`].
    fn delete_to(&self, id: &PersistenceId, deletion: Deletion) -> Result<SequenceNr, JournalError>;
    /// See [`Journal::purge`].
    fn purge(&self, id: &PersistenceId) -> Result<(), JournalError>;
    /// See [`Journal::flush`].
    fn flush(&self) -> Result<(), JournalError>;
    /// See [`Journal::shutdown`].
    fn shutdown(&self) -> Result<(), JournalError>;
}
