//! Futures that their callers drop half-way.

use std::{sync::Arc, time::Duration};

use futures_util::{FutureExt, future::join_all};
use journal_core::{AppendPart, AtomicWrite, Claim, ReplayRange};

use crate::{
    journal::{Driven, JournalUnderTest, event, id, plain_deletion},
    runner::Verdict,
};

const SIZE: u64 = 5;

/// Two writes of five events each.
fn two_writes() -> Arc<[AtomicWrite]> {
    let write: AtomicWrite = (0..SIZE).map(|n| event(n.to_string())).collect::<Vec<_>>().into();
    Arc::from([write.clone(), write])
}

/// Polls once, or for so long, then drops.
async fn dropped_after<T>(patience: Duration, future: impl Future<Output = T>) -> Option<T> {
    if patience.is_zero() {
        return future.now_or_never();
    }
    tokio::time::timeout(patience, future).await.ok()
}

/// From one poll to long enough for most journals.
fn patiences() -> impl Iterator<Item = Duration> {
    [0, 20, 50, 100, 200, 400, 800, 1_600, 3_200, 6_400]
        .into_iter()
        .cycle()
        .take(40)
        .map(Duration::from_micros)
}

/// Each write is there whole or not at all, claim and bounds agree, and nothing appears later.
async fn assert_whole_writes(store: &JournalUnderTest, dropped: &Claim, at_least: u64) {
    let journal = store.journal();
    let mut claim = journal.claimed(dropped.id()).await;
    let highest = claim.highest().get();
    assert_eq!(highest % SIZE, 0, "a dropped append left a part of a write");
    assert!((at_least..=at_least + 2 * SIZE).contains(&highest), "{highest}");
    let numbers = journal.numbers(dropped.id(), ReplayRange::ALL).await;
    assert!(
        numbers.into_iter().eq(1..=highest),
        "what is replayed is not what is counted"
    );
    let appended = journal
        .write(&mut claim, two_writes())
        .await
        .expect("a new claim can append");
    assert_eq!(
        appended.first.get(),
        highest + 1,
        "a dropped append was stored after a later claim"
    );
    let numbers = journal.numbers(dropped.id(), ReplayRange::ALL).await;
    assert!(numbers.into_iter().eq(1..=appended.last.get()));
}

/// G8: a dropped append leaves the claim spent, and happens whole or not at all.
pub(crate) async fn of_an_append_tears_no_write(store: &mut JournalUnderTest) -> Verdict {
    store.needs_fencing()?;
    for (round, patience) in patiences().enumerate() {
        let mut claim = store.journal().claimed(&id(&format!("account|{round}"))).await;
        match dropped_after(patience, store.journal().write(&mut claim, two_writes())).await {
            Some(result) => {
                result.expect("stored");
                assert_whole_writes(store, &claim, 2 * SIZE).await;
            }
            None => {
                assert!(claim.is_spent(), "a dropped append left its claim usable");
                assert_whole_writes(store, &claim, 0).await;
            }
        }
    }
    Ok(())
}

/// G8, in a group.
pub(crate) async fn of_a_group_tears_no_write(store: &mut JournalUnderTest) -> Verdict {
    store.needs_fencing()?;
    for (round, patience) in patiences().take(20).enumerate() {
        let ids = [1, 2, 3].map(|part| id(&format!("account|{round}|{part}")));
        let claims = join_all(ids.iter().map(|id| store.journal().claimed(id))).await;
        let mut parts: Vec<AppendPart> = claims
            .into_iter()
            .map(|claim| AppendPart {
                expected: claim.highest(),
                claim,
                writes: two_writes(),
                result: None,
            })
            .collect();
        dropped_after(patience, store.journal().append_group(&mut parts)).await;
        for part in parts {
            match part.result {
                Some(result) => {
                    result.expect("stored");
                    assert_whole_writes(store, &part.claim, 2 * SIZE).await;
                }
                // A part whose turn never came is untouched, its claim alive.
                None => assert_whole_writes(store, &part.claim, 0).await,
            }
        }
    }
    Ok(())
}

/// G8: a deletion that is dropped happens or does not.
pub(crate) async fn of_a_deletion_is_no_half_deletion(store: &mut JournalUnderTest) -> Verdict {
    for (round, patience) in patiences().take(20).enumerate() {
        let id = id(&format!("account|{round}"));
        let journal = store.journal();
        let claim = journal.five(&id).await;
        let deletion = plain_deletion(3, claim.incarnation());
        dropped_after(patience, journal.delete_to(&id, deletion)).await;
        // The claim waits for what is in flight.
        let claim = journal.claimed(&id).await;
        assert_eq!(claim.highest().get(), 5);
        assert_eq!(journal.deleted(&id, 3).await, 3, "it can be asked for again");
        assert_eq!(journal.texts(&id).await, ["a-4", "a-5"]);
    }
    Ok(())
}

/// G8: a claim that is dropped may end the former one; the next claim is not hindered.
pub(crate) async fn of_a_claim_hinders_nobody(store: &mut JournalUnderTest) -> Verdict {
    let id = id("account|1");
    let journal = store.journal();
    let mut highest = journal.five(&id).await.highest();
    for patience in patiences().take(20) {
        dropped_after(patience, journal.claimed(&id)).await;
        let mut claim = journal.claimed(&id).await;
        assert_eq!(claim.highest(), highest);
        let appended = journal
            .write(&mut claim, two_writes())
            .await
            .expect("the latest claim may append");
        highest = appended.last;
    }
    Ok(())
}

/// G8: a purge that is dropped happens or does not.
pub(crate) async fn of_a_purge_is_no_half_purge(store: &mut JournalUnderTest) -> Verdict {
    for (round, patience) in patiences().take(20).enumerate() {
        let id = id(&format!("account|{round}"));
        let journal = store.journal();
        let former = journal.five(&id).await.incarnation();
        dropped_after(patience, journal.purge(&id)).await;
        let claim = journal.claimed(&id).await;
        let numbers = journal.numbers(&id, ReplayRange::ALL).await;
        assert!(numbers.into_iter().eq(1..=claim.highest().get()));
        let whole = if claim.incarnation() == former { 5 } else { 0 };
        assert_eq!(claim.highest().get(), whole, "a part of the id was purged");
    }
    Ok(())
}
