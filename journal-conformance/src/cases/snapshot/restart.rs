//! What a restart leaves.

use journal_core::SelectionCriteria;

use crate::{
    journal::id,
    runner::Verdict,
    snapshot::{SnapshotsUnderTest, snapshot, up_to},
};

/// Saved is saved.
pub(crate) async fn keeps_every_snapshot(store: &mut SnapshotsUnderTest) -> Verdict {
    let id = id("account|1");
    let mut saved = store.five(&id).await;
    for _ in 0..2 {
        store.restart().await?;
        let metadata: Vec<_> = saved
            .iter()
            .rev()
            .map(|snapshot| snapshot.metadata.clone())
            .collect();
        assert_eq!(store.list(&id).await, metadata);
    }
    assert_eq!(store.load(&id, SelectionCriteria::ALL).await, saved.pop());
    Ok(())
}

/// Replaced is replaced.
pub(crate) async fn keeps_replacements(store: &mut SnapshotsUnderTest) -> Verdict {
    let id = id("account|1");
    store.five(&id).await;
    let again = snapshot(&id, 15, 1_600, "again");
    store.save(&again).await;
    store.restart().await?;
    assert_eq!(store.load(&id, SelectionCriteria::ALL).await, Some(again));
    assert_eq!(store.numbers(&id).await, [15, 14, 13, 12, 11]);
    Ok(())
}

/// Deleted is deleted.
pub(crate) async fn keeps_deletions(store: &mut SnapshotsUnderTest) -> Verdict {
    let id = id("account|1");
    let saved = store.five(&id).await;
    let newest = saved.into_iter().next_back().expect("five snapshots").metadata;
    store.store().delete(&newest).await.expect("deleted");
    store
        .store()
        .delete_matching(&id, up_to(12))
        .await
        .expect("deleted");
    store.restart().await?;
    assert_eq!(store.numbers(&id).await, [14, 13]);
    Ok(())
}
