//! The engine against a journal whose every append the test decides. Rules and traps: protocols of the engine.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]

mod common;
mod deliveries;
mod effects;
mod failures;
mod fencing;
mod gathering;
mod hub;
mod idleness;
mod model;
mod output_commit;
mod overload;
mod recovery;
mod restart_from_here;
mod retention;
mod shutdown;
mod snapshots;
mod stash;
mod stop_and_drop;
mod strict;
mod unknown;
