//! Listing.

use journal_core::{SelectionCriteria, SequenceNr};

use crate::{
    journal::id,
    runner::Verdict,
    snapshot::{LIFE, SnapshotsUnderTest, of_other_life, snapshot},
};

/// The metadata, newest first.
pub(crate) async fn is_newest_first(store: &mut SnapshotsUnderTest) -> Verdict {
    let id = id("account|1");
    let saved = store.five(&id).await;
    let newest_first: Vec<_> = saved
        .into_iter()
        .rev()
        .map(|snapshot| snapshot.metadata)
        .collect();
    assert_eq!(store.list(&id).await, newest_first);
    Ok(())
}

/// By the same criteria as loading.
pub(crate) async fn applies_the_criteria(store: &mut SnapshotsUnderTest) -> Verdict {
    let id = id("account|1");
    store.five(&id).await;
    store
        .save(&of_other_life(snapshot(&id, 13, 1_300, "other life")))
        .await;
    let criteria = SelectionCriteria::ALL
        .down_to(SequenceNr::new(12))
        .up_to(SequenceNr::new(14))
        .of(LIFE);
    let listed = store.store().list(&id, criteria).await.expect("listed");
    let numbers: Vec<_> = listed.iter().map(|snapshot| snapshot.sequence_nr.get()).collect();
    assert_eq!(numbers, [14, 13, 12]);
    Ok(())
}

/// No error.
pub(crate) async fn of_an_unknown_id_is_empty(store: &mut SnapshotsUnderTest) -> Verdict {
    store.five(&id("account|1")).await;
    assert_eq!(store.list(&id("account|2")).await, []);
    Ok(())
}
