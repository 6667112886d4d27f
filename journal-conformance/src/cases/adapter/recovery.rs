//! From nothing, from events, from a snapshot and its tail, and what must not be guessed.

use std::{pin::pin, sync::Arc, time::Duration};

use futures_util::future::join_all;
use journal_core::{
    AtomicWrite, Backoff, Journal, PersistError, RecoveryError, SelectionCriteria, SequenceNr, Signal,
    SnapshotStore, testing::SnapshotFault,
};

use crate::{
    adapter::*,
    journal::{Driven, id},
    runner::Verdict,
};

/// R: without a snapshot the base is 0.
pub(crate) async fn from_nothing_is_the_initial_state<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    let (described, mut hears) = tally(ID);
    let actor = on.spawn(&described).await;
    assert_eq!(actor.ask(Read).await, 0);
    assert_eq!(hears.recovery().await, (0, 0));
    assert_eq!(actor.ask(Add(5)).await, 5);
    assert_eq!(on.numbers().await, [1]);
    Ok(())
}

/// R: replay from 1 to the claim's highest.
pub(crate) async fn from_events_applies_them_all<H: AdapterHarness>(on: &mut AdapterUnderTest<H>) -> Verdict {
    let (described, mut hears) = tally(ID);
    let first = on.spawn(&described).await;
    assert_eq!(first.ask(Add(5)).await, 5);
    assert_eq!(first.ask(AddAll(vec![1, 2])).await, 8);
    first.stop().await;
    assert_eq!(hears.recovery().await, (0, 0));
    let second = on.spawn(&described).await;
    assert_eq!(second.ask(Read).await, 8);
    assert_eq!(hears.recovery().await, (0, 3));
    assert_eq!(second.ask(Add(1)).await, 9);
    assert_eq!(on.numbers().await, [1, 2, 3, 4]);
    Ok(())
}

/// R: base = the snapshot's number, replay from base + 1.
pub(crate) async fn from_a_snapshot_applies_only_the_tail<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    let (described, mut hears) = tally(ID);
    let first = on.spawn(&described).await;
    first.ask(AddAll(vec![1, 2, 3])).await;
    first.ask(TakeSnapshot).await;
    assert_eq!(hears.snapshot().await, 3);
    first.ask(AddAll(vec![10, 20])).await;
    first.stop().await;
    let second = on.spawn(&described).await;
    assert_eq!(hears.recovery().await, (3, 2));
    assert_eq!(second.ask(Read).await, 36);
    Ok(())
}

/// R: a deletion up to a number that a snapshot covers leaves a base.
pub(crate) async fn after_a_deletion_needs_only_what_is_left<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    let (described, mut hears) = tally(ID);
    let first = on.spawn(&described).await;
    first.ask(AddAll(vec![1, 2, 3])).await;
    first.ask(TakeSnapshot).await;
    hears.snapshot().await;
    first.ask(DeleteTo(2)).await;
    assert_eq!(hears.deletion().await, 2);
    first.ask(Add(4)).await;
    first.stop().await;
    assert_eq!(on.numbers().await, [3, 4]);
    let second = on.spawn(&described).await;
    assert_eq!(hears.recovery().await, (3, 1));
    assert_eq!(second.ask(Read).await, 10);
    Ok(())
}

/// R: the highest number survives the deletion of everything.
pub(crate) async fn after_a_deletion_of_everything_keeps_the_numbers<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    let (described, mut hears) = tally(ID);
    let first = on.spawn(&described).await;
    first.ask(AddAll(vec![1, 2, 3])).await;
    first.ask(TakeSnapshot).await;
    hears.snapshot().await;
    first.ask(DeleteTo(3)).await;
    assert_eq!(hears.deletion().await, 3);
    first.stop().await;
    assert!(on.numbers().await.is_empty());
    let second = on.spawn(&described).await;
    assert_eq!(hears.recovery().await, (3, 0));
    assert_eq!(second.ask(Add(4)).await, 10);
    assert_eq!(on.numbers().await, [4]);
    second.stop().await;
    drop((first, second));
    on.restart().await;
    let third = on.spawn(&described).await;
    assert_eq!(third.ask(Add(5)).await, 15);
    assert_eq!(on.numbers().await, [4, 5]);
    Ok(())
}

/// R: what is deleted costs a recovery nothing, however much it was.
pub(crate) async fn after_a_deletion_reads_nothing_that_was_deleted<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    let (described, mut hears) = tally(ID);
    let described = described.keep(1).delete_events().snapshot_every(1_000);
    let first = on.spawn(&described).await;
    first.ask(AddAll(vec![1; 500])).await;
    first.ask(TakeSnapshot).await;
    hears.round().await;
    first.ask(Add(1)).await;
    first.stop().await;
    let before = on.journal().replays().len();
    let second = on.spawn(&described).await;
    assert_eq!(second.ask(Read).await, 501);
    let replays = on.journal().replays().split_off(before);
    assert!(!replays.is_empty());
    for replay in replays {
        assert!(replay.from > SequenceNr::new(500), "{replay:?}");
    }
    Ok(())
}

/// R: deleted_to above the base is an error, unless the actor takes the initial state for it.
pub(crate) async fn after_a_deletion_without_a_snapshot_is_refused<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    let (described, mut hears) = tally(ID);
    let first = on.spawn(&described).await;
    first.ask(AddAll(vec![1, 2, 3])).await;
    first.ask(DeleteTo(2)).await;
    // Not through the actor, which knows that nothing covers these events.
    hears
        .signal(|signal| matches!(signal, Signal::EventsNotDeleted(_)).then_some(()))
        .await;
    first.stop().await;
    on.journal().inner().deleted(&id(ID), 2).await;
    let refused = on
        .try_spawn(&described)
        .await
        .err()
        .expect("the state would be a guess");
    assert!(
        matches!(refused, RecoveryError::SnapshotMissing { .. }),
        "{refused}"
    );
    let second = on.spawn(&described.accept_deleted_prefix()).await;
    assert_eq!(second.ask(Read).await, 3);
    Ok(())
}

/// R: snapshots of another incarnation are ignored and reported.
pub(crate) async fn after_a_purge_begins_a_new_life<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    let (described, mut hears) = tally(ID);
    let first = on.spawn(&described).await;
    first.ask(AddAll(vec![1, 2, 3])).await;
    first.ask(TakeSnapshot).await;
    hears.snapshot().await;
    first.stop().await;
    on.gone().await;
    on.journal().purge(&id(ID)).await.expect("it can be purged");
    let second = on.spawn(&described).await;
    hears
        .signal(|signal| matches!(signal, Signal::SnapshotIgnored(_)).then_some(()))
        .await;
    assert_eq!(hears.recovery().await, (0, 0));
    assert_eq!(second.ask(Add(1)).await, 1);
    assert_eq!(on.numbers().await, [1]);
    Ok(())
}

/// R: deleted_to = fresh_start is the initial state; one that is not refuses the command.
pub(crate) async fn after_a_declared_fresh_start_needs_no_snapshot<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    let (described, mut hears) = tally(ID);
    let first = on.spawn(&described).await;
    first.ask(AddAll(vec![1, 2])).await;
    let refused = first.asked(StartOverAnyhow).failure().await;
    assert!(matches!(refused, PersistError::NotInitialState), "{refused}");
    assert_eq!(first.ask(StartOver).await, 0);
    assert_eq!(hears.deletion().await, 3);
    first.stop().await;
    assert!(on.numbers().await.is_empty());
    hears.signals();
    let second = on.spawn(&described).await;
    assert_eq!(hears.recovery().await, (0, 0));
    assert_eq!(second.ask(Add(7)).await, 7);
    assert_eq!(on.numbers().await, [4]);
    Ok(())
}

/// R, where nothing of the process is left.
pub(crate) async fn after_a_restart_of_the_process_is_the_same<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    let (described, mut hears) = tally(ID);
    let first = on.spawn(&described).await;
    first.ask(AddAll(vec![1, 2, 3])).await;
    first.ask(TakeSnapshot).await;
    hears.snapshot().await;
    first.ask(Add(4)).await;
    first.stop().await;
    drop(first);
    on.restart().await;
    hears.signals();
    let second = on.spawn(&described).await;
    assert_eq!(second.ask(Read).await, 10);
    assert_eq!(hears.recovery().await, (3, 1));
    Ok(())
}

/// R: an unreadable snapshot is reported and falls back to full replay where the events still exist.
pub(crate) async fn of_an_unreadable_snapshot_applies_all_events<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    let (described, mut hears) = tally(ID);
    let first = on.spawn(&described).await;
    first.ask(AddAll(vec![1, 2, 3])).await;
    first.ask(TakeSnapshot).await;
    hears.snapshot().await;
    first.stop().await;
    on.snapshots().next(SnapshotFault::load_is_garbled());
    let second = on.spawn(&described).await;
    hears
        .signal(|signal| matches!(signal, Signal::SnapshotIgnored(_)).then_some(()))
        .await;
    assert_eq!(hears.recovery().await, (0, 3));
    assert_eq!(second.ask(Read).await, 6);
    Ok(())
}

/// R: an unreadable snapshot falls back to an older one and its tail.
pub(crate) async fn of_an_unreadable_snapshot_takes_an_older_one<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    let (described, mut hears) = tally(ID);
    let first = on.spawn(&described).await;
    for number in [1, 2, 3] {
        first.ask(Add(number)).await;
        if number < 3 {
            first.ask(TakeSnapshot).await;
            hears.round().await;
        }
    }
    first.stop().await;
    on.snapshots().next(SnapshotFault::load_is_garbled());
    let second = on.spawn(&described).await;
    assert_eq!(hears.recovery().await, (1, 2));
    assert_eq!(second.ask(Read).await, 6);
    Ok(())
}

/// R: without its events an unreadable snapshot fails the recovery, by the one path of all failures: signalled once, and
/// nothing stays taken.
pub(crate) async fn of_an_unreadable_snapshot_without_its_events_fails_once<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    on.permit_recoveries(1);
    let (described, mut hears) = tally(ID);
    let described = described.keep(1).delete_events().snapshot_every(1_000);
    let first = on.spawn(&described).await;
    first.ask(AddAll(vec![1, 2, 3])).await;
    first.ask(TakeSnapshot).await;
    hears.round().await;
    first.stop().await;
    on.gone().await;
    on.snapshots().next(SnapshotFault::load_is_garbled());
    let failed = on.try_spawn(&described).await.err().expect("nothing is left");
    assert!(
        matches!(
            &failed,
            RecoveryError::SnapshotMissing {
                unreadable: Some(_),
                ..
            }
        ),
        "{failed}"
    );
    on.gone().await;
    on.permits_are_back(1).await;
    let second = on.spawn(&described).await;
    assert_eq!(second.ask(Read).await, 6);
    let failures = hears.signals();
    let failures = failures
        .iter()
        .filter(|signal| matches!(signal, Signal::RecoveryFailed(_)));
    assert_eq!(failures.count(), 1);
    Ok(())
}

/// R: a snapshot that is lost after the events it covers were deleted is an error, not the state of what is left.
pub(crate) async fn of_a_lost_snapshot_without_its_events_is_refused<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    let (described, mut hears) = tally(ID);
    let first = on.spawn(&described).await;
    first.ask(AddAll(vec![1, 2, 3])).await;
    first.ask(TakeSnapshot).await;
    hears.snapshot().await;
    first.ask(DeleteTo(2)).await;
    hears.deletion().await;
    first.stop().await;
    on.gone().await;
    let deleted = on
        .snapshots()
        .delete_matching(&id(ID), SelectionCriteria::ALL)
        .await;
    deleted.expect("they can be deleted");
    let refused = on.try_spawn(&described).await.err().expect("it would be a guess");
    assert!(
        matches!(refused, RecoveryError::SnapshotMissing { .. }),
        "{refused}"
    );
    Ok(())
}

/// R: a panic of `apply` at recovery is an error of its number, and takes nothing with it.
pub(crate) async fn of_an_event_that_cannot_be_applied_is_an_error<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    let (described, mut hears) = tally(ID);
    let journal = on.journal().inner();
    let mut claim = journal.claimed(&id(ID)).await;
    let writes = [&Tallied::Added(1), &Tallied::Poison].map(|event| AtomicWrite::from(encoded(event)));
    journal
        .write(&mut claim, writes.into_iter().collect())
        .await
        .expect("stored");
    let failed = on.try_spawn(&described).await.err().expect("apply panics");
    assert!(
        matches!(failed, RecoveryError::Panicked { sequence_nr, .. } if sequence_nr == SequenceNr::new(2)),
        "{failed}"
    );
    hears
        .signal(|signal| matches!(signal, Signal::RecoveryFailed(_)).then_some(()))
        .await;
    on.gone().await;
    Ok(())
}

/// R: a failed recovery leaves nothing, is not tried again for a caller who was told, and gives its permit back.
pub(crate) async fn that_fails_is_the_error_of_spawn<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    on.permit_recoveries(1);
    let (described, _hears) = tally(ID);
    on.journal().set_down(true);
    let failed = on.try_spawn(&described).await.err().expect("no claim succeeds");
    assert!(matches!(failed, RecoveryError::Journal(_)), "{failed}");
    on.gone().await;
    a_while().await;
    assert_eq!(on.journal().claims_made(), 1);
    on.journal().set_down(false);
    let actor = on.spawn(&described).await;
    assert_eq!(actor.ask(Add(5)).await, 5);
    Ok(())
}

/// R: a state that might be wrong is an error, never a guess.
pub(crate) async fn that_the_snapshot_store_fails_is_an_error<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    let (described, _hears) = tally(ID);
    on.snapshots().next(SnapshotFault::load_fails());
    let failed = on
        .try_spawn(&described)
        .await
        .err()
        .expect("the store's answer is missing");
    assert!(matches!(failed, RecoveryError::Snapshots(_)), "{failed}");
    on.spawn(&described).await;
    Ok(())
}

/// R: commands sent meanwhile wait, and are answered in order.
pub(crate) async fn lets_commands_wait_and_answers_them_in_order<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    let (described, mut hears) = tally(ID);
    on.journal().claims.close();
    let actor = on.spawn_instant(&described).await;
    on.journal().claims.arrival().await;
    actor.tell(Note(1));
    let mut adds: Vec<_> = (1..=9).map(|number| actor.asked(Announce(number))).collect();
    actor.tell(Note(2));
    let mut read = actor.asked(Read);
    assert!(!adds.iter_mut().any(Begun::is_done) && !read.is_done());
    on.journal().claims.open();
    for (add, total) in adds.into_iter().zip([1, 3, 6, 10, 15, 21, 28, 36, 45]) {
        assert_eq!(add.reply().await, total);
    }
    assert_eq!(read.reply().await, 45);
    assert_eq!(hears.handled(2).await, [1, 2]);
    assert_eq!(hears.effects(), [1, 3, 6, 10, 15, 21, 28, 36, 45]);
    Ok(())
}

/// R: silence is a failure, and commands that come meanwhile are no sign of life of the journal.
pub(crate) async fn that_hangs_times_out_whatever_commands_come<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    let (described, mut hears) = tally(ID);
    on.journal().claims.close();
    let described = described.recovery_idle_timeout(Duration::from_millis(200));
    let actor = on.spawn_instant(&described).await;
    on.journal().claims.arrival().await;
    let mut asked = Vec::new();
    let mut failed = pin!(hears.failed_recovery());
    let failed = loop {
        asked.push(actor.asked(Add(1)));
        match tokio::time::timeout(Duration::from_millis(5), &mut failed).await {
            Ok(failed) => break failed,
            Err(_) => continue,
        }
    };
    assert!(matches!(*failed, RecoveryError::TimedOut { .. }), "{failed}");
    on.journal().claims.open();
    for reply in join_all(asked).await {
        // Those that came last may have waited for the next attempt.
        if reply.is_err() {
            assert_not_done(&reply);
        }
    }
    actor.read_again().await;
    Ok(())
}

/// R: an actor that cannot recover is no black hole: what waited for that is answered, long before the next attempt.
pub(crate) async fn that_fails_answers_what_waits<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    let never = Backoff {
        shortest: Duration::from_secs(3_600),
        longest: Duration::from_secs(3_600),
    };
    let (described, _hears) = tally(ID);
    on.journal().claims.close();
    let actor = on.spawn_instant(&described.backoff(never)).await;
    on.journal().claims.arrival().await;
    let waiting: Vec<_> = (1..=5).map(|number| actor.asked(Add(number))).collect();
    on.journal().set_down(true);
    on.journal().claims.open();
    for reply in waiting {
        assert_not_done(&reply.await);
    }
    Ok(())
}

/// R: an actor that can never recover holds nothing, so that its id can be purged and used.
pub(crate) async fn that_fails_for_ever_leaves_the_id_to_be_purged<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    let (described, _hears) = tally(ID);
    let journal = on.journal().inner();
    let mut claim = journal.claimed(&id(ID)).await;
    let poison = Arc::from([AtomicWrite::from(encoded(&Tallied::Poison))]);
    journal.write(&mut claim, poison).await.expect("stored");
    let failed = on.try_spawn(&described).await.err().expect("apply panics");
    assert!(matches!(failed, RecoveryError::Panicked { .. }), "{failed}");
    on.gone().await;
    on.journal().purge(&id(ID)).await.expect("it can be purged");
    let actor = on.spawn(&described).await;
    assert_eq!(actor.ask(Add(5)).await, 5);
    Ok(())
}

/// R: options that can never work are no reason to try again.
pub(crate) async fn of_options_that_cannot_work_ends_the_actor<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    on.without_snapshots();
    let (described, _hears) = tally(ID);
    let described = described.snapshot_every(5);
    let refused = on
        .try_spawn(&described)
        .await
        .err()
        .expect("there is no snapshot store");
    assert!(matches!(refused, RecoveryError::Config(_)), "{refused}");
    let actor = on.spawn_instant(&described).await;
    actor.ended().await;
    actor.assert_closed().await;
    assert_eq!(on.journal().claims_made(), 0);
    Ok(())
}

/// P6: supervision starts an actor that nobody waits for again, under the backoff.
pub(crate) async fn that_fails_is_tried_again_with_growing_waits<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    let backoff = Backoff {
        shortest: Duration::from_millis(20),
        longest: Duration::from_millis(50),
    };
    let (described, _hears) = tally(ID);
    on.journal().set_down(true);
    let actor = on.spawn_instant(&described.backoff(backoff)).await;
    while on.journal().claims_made() < 4 {
        a_while().await;
    }
    on.journal().set_down(false);
    assert_eq!(actor.read_again().await, 0);
    for (attempt, waited) in (0..).zip(on.journal().claim_waits()) {
        assert!(
            waited >= backoff.wait(attempt),
            "attempt {attempt} after {waited:?}"
        );
    }
    Ok(())
}
