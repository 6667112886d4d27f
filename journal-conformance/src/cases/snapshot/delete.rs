//! Deleting.

use journal_core::{SelectionCriteria, Timestamp};

use crate::{
    journal::id,
    runner::Verdict,
    snapshot::{LIFE, SnapshotsUnderTest, of_other_life, snapshot, up_to},
};

/// S7: one snapshot, whatever its timestamp.
pub(crate) async fn of_one_ignores_the_timestamp(store: &mut SnapshotsUnderTest) -> Verdict {
    let id = id("account|1");
    let saved = store.five(&id).await;
    let mut third = saved.into_iter().nth(2).expect("five snapshots").metadata;
    third.timestamp = Timestamp(0);
    store.store().delete(&third).await.expect("deleted");
    assert_eq!(store.text(&id, up_to(13)).await.as_deref(), Some("s-2"));
    assert_eq!(store.numbers(&id).await, [15, 14, 12, 11]);
    Ok(())
}

/// One that is not there, one twice.
pub(crate) async fn of_one_is_idempotent(store: &mut SnapshotsUnderTest) -> Verdict {
    let id = id("account|1");
    let absent = snapshot(&id, 9, 900, "").metadata;
    store.store().delete(&absent).await.expect("nothing to delete");
    let saved = store.five(&id).await;
    let newest = saved.into_iter().next_back().expect("five snapshots").metadata;
    for _ in 0..2 {
        store.store().delete(&newest).await.expect("deleted");
    }
    store.store().delete(&absent).await.expect("nothing to delete");
    assert_eq!(store.numbers(&id).await, [14, 13, 12, 11]);
    Ok(())
}

/// The same number of another life stays.
pub(crate) async fn of_one_spares_another_life(store: &mut SnapshotsUnderTest) -> Verdict {
    let id = id("account|1");
    let former = of_other_life(snapshot(&id, 5, 500, "former"));
    let this = snapshot(&id, 5, 500, "this");
    for snapshot in [&former, &this] {
        store.save(snapshot).await;
    }
    store.store().delete(&former.metadata).await.expect("deleted");
    assert_eq!(store.load(&id, SelectionCriteria::ALL).await, Some(this));
    Ok(())
}

/// S8.
pub(crate) async fn matching_deletes_what_matches(store: &mut SnapshotsUnderTest) -> Verdict {
    let id = id("account|1");
    store.five(&id).await;
    let criteria = SelectionCriteria {
        max_timestamp: Timestamp(1_300),
        ..up_to(13)
    };
    store
        .store()
        .delete_matching(&id, criteria)
        .await
        .expect("deleted");
    assert_eq!(store.text(&id, criteria).await, None);
    assert_eq!(store.text(&id, up_to(14)).await.as_deref(), Some("s-4"));
    assert_eq!(store.numbers(&id).await, [15, 14]);
    Ok(())
}

/// S9: both bounds must match.
pub(crate) async fn matching_needs_number_and_timestamp(store: &mut SnapshotsUnderTest) -> Verdict {
    let id = id("account|1");
    store.five(&id).await;
    let criteria = SelectionCriteria {
        max_timestamp: Timestamp(1_399),
        ..up_to(14)
    };
    store
        .store()
        .delete_matching(&id, criteria)
        .await
        .expect("deleted");
    assert_eq!(
        store.numbers(&id).await,
        [15, 14],
        "number 14 is later than the bound"
    );
    Ok(())
}

/// Nothing that matches, everything twice.
pub(crate) async fn matching_is_idempotent(store: &mut SnapshotsUnderTest) -> Verdict {
    let id = id("account|1");
    store
        .store()
        .delete_matching(&id, SelectionCriteria::ALL)
        .await
        .expect("nothing to delete");
    store.five(&id).await;
    store
        .store()
        .delete_matching(&id, up_to(7))
        .await
        .expect("nothing to delete");
    assert_eq!(store.numbers(&id).await.len(), 5);
    for _ in 0..2 {
        store
            .store()
            .delete_matching(&id, SelectionCriteria::ALL)
            .await
            .expect("deleted");
        assert_eq!(store.list(&id).await, []);
        assert_eq!(store.load(&id, SelectionCriteria::ALL).await, None);
    }
    Ok(())
}

/// Of one life.
pub(crate) async fn matching_spares_another_life(store: &mut SnapshotsUnderTest) -> Verdict {
    let id = id("account|1");
    store.five(&id).await;
    let former = of_other_life(snapshot(&id, 12, 1_200, "former"));
    store.save(&former).await;
    let this_life = SelectionCriteria::ALL.of(LIFE);
    store
        .store()
        .delete_matching(&id, this_life)
        .await
        .expect("deleted");
    assert_eq!(store.list(&id).await, [former.metadata]);
    Ok(())
}

/// The other ids are not its business.
pub(crate) async fn leaves_other_ids_alone(store: &mut SnapshotsUnderTest) -> Verdict {
    let one = id("account|1");
    let others = ["account|10", "account|", "account|1\0", "account|0"].map(id);
    store.five(&one).await;
    for other in &others {
        store.five(other).await;
    }
    store
        .store()
        .delete(&snapshot(&one, 15, 0, "").metadata)
        .await
        .expect("deleted");
    store
        .store()
        .delete_matching(&one, SelectionCriteria::ALL)
        .await
        .expect("deleted");
    for other in &others {
        assert_eq!(store.numbers(other).await.len(), 5, "{other} lost snapshots");
    }
    Ok(())
}
