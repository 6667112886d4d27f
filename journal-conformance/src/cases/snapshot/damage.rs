//! Snapshots that cannot be read.

use journal_core::SelectionCriteria;

use crate::{
    journal::id,
    runner::Verdict,
    snapshot::{SnapshotsUnderTest, snapshot},
};

/// A damaged one is skipped in favour of an older one, and reported.
pub(crate) async fn is_skipped_and_reported(store: &mut SnapshotsUnderTest) -> Verdict {
    let id = id("account|1");
    let saved = store.five(&id).await;
    for snapshot in saved.iter().rev().take(2) {
        store.damage(&snapshot.metadata).await?;
    }
    let loaded = store.loaded(&id, SelectionCriteria::ALL).await;
    assert_eq!(loaded.snapshot.as_ref(), saved.get(2), "the newest readable one");
    assert_eq!(
        loaded.skipped.len(),
        2,
        "each damaged one is reported: {loaded:?}"
    );
    for skipped in &loaded.skipped {
        assert!(
            !skipped.location.is_empty() && !skipped.reason.is_empty(),
            "{skipped:?}"
        );
    }
    Ok(())
}

/// Nothing readable is left: none, but not as if there had been none.
pub(crate) async fn of_all_is_no_silent_none(store: &mut SnapshotsUnderTest) -> Verdict {
    let id = id("account|1");
    let only = snapshot(&id, 5, 500, "only");
    store.save(&only).await;
    store.damage(&only.metadata).await?;
    let loaded = store.loaded(&id, SelectionCriteria::ALL).await;
    assert_eq!(loaded.snapshot, None);
    assert_eq!(loaded.skipped.len(), 1, "a damaged snapshot was taken for none");
    Ok(())
}

/// An older one that is damaged is nobody's concern.
pub(crate) async fn of_an_older_one_is_not_reported(store: &mut SnapshotsUnderTest) -> Verdict {
    let id = id("account|1");
    let saved = store.five(&id).await;
    let oldest = saved.first().expect("five snapshots");
    store.damage(&oldest.metadata).await?;
    assert_eq!(
        store.text(&id, SelectionCriteria::ALL).await.as_deref(),
        Some("s-5")
    );
    Ok(())
}

/// A save of the same number heals.
pub(crate) async fn is_healed_by_a_new_save(store: &mut SnapshotsUnderTest) -> Verdict {
    let id = id("account|1");
    let saved = snapshot(&id, 5, 500, "state");
    store.save(&saved).await;
    store.damage(&saved.metadata).await?;
    store.save(&saved).await;
    assert_eq!(store.load(&id, SelectionCriteria::ALL).await, Some(saved));
    Ok(())
}

/// A damaged one can be deleted.
pub(crate) async fn can_be_deleted(store: &mut SnapshotsUnderTest) -> Verdict {
    let id = id("account|1");
    let saved = snapshot(&id, 5, 500, "state");
    store.save(&saved).await;
    store.damage(&saved.metadata).await?;
    store
        .store()
        .delete_matching(&id, SelectionCriteria::ALL)
        .await
        .expect("deleted");
    assert_eq!(store.load(&id, SelectionCriteria::ALL).await, None);
    Ok(())
}
