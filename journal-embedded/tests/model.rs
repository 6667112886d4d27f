//! The embedded journal against plain lists.
//!
//! A failure prints the shortest sequence of steps that still fails, and leaves its seed in `model.regressions` beside
//! this file: from then on `cargo test -p journal-embedded --test model` repeats it first. `PROPTEST_CASES=1000` in
//! front of that looks further, `PROPTEST_RNG_SEED=7` starts from a given seed.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    missing_docs,
    unreachable_pub,
    reason = "a test"
)]

#[path = "../../journal-core/tests/shared/model.rs"]
mod model;

use futures_executor::block_on;
use journal_embedded::{Durability, EmbeddedJournal};
use proptest::{prelude::*, test_runner::FileFailurePersistence};

/// Each case has files, so there are fewer than by default, with more steps.
fn config() -> ProptestConfig {
    ProptestConfig {
        cases: std::env::var("PROPTEST_CASES").map_or(24, |cases| cases.parse().unwrap()),
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        ..ProptestConfig::default()
    }
}

fn check(durability: Durability, steps: Vec<model::Step>) -> Result<(), TestCaseError> {
    let folder = tempfile::tempdir().unwrap();
    let open = async || {
        // Small limits, so that appends run into them.
        EmbeddedJournal::builder(folder.path())
            .durability(durability)
            .largest_event(20)
            .largest_append(4_000)
            .open()
            .await
            .unwrap()
    };
    block_on(model::run(open, steps))
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn it_answers_as_plain_lists_do(steps in model::steps(120)) {
        check(Durability::Disk, steps)?;
    }

    #[test]
    fn without_a_flush_it_answers_as_plain_lists_do(steps in model::steps(120)) {
        check(Durability::OsBuffer, steps)?;
    }
}
