//! The test kit and the faults for applications.

mod faulty_journal;
mod faulty_snapshots;
mod kit;
mod model;
mod round_trip;
