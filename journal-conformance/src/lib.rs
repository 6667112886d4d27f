//! The executable contract of actor-journal.
//!
//! A backend is tested by a fixture, which makes an empty store, and one line, which expands to one named test per
//! case; an adapter by a harness, which spawns actors, and one line per kind of store. Each list of cases exists once: a
//! new case reaches every backend or adapter without an edit.
//!
//! ```
//! use std::sync::Arc;
//!
//! use journal_conformance::{Absent, JournalFixture, journal_suite};
//! use journal_core::{Journal, MemoryJournal};
//!
//! struct Memory(MemoryJournal);
//!
//! #[async_trait::async_trait]
//! impl JournalFixture for Memory {
//!     async fn create() -> Result<Self, Absent> {
//!         Ok(Self(MemoryJournal::new()))
//!     }
//!     async fn open(&self) -> Arc<dyn Journal> {
//!         Arc::new(self.0.reopen())
//!     }
//! }
//!
//! journal_suite!(Memory);
//! # fn main() {}
//! ```
//!
//! | to read | for |
//! |---|---|
//! | [`JournalFixture`], [`SnapshotFixture`] | what a backend's author writes |
//! | [`AdapterHarness`], [`AdapterStores`] | what an adapter's author writes, and where it is tested |
//! | [`journal_cases`], [`snapshot_cases`], [`adapter_cases`] | the lists as values, to run a case by name |
//! | [`controlled`] | a journal whose answers a test decides |
//! | [`faults`] | journals and stores that are wrong on purpose; each fails a named case |
//!
//! A case that a capability rules out says `not applicable` and why; one whose engine is absent says `ignored` and why.
//! `JOURNAL_REQUIRE=kafka,cassandra` turns the absence of these engines into a failure. A case that hangs fails at its
//! deadline. One suite per module; a second one in the same file goes into a `mod` of its own.
//!
//! The cases of random schedules print their seed: `JOURNAL_SEED=7 cargo test schedules` begins with schedule 7.
//! `JOURNAL_FULL=1` runs over a thousand.
//!
#![doc = include_str!("../docs.md")]

mod adapter;
mod cases;
pub mod controlled;
pub mod faults;
mod journal;
mod resident;
mod runner;
mod snapshot;

pub use {
    adapter::{
        AdapterHarness, AdapterStores, AdapterUnderTest, Closed, Parcel, Sum, Tallied, Tally, check_adapter,
    },
    cases::{adapter::adapter_cases, journal::journal_cases, snapshot::snapshot_cases},
    journal::{Damage, JournalFixture, JournalUnderTest, Through, check_journal},
    runner::{Absent, Case, NotApplicable, Outcome, Subject, Verdict},
    snapshot::{SnapshotFixture, SnapshotsUnderTest, check_snapshots},
};

#[doc(hidden)]
pub mod macros {
    //! What the macros expand to.
    pub use crate::{
        adapter::{Pairing, test_adapter},
        journal::test_journal,
        snapshot::test_snapshots,
    };
}

/// Every case of the journal contract as a test of its own, on a [`JournalFixture`].
#[macro_export]
macro_rules! journal_suite {
    ($fixture:ty) => {
        $crate::__journal_cases! { [$crate::__tests] [test_journal $fixture] }
    };
}

/// Every case of the snapshot store contract as a test of its own, on a [`SnapshotFixture`].
#[macro_export]
macro_rules! snapshot_suite {
    ($fixture:ty) => {
        $crate::__snapshot_cases! { [$crate::__tests] [test_snapshots $fixture] }
    };
}

/// Every case of the adapter contract as a test of its own: of an [`AdapterHarness`] on [`AdapterStores`].
#[macro_export]
macro_rules! adapter_suite {
    ($harness:ty, $stores:ty) => {
        $crate::__adapter_cases! { [$crate::__tests] [test_adapter ($harness, $stores)] }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __tests {
    ([$run:ident $fixture:ty] $($theme:ident { $($case:ident,)* })*) => {
        type FixtureUnderTest = $fixture;
        $(
            mod $theme {
                $(
                    #[test]
                    fn $case() {
                        $crate::macros::$run::<super::FixtureUnderTest>(
                            concat!(stringify!($theme), "::", stringify!($case)),
                            module_path!(),
                            stringify!($case),
                        );
                    }
                )*
            }
        )*
    };
}
