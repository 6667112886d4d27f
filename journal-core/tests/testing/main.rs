//! The test kit and the faults for applications.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]

mod faulty_journal;
mod faulty_snapshots;
mod kit;
mod model;
mod round_trip;
