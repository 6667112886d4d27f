//! Measured in a process of its own, see the runner.

use futures_util::StreamExt;
use journal_core::ReplayRange;

use crate::{
    journal::{Driven, JournalUnderTest, id},
    resident,
    runner::Verdict,
};

const EVENTS: u64 = 3 << 10;
const BYTES: usize = 32 << 10;
/// Half of what the stream holds: room for a store's caches and buffers, none for the stream.
const ROOM: u64 = EVENTS * BYTES as u64 / 2;

/// G6: replaying 96 MiB takes less than half of that.
pub(crate) async fn of_a_replay_does_not_grow_with_the_stream(store: &mut JournalUnderTest) -> Verdict {
    let id = id("account|1");
    store.many(&id, EVENTS, BYTES).await;
    // Opened afresh where that is possible, so that what is measured is the replay's and not the writer's.
    let _ = store.restart().await;
    store.journal().stored(&id, &["one more"]).await;
    let before = resident::now()?;
    resident::forget_peak()?;
    let mut replay = store.journal().replay(&id, ReplayRange::ALL);
    let mut replayed = 0;
    while let Some(record) = replay.next().await {
        replayed += 1;
        assert_eq!(record.expect("readable").sequence_nr.get(), replayed);
    }
    assert_eq!(replayed, EVENTS + 1);
    let grown = resident::peak()?.saturating_sub(before);
    assert!(
        grown < ROOM,
        "replaying {} MiB took {} MiB of memory",
        (EVENTS * BYTES as u64) >> 20,
        grown >> 20
    );
    Ok(())
}
