//! Many rounds of snapshot, deletion of events, deletion of snapshots.

use journal_core::{Persistent, Signal, testing::SnapshotFault};

use crate::{
    adapter::*,
    journal::{Driven, id},
    runner::Verdict,
};

const KEEP: usize = 2;

/// P5: exactly the kept snapshots are left, and the events behind the oldest of them.
pub(crate) async fn leaves_exactly_what_it_should<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    let (described, hears) = tally(ID);
    let described = described.snapshot_every(5).keep(KEEP).delete_events();
    let saved = rounds(on, &described, hears, |_| 1).await;
    assert!(saved.iter().all(|number| number % 5 == 0), "{saved:?}");
    assert_left(on, &saved).await;
    Ok(())
}

/// P5, where the snapshots are not n apart: a write of several events passes a multiple of n, now and then two.
pub(crate) async fn leaves_exactly_what_it_should_where_writes_pass_its_multiples<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    let (described, hears) = tally(ID);
    let described = described.snapshot_every(5).keep(KEEP).delete_events();
    let saved = rounds(on, &described, hears, |round| 1 + round * 7 % 12).await;
    assert!(saved.iter().any(|number| number % 5 != 0), "{saved:?}");
    assert_left(on, &saved).await;
    Ok(())
}

/// P5: without `delete_events` only snapshots are deleted.
pub(crate) async fn keeps_all_events_unless_told_otherwise<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    let (described, hears) = tally(ID);
    let saved = rounds(on, &described.snapshot_every(5).keep(KEEP), hears, |_| 1).await;
    let kept: Vec<u64> = saved.iter().rev().take(KEEP).copied().collect();
    assert_eq!(on.saved().await, kept);
    assert_eq!(on.numbers().await, (1..=COMMANDS).collect::<Vec<_>>());
    Ok(())
}

const COMMANDS: u64 = 100;

/// Lets an actor handle many commands of so many events each, over two lives; the numbers of the snapshots it saved,
/// oldest first.
async fn rounds<H: AdapterHarness>(
    on: &AdapterUnderTest<H>,
    described: &Persistent<Tally>,
    mut hears: Hears,
    events: impl Fn(u64) -> u64,
) -> Vec<u64> {
    let mut total = 0;
    for life in [0..COMMANDS / 2, COMMANDS / 2..COMMANDS] {
        let actor = on.spawn(described).await;
        for command in life {
            let numbers = vec![1; usize::try_from(events(command)).expect("few events")];
            total += numbers.len();
            let reply = actor.ask(AddAll(numbers)).await;
            assert_eq!(usize::try_from(reply).ok(), Some(total));
        }
        actor.stop().await;
        on.gone().await;
    }
    let mut saved = saves(&mut hears);
    // One that is due while a round is in flight is skipped, but not all are.
    assert!(saved.len() > KEEP, "{saved:?}");
    let successor = on.spawn(described).await;
    assert_eq!(usize::try_from(successor.ask(Read).await).ok(), Some(total));
    let newest = saved.last().copied().unwrap_or_default();
    assert_eq!(hears.recovery().await, (newest, total as u64 - newest));
    successor.stop().await;
    on.gone().await;
    // A long tail is a reason for a snapshot, too.
    saved.extend(saves(&mut hears));
    assert!(saved.is_sorted(), "{saved:?}");
    saved
}

/// The snapshots saved so far, where nothing went wrong.
fn saves(hears: &mut Hears) -> Vec<u64> {
    let mut saved = Vec::new();
    for signal in hears.signals() {
        match signal {
            Signal::SnapshotSaved(metadata) => saved.push(metadata.sequence_nr.get()),
            Signal::SnapshotFailed(_) | Signal::EventsNotDeleted(_) | Signal::SnapshotsNotDeleted(_) => {
                panic!("{signal:?}")
            }
            _ => {}
        }
    }
    saved
}

async fn assert_left<H: AdapterHarness>(on: &AdapterUnderTest<H>, saved: &[u64]) {
    let kept: Vec<u64> = saved.iter().rev().take(KEEP).copied().collect();
    assert_eq!(on.saved().await, kept);
    let oldest_kept = kept.last().copied().unwrap_or_default();
    let bounds = on.journal().inner().bounds_of(&id(ID)).await;
    assert_eq!(bounds.deleted_to.get(), oldest_kept);
    let left: Vec<u64> = (oldest_kept + 1..=bounds.highest.get()).collect();
    assert_eq!(on.numbers().await, left);
}

/// P5: a step that fails ends the round: nothing goes that the step was to make obsolete. The next round makes up for it.
pub(crate) async fn makes_up_for_a_round_that_failed<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    let (described, mut hears) = tally(ID);
    let actor = on
        .spawn(&described.snapshot_every(5).keep(1).delete_events())
        .await;
    actor.ask(AddAll(vec![1; 5])).await;
    hears.round().await;
    on.journal().fail_deletions(1);
    actor.ask(AddAll(vec![1; 5])).await;
    hears
        .signal(|signal| matches!(signal, Signal::EventsNotDeleted(_)).then_some(()))
        .await;
    assert_eq!(on.saved().await, [10, 5]);
    assert_eq!(on.numbers().await, [6, 7, 8, 9, 10]);
    on.snapshots().next(SnapshotFault::deletion_fails());
    actor.ask(AddAll(vec![1; 5])).await;
    hears
        .signal(|signal| matches!(signal, Signal::SnapshotsNotDeleted(_)).then_some(()))
        .await;
    assert_eq!(on.saved().await, [15, 10, 5]);
    assert!(on.numbers().await.is_empty());
    actor.ask(AddAll(vec![1; 6])).await;
    hears.round().await;
    assert_eq!(on.saved().await, [21]);
    assert!(on.numbers().await.is_empty());
    assert_eq!(actor.ask(Read).await, 21);
    Ok(())
}

/// P5: a deletion beyond the newest event would take events that are yet to come.
pub(crate) async fn deletes_nothing_beyond_the_newest_event<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    let (described, mut hears) = tally(ID);
    let actor = on.spawn(&described).await;
    actor.ask(AddAll(vec![1; 3])).await;
    actor.ask(TakeSnapshot).await;
    hears.round().await;
    actor.ask(DeleteTo(10)).await;
    hears
        .signal(|signal| matches!(signal, Signal::EventsNotDeleted(_)).then_some(()))
        .await;
    actor.ask(Add(1)).await;
    assert_eq!(on.numbers().await, [1, 2, 3, 4]);
    Ok(())
}
