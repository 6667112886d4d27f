//! The engine against a journal whose every append the test decides. Rules and traps: protocols of the engine.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;
mod effects;
mod failures;
mod gathering;
mod recovery;
mod retention;
mod smoke;
mod snapshots;
mod stop_and_drop;
mod strict;
mod unknown;
