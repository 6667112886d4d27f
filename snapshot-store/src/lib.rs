//! Snapshot stores for actor-journal: in memory and on files that survive power loss.
//!
//! The contract, [`SnapshotStore`], stands in `journal-core`, because recovery needs it, and is re-exported here.

mod file;
mod memory;
#[cfg(test)]
mod model;

pub use {
    file::FileSnapshotStore,
    journal_core::{
        Loaded, SelectionCriteria, SkippedSnapshot, Snapshot, SnapshotError, SnapshotMetadata, SnapshotStore,
    },
    memory::MemorySnapshotStore,
};

use std::cmp::Reverse;

use journal_core::{Incarnation, SequenceNr, Timestamp};

/// The order in which snapshots are listed and tried: by number, then by timestamp. The incarnation decides what is
/// left open, so that each store answers the same each time.
fn newest_first(snapshot: &SnapshotMetadata) -> Reverse<(SequenceNr, Timestamp, Incarnation)> {
    Reverse((snapshot.sequence_nr, snapshot.timestamp, snapshot.incarnation))
}

/// Selects one snapshot by its identity, whatever its timestamp.
fn exactly(snapshot: &SnapshotMetadata) -> SelectionCriteria {
    SelectionCriteria::ALL
        .down_to(snapshot.sequence_nr)
        .up_to(snapshot.sequence_nr)
        .of(snapshot.incarnation)
}
