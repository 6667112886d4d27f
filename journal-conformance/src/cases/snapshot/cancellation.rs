//! Futures that their callers drop half-way.

use std::time::Duration;

use futures_util::FutureExt;
use journal_core::SelectionCriteria;

use crate::{
    journal::id,
    runner::Verdict,
    snapshot::{SnapshotsUnderTest, snapshot},
};

/// A dropped save leaves the former snapshot or the new one, whole.
pub(crate) async fn of_a_save_leaves_a_whole_snapshot(store: &mut SnapshotsUnderTest) -> Verdict {
    let former = vec![1_u8; 300_000];
    let next = vec![2_u8; 300_000];
    for (round, micros) in [0, 50, 200, 800, 3_200].into_iter().cycle().take(20).enumerate() {
        let id = id(&format!("account|{round}"));
        store.save(&snapshot(&id, 5, 500, former.clone())).await;
        let save = store.store().save(snapshot(&id, 5, 600, next.clone()));
        if micros == 0 {
            let _ = save.now_or_never();
        } else {
            let _ = tokio::time::timeout(Duration::from_micros(micros), save).await;
        }
        let loaded = store
            .load(&id, SelectionCriteria::ALL)
            .await
            .expect("one of the two");
        assert!(
            loaded.payload == former || loaded.payload == next,
            "a dropped save left a mixture"
        );
    }
    Ok(())
}
