//! Keeping the newest.

use journal_core::SelectionCriteria;

use crate::{
    journal::id,
    runner::Verdict,
    snapshot::{LIFE, OTHER_LIFE, SnapshotsUnderTest, of_other_life, snapshot},
};

/// The newest, and only those.
pub(crate) async fn keeps_the_newest(store: &mut SnapshotsUnderTest) -> Verdict {
    let id = id("account|1");
    store.five(&id).await;
    for (count, left) in [(9, vec![15, 14, 13, 12, 11]), (2, vec![15, 14]), (0, vec![])] {
        store.store().keep_newest(&id, LIFE, count).await.expect("kept");
        assert_eq!(store.numbers(&id).await, left);
    }
    Ok(())
}

/// A former life neither counts nor loses.
pub(crate) async fn counts_one_life(store: &mut SnapshotsUnderTest) -> Verdict {
    let id = id("account|1");
    store.five(&id).await;
    for number in 20..23 {
        store
            .save(&of_other_life(snapshot(&id, number, 0, "former")))
            .await;
    }
    store.store().keep_newest(&id, LIFE, 2).await.expect("kept");
    assert_eq!(store.numbers(&id).await, [22, 21, 20, 15, 14]);
    let newest = store.text(&id, SelectionCriteria::ALL.of(LIFE)).await;
    assert_eq!(newest.as_deref(), Some("s-5"));
    store.store().keep_newest(&id, OTHER_LIFE, 1).await.expect("kept");
    assert_eq!(store.numbers(&id).await, [22, 15, 14]);
    Ok(())
}
