//! Snapshots that fail: an optimisation, never the truth.

use journal_core::{Signal, testing::SnapshotFault};

use crate::{adapter::*, runner::Verdict};

/// P5: a failed snapshot deletes nothing, fails no command and is signalled.
pub(crate) async fn that_fail_delete_nothing<H: AdapterHarness>(on: &mut AdapterUnderTest<H>) -> Verdict {
    let (described, mut hears) = tally(ID);
    let described = described.snapshot_every(2).keep(1).delete_events();
    let first = on.spawn(&described).await;
    on.snapshots().next(SnapshotFault::save_fails());
    assert_eq!(first.ask(Add(1)).await, 1);
    assert_eq!(first.ask(Add(2)).await, 3);
    hears
        .signal(|signal| matches!(signal, Signal::SnapshotFailed(_)).then_some(()))
        .await;
    first.stop().await;
    on.gone().await;
    assert_eq!(on.numbers().await, [1, 2]);
    assert!(on.saved().await.is_empty());
    let second = on.spawn(&described).await;
    assert_eq!(second.ask(Read).await, 3);
    Ok(())
}

/// P5: the next round makes up for a failed one.
pub(crate) async fn are_tried_again_by_the_next_round<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    let (described, mut hears) = tally(ID);
    // Rounds come by command only.
    let described = described.snapshot_every(1_000).keep(1).delete_events();
    let first = on.spawn(&described).await;
    on.snapshots().next(SnapshotFault::save_fails());
    first.ask(AddAll(vec![1, 2])).await;
    first.ask(TakeSnapshot).await;
    hears
        .signal(|signal| matches!(signal, Signal::SnapshotFailed(_)).then_some(()))
        .await;
    first.ask(Add(3)).await;
    // Skipped while the failed round is not yet over.
    while on.saved().await.is_empty() {
        first.ask(TakeSnapshot).await;
    }
    first.stop().await;
    on.gone().await;
    assert_eq!(on.saved().await, [3]);
    assert!(on.numbers().await.is_empty());
    let second = on.spawn(&described).await;
    assert_eq!(second.ask(Read).await, 6);
    Ok(())
}

/// R: a recovery that had to replay many events without one takes one, so that the next does not take as long.
pub(crate) async fn follow_a_long_replay<H: AdapterHarness>(on: &mut AdapterUnderTest<H>) -> Verdict {
    let (described, mut hears) = tally(ID);
    let first = on.spawn(&described).await;
    first.ask(AddAll(vec![1; 10])).await;
    first.stop().await;
    let second = on.spawn(&described.snapshot_every(7)).await;
    assert_eq!(hears.snapshot().await, 10);
    assert_eq!(second.ask(Read).await, 10);
    Ok(())
}
