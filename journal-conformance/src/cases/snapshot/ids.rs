//! Any text is an id, and no two are the same.

use journal_core::SelectionCriteria;

use crate::{
    cases::journal::odd_ids,
    runner::Verdict,
    snapshot::{SnapshotsUnderTest, snapshot},
};

/// Each odd id has its own snapshots.
pub(crate) async fn are_never_aliased(store: &mut SnapshotsUnderTest) -> Verdict {
    for (id, number) in odd_ids().iter().zip(1..) {
        store.save(&snapshot(id, number, 1, id.as_str().to_owned())).await;
    }
    for (id, number) in odd_ids().iter().zip(1..) {
        assert_eq!(store.numbers(id).await, [number], "{id}");
        let text = store.text(id, SelectionCriteria::ALL).await;
        assert_eq!(text.as_deref(), Some(id.as_str()));
    }
    Ok(())
}

/// Deleting those of one leaves the others.
pub(crate) async fn are_deleted_alone(store: &mut SnapshotsUnderTest) -> Verdict {
    for id in &odd_ids() {
        store.save(&snapshot(id, 1, 1, "x")).await;
    }
    for (id, number) in odd_ids().iter().zip(0..) {
        if number % 2 == 0 {
            store
                .store()
                .delete_matching(id, SelectionCriteria::ALL)
                .await
                .expect("deleted");
        }
    }
    for (id, number) in odd_ids().iter().zip(0..) {
        assert_eq!(store.list(id).await.len(), number % 2, "{id}");
    }
    Ok(())
}
