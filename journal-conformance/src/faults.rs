//! Journals and snapshot stores that are wrong on purpose: a suite that passes one of them is not strict enough.
//!
//! Each is a right one behind a wrapper that breaks one rule. The right ones can be restarted, damaged and silenced, so
//! that every case applies to them.

mod journal;
mod simulated;
mod snapshot;

pub use {
    journal::{JournalFault, journal_faults},
    simulated::{SimulatedJournals, SimulatedSnapshots},
    snapshot::{SnapshotFault, snapshot_faults},
};
