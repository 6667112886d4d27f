//! What the ractor adapter promises beyond the contract of adapters, which `tests/ractor_adapter.rs` of the workspace
//! tests.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    missing_docs,
    reason = "a test that panics fails"
)]

mod common;
mod messages;
mod recovery;
mod replies;
mod supervision;
