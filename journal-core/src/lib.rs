//! The journal contract, the engine and everything else of actor-journal that needs no I/O.
//!
//! | to read first | for |
//! |---|---|
//! | [`Journal`] | the contract of every backend, with its obligations |
//! | [`JournalError`] | the three outcomes: stored, rejected, failed (not stored or unknown) |
//! | [`Event`], [`Codec`], [`Upcasters`] | how values become bytes and survive their types' changes |
//! | [`MemoryJournal`] | the reference backend, to read next to the contract |
//! | [`SnapshotStore`] | the contract of every snapshot store |

mod capabilities;
mod clock;
mod codec;
mod error;
mod event;
mod event_type;
mod ids;
mod journal;
mod memory;
mod schema;
mod snapshot;
mod stream;
mod sync;
mod upcast;

#[cfg(feature = "bincode")]
pub use codec::Bincode;
pub use {
    capabilities::{Capabilities, Durability, Fencing, GapPolicy, JournalInfo},
    clock::{Clock, SystemClock},
    codec::{Codec, CodecError, CodecId, Json, MessagePack, SharedCodec},
    error::{ErrorKind, JournalError, Operation, Outcome},
    event::{AtomicWrite, EncodedEvent, Manifest, Record, Tag, Timestamp},
    event_type::{Event, EventSerializer},
    ids::{Epoch, Incarnation, InvalidPersistenceId, PersistenceId, SequenceNr, WriterId},
    journal::{AppendPart, Appended, Bounds, Claim, Deletion, Journal, JournalExt, ReplayRange},
    memory::MemoryJournal,
    snapshot::{
        Loaded, SelectionCriteria, SkippedSnapshot, Snapshot, SnapshotError, SnapshotMetadata, SnapshotStore,
    },
    stream::EventStream,
    sync::{Blocking, SyncJournal},
    upcast::Upcasters,
};
