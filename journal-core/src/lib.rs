//! The journal contract, the engine and everything else of actor-journal that needs no I/O.
//!
//! | to read first | for |
//! |---|---|
//! | [`EventSourced`], [`Handles`], [`Effect`] | what an application writes |
//! | [`persistent`], [`Persistence`] | the options of one actor, and what all actors of a journal share |
//! | [`PersistError`], [`RecoveryError`], [`Signal`] | what can go wrong, and who is told |
//! | [`Journal`] | the contract of every backend, with its obligations |
//! | [`JournalError`] | the three outcomes: stored, rejected, failed (not stored or unknown) |
//! | [`Event`], [`Codec`], [`Upcasters`] | how values become bytes and survive their types' changes |
//! | [`MemoryJournal`] | the reference backend, to read next to the contract |
//! | [`SnapshotStore`] | the contract of every snapshot store |
//! | [`testing`] | what applications test their actors with |
//! | [`adapter`] | what an adapter to an actor framework drives |

mod behavior;
mod caller_error;
mod capabilities;
mod cell;
mod clock;
mod codec;
mod command;
mod deliveries;
mod delivery;
mod effect;
mod effect_task;
mod engine;
mod error;
mod event;
mod event_type;
mod hub;
mod ids;
mod journal;
mod ledger;
mod listener;
mod memory;
mod options;
mod persist_error;
mod persistence;
mod prepare;
mod recover;
mod recovery;
mod redelivery;
mod restarts;
mod retention;
mod schema;
mod signal;
mod snapshot;
mod state_snapshot;
mod stream;
mod sync;
pub mod testing;
mod upcast;

#[cfg(feature = "bincode")]
pub use codec::Bincode;
pub use {
    behavior::{Command, EventSourced, Handles},
    caller_error::{AskError, TellError},
    capabilities::{Capabilities, Durability, Fencing, GapPolicy, JournalInfo},
    clock::{Clock, SystemClock},
    codec::{Codec, CodecError, CodecId, Json, MessagePack, SharedCodec},
    delivery::{Delivers, DeliveryId, Redelivery},
    effect::{Effect, Effects},
    error::{ErrorKind, JournalError, Operation, Outcome},
    event::{AtomicWrite, EncodedEvent, Manifest, Record, Tag, Timestamp},
    event_type::{Event, EventSerializer},
    ids::{Epoch, Incarnation, InvalidPersistenceId, PersistenceId, SequenceNr, WriterId},
    journal::{AppendPart, Appended, Bounds, Claim, Deletion, Journal, JournalExt, ReplayRange},
    memory::MemoryJournal,
    options::{Backoff, Options, Persistent, persistent},
    persist_error::{FromFailure, PersistError},
    persistence::{Persistence, PersistenceBuilder},
    recovery::RecoveryError,
    signal::Signal,
    snapshot::{
        Loaded, SelectionCriteria, SkippedSnapshot, Snapshot, SnapshotError, SnapshotMetadata, SnapshotStore,
    },
    stream::EventStream,
    sync::{Blocking, SyncJournal},
    upcast::Upcasters,
};

pub mod adapter {
    //! What an adapter to an actor framework drives; applications need none of it.
    //!
    //! An adapter owns an [`Engine`] inside its actor, gives it commands as [`BoxedCommand`]s with a [`ReplyPort`] each,
    //! and hears of it through a [`Listener`].

    pub use crate::{
        command::{Admission, BoxedCommand},
        engine::{Decision, Engine, Halt, Recovered, Step},
        listener::{Direct, Listener, Told},
        persist_error::{NoPort, ReplyPort},
        restarts::{Restart, Restarts},
    };
}
