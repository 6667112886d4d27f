//! What the ractor adapter promises, on a memory journal that the test controls.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    missing_docs,
    reason = "a test that panics fails"
)]

mod common;
mod failures;
mod messages;
mod recovery;
mod replies;
mod supervision;
