//! `MemoryJournal`, alone and behind `Blocking`, against plain lists.
//!
//! A failure prints the shortest sequence of steps that still fails, and leaves its seed in
//! `memory_model.regressions` beside this file: from then on `cargo test -p journal-core --test memory_model` repeats
//! it first. `PROPTEST_CASES=10000` in front of that looks further, `PROPTEST_RNG_SEED=7` starts from a given seed.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    missing_docs,
    unreachable_pub,
    reason = "a test"
)]

#[path = "shared/model.rs"]
mod model;

use journal_core::{Blocking, MemoryJournal};
use proptest::{prelude::*, test_runner::FileFailurePersistence};

/// Small limits, so that appends run into them.
fn memory() -> MemoryJournal {
    MemoryJournal::new().with_limits(20, 4_000)
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(future)
}

fn config() -> ProptestConfig {
    ProptestConfig {
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn the_memory_journal_answers_as_plain_lists_do(steps in model::steps(80)) {
        let memory = memory();
        run(model::run(async || memory.reopen(), steps))?;
    }

    #[test]
    fn a_blocking_journal_answers_as_plain_lists_do(steps in model::steps(80)) {
        let memory = memory();
        run(model::run(async || Blocking::new(memory.reopen()), steps))?;
    }
}
