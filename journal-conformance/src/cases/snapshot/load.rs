//! Selecting. Five snapshots at the numbers 11 to 15, times 1100 to 1500.

use journal_core::{Loaded, SelectionCriteria, SequenceNr, Timestamp};

use crate::{
    journal::id,
    runner::Verdict,
    snapshot::{LIFE, OTHER_LIFE, SnapshotsUnderTest, of_other_life, snapshot, until, up_to},
};

async fn assert_loaded(
    store: &SnapshotsUnderTest,
    criteria: SelectionCriteria,
    expected: Option<&str>,
) -> Verdict {
    let id = id("account|1");
    store.five(&id).await;
    let loaded = store.text(&id, criteria).await;
    assert_eq!(loaded.as_deref(), expected, "{criteria:?}");
    Ok(())
}

/// S1.
pub(crate) async fn of_an_unknown_id_is_none(store: &mut SnapshotsUnderTest) -> Verdict {
    store.five(&id("account|1")).await;
    let loaded = store.loaded(&id("account|2"), SelectionCriteria::ALL).await;
    assert_eq!(loaded, Loaded::default());
    Ok(())
}

/// S2.
pub(crate) async fn before_all_timestamps_is_none(store: &mut SnapshotsUnderTest) -> Verdict {
    assert_loaded(store, until(100), None).await
}

/// S3.
pub(crate) async fn below_all_numbers_is_none(store: &mut SnapshotsUnderTest) -> Verdict {
    assert_loaded(store, up_to(7), None).await
}

/// S4.
pub(crate) async fn gives_the_newest(store: &mut SnapshotsUnderTest) -> Verdict {
    assert_loaded(store, SelectionCriteria::ALL, Some("s-5")).await
}

/// S5: inclusive.
pub(crate) async fn stops_at_the_highest_number(store: &mut SnapshotsUnderTest) -> Verdict {
    assert_loaded(store, up_to(13), Some("s-3")).await
}

/// S6: both bounds must hold.
pub(crate) async fn applies_number_and_timestamp(store: &mut SnapshotsUnderTest) -> Verdict {
    let criteria = SelectionCriteria {
        max_timestamp: Timestamp(1_300),
        ..up_to(14)
    };
    assert_loaded(store, criteria, Some("s-3")).await
}

/// As above, the number being the narrower one.
pub(crate) async fn applies_timestamp_and_number(store: &mut SnapshotsUnderTest) -> Verdict {
    let criteria = SelectionCriteria {
        max_timestamp: Timestamp(1_450),
        ..up_to(12)
    };
    assert_loaded(store, criteria, Some("s-2")).await
}

/// Timestamps are inclusive, too.
pub(crate) async fn stops_at_the_latest_timestamp(store: &mut SnapshotsUnderTest) -> Verdict {
    assert_loaded(store, until(1_200), Some("s-2")).await
}

/// Lower bounds exclude the older ones.
pub(crate) async fn honours_the_lower_bounds(store: &mut SnapshotsUnderTest) -> Verdict {
    let from = |number| up_to(14).down_to(SequenceNr::new(number));
    assert_loaded(store, from(14), Some("s-4")).await?;
    let nothing = SelectionCriteria {
        min_timestamp: Timestamp(1_401),
        ..up_to(14)
    };
    assert_loaded(store, nothing, None).await?;
    assert_loaded(store, from(15), None).await
}

/// The highest number wins, whatever the clock said.
pub(crate) async fn prefers_the_number_to_the_timestamp(store: &mut SnapshotsUnderTest) -> Verdict {
    let id = id("account|1");
    store.save(&snapshot(&id, 2, 1_000, "newer")).await;
    store
        .save(&snapshot(&id, 1, 9_000, "older, by a fast clock"))
        .await;
    let newest = store.text(&id, SelectionCriteria::ALL).await;
    assert_eq!(newest.as_deref(), Some("newer"));
    Ok(())
}

/// Of equal numbers, of two lives, the latest timestamp.
pub(crate) async fn prefers_the_latest_of_equal_numbers(store: &mut SnapshotsUnderTest) -> Verdict {
    for (name, times) in [("a", [500, 400]), ("b", [400, 500])] {
        let id = id(name);
        store.save(&snapshot(&id, 5, times[0], "500")).await;
        store
            .save(&of_other_life(snapshot(&id, 5, times[1], "500")))
            .await;
        let loaded = store.load(&id, SelectionCriteria::ALL).await;
        let time = loaded.map(|snapshot| snapshot.metadata.timestamp);
        assert_eq!(time, Some(Timestamp(500)));
    }
    Ok(())
}

/// A snapshot of a former life is not offered for this one.
pub(crate) async fn can_be_limited_to_one_life(store: &mut SnapshotsUnderTest) -> Verdict {
    let id = id("account|1");
    store.save(&of_other_life(snapshot(&id, 90, 900, "former"))).await;
    let in_this_life = SelectionCriteria::ALL.of(LIFE);
    assert_eq!(store.text(&id, in_this_life).await, None);
    store.save(&snapshot(&id, 3, 1_000, "this")).await;
    assert_eq!(store.text(&id, in_this_life).await.as_deref(), Some("this"));
    let former = SelectionCriteria::ALL.of(OTHER_LIFE);
    assert_eq!(store.text(&id, former).await.as_deref(), Some("former"));
    let any = store.text(&id, SelectionCriteria::ALL).await;
    assert_eq!(any.as_deref(), Some("former"), "the highest number of any life");
    Ok(())
}
