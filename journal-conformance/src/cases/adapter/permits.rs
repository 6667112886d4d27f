//! How many recover at once, and that nobody keeps the right to.

use std::sync::Arc;

use futures_util::future::join_all;
use journal_core::{AtomicWrite, RecoveryError, testing::SnapshotFault};

use crate::{
    adapter::*,
    journal::{Driven, id},
    runner::Verdict,
};

/// R: no more recoveries at once than permits, each of which is given back.
pub(crate) async fn bound_how_many_of_ten_thousand_recover_at_once<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    const PERMITS: usize = 8;
    on.permit_recoveries(PERMITS);
    on.journal().claims.close();
    let mut actors = Vec::new();
    for number in 0..10_000 {
        actors.push(on.spawn_instant(&tally(&format!("tally|{number}")).0).await);
    }
    let adds: Vec<_> = actors.iter().map(|actor| actor.asked(Add(5))).collect();
    for _ in 0..PERMITS {
        on.journal().claims.arrival().await;
    }
    on.journal().claims.open();
    for reply in join_all(adds).await {
        assert!(matches!(reply, Ok(Ok(5))), "{reply:?}");
    }
    assert_eq!(on.journal().claims.most_waiting(), PERMITS);
    on.permits_are_back(PERMITS).await;
    Ok(())
}

/// R: a journal's permits are its own, so that recoveries from one do not starve those from another.
pub(crate) async fn of_one_persistence_hold_up_no_other<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    on.permit_recoveries(1);
    on.journal().claims.close();
    let first = on.spawn_instant(&tally("tally|first").0).await;
    on.journal().claims.arrival().await;
    let other = on.another_persistence(1);
    let second = on.spawn_instant_on(&other, &tally("tally|second").0).await;
    on.journal().claims.arrival().await;
    on.journal().claims.open();
    assert_eq!(first.ask(Add(1)).await, 1);
    assert_eq!(second.ask(Add(2)).await, 2);
    Ok(())
}

/// Somebody else has the only permit, for as long as the gate of the claims is closed.
async fn taken<H: AdapterHarness>(on: &mut AdapterUnderTest<H>) -> Actor<H> {
    on.permit_recoveries(1);
    on.journal().claims.close();
    let first = on.spawn_instant(&tally("tally|first").0).await;
    on.journal().claims.arrival().await;
    first
}

/// R, P8: an actor that waits for a permit can be stopped; its place in the queue goes with it.
pub(crate) async fn are_not_kept_from_others_by_a_stop_in_the_queue<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    let first = taken(on).await;
    let (described, _hears) = tally(ID);
    let queued = on.spawn_instant(&described).await;
    let asked = queued.asked(Add(1));
    on.is_taken(ID).await;
    queued.stop().await;
    assert_not_done(&asked.await);
    on.gone().await;
    on.journal().claims.open();
    assert_eq!(first.ask(Add(5)).await, 5);
    on.permits_are_back(1).await;
    assert_eq!(on.journal().claims_made(), 1);
    let next = on.spawn(&described).await;
    assert_eq!(next.ask(Read).await, 0);
    Ok(())
}

/// The same, killed.
pub(crate) async fn are_not_kept_from_others_by_a_kill_in_the_queue<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    let first = taken(on).await;
    let (described, _hears) = tally(ID);
    let queued = on.spawn_instant(&described).await;
    let asked = queued.asked(Add(1));
    on.is_taken(ID).await;
    queued.kill().await?;
    assert_not_done(&asked.await);
    on.gone().await;
    on.journal().claims.open();
    assert_eq!(first.ask(Add(5)).await, 5);
    on.permits_are_back(1).await;
    assert_eq!(on.journal().claims_made(), 1);
    Ok(())
}

/// R, P8: an actor that recovers, though it may take for ever, can be stopped and gives its permit back.
pub(crate) async fn are_given_back_by_a_stop_while_recovering<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    let first = taken(on).await;
    let asked = first.asked(Add(1));
    first.stop().await;
    assert_not_done(&asked.await);
    on.permits_are_back(1).await;
    on.id_is_free("tally|first").await;
    Ok(())
}

/// The same, killed.
pub(crate) async fn are_given_back_by_a_kill_while_recovering<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    let first = taken(on).await;
    let asked = first.asked(Add(1));
    first.kill().await?;
    assert_not_done(&asked.await);
    on.permits_are_back(1).await;
    on.id_is_free("tally|first").await;
    Ok(())
}

/// R: whatever a recovery fails of, at whichever point, as often as it likes.
pub(crate) async fn are_given_back_by_whatever_fails<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    const PERMITS: usize = 2;
    on.permit_recoveries(PERMITS);
    let live = on.spawn(&tally("tally|live").0).await;
    let journal = on.journal().inner();
    let mut claim = journal.claimed(&id("tally|poisoned")).await;
    let poison = Arc::from([AtomicWrite::from(encoded(&Tallied::Poison))]);
    journal.write(&mut claim, poison).await.expect("it is stored");
    for _ in 0..5 {
        on.snapshots().next(SnapshotFault::load_fails());
        let failing = [
            tally_that(OnceRecovered::Panics, "tally|panics").0,
            tally("tally|poisoned").0,
            tally("tally|live").0,
            tally("tally|one of these has no snapshots").0,
        ];
        let spawned = join_all(failing.iter().map(|described| on.try_spawn(described))).await;
        let failed = spawned.iter().filter(|spawned| spawned.is_err()).count();
        assert!(failed >= 3, "{failed} of 4 failed");
        for actor in spawned.into_iter().flatten() {
            actor.stop().await;
        }
        on.journal().set_down(true);
        let down = on.try_spawn(&tally("tally|down").0).await.err();
        assert!(matches!(down, Some(RecoveryError::Journal(_))), "{down:?}");
        on.journal().set_down(false);
        on.permits_are_back(PERMITS).await;
    }
    assert_eq!(live.ask(Add(5)).await, 5);
    Ok(())
}
