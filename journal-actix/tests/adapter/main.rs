//! What the actix adapter promises, on a journal that the test controls.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    missing_docs,
    reason = "a test that panics fails"
)]

mod bounds;
mod common;
mod ends;
mod lives;
mod messages;
mod passivation;
mod recovery;
mod signals;
mod threads;
