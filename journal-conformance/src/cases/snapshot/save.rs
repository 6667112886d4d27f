//! What goes in comes back.

use bytes::Bytes;
use futures_util::future::join_all;
use journal_core::{SelectionCriteria, SequenceNr, Timestamp};

use crate::{
    journal::id,
    runner::Verdict,
    snapshot::{LIFE, OTHER_LIFE, SnapshotsUnderTest, of_other_life, snapshot},
};

/// SO1, SO2: payload and metadata, bit for bit.
pub(crate) async fn returns_every_field_as_saved(store: &mut SnapshotsUnderTest) -> Verdict {
    let id = id("account|1");
    let payload: Vec<u8> = (0..=u8::MAX).cycle().take(10_000).collect();
    let saved = snapshot(&id, 42, 1_700_000_000_123, payload);
    store.save(&saved).await;
    assert_eq!(store.load(&id, SelectionCriteria::ALL).await, Some(saved));
    Ok(())
}

/// The ends of each field.
pub(crate) async fn accepts_the_extremes(store: &mut SnapshotsUnderTest) -> Verdict {
    for (name, number, time) in [("zero", 0, 0), ("largest", u64::MAX, u64::MAX)] {
        let id = id(name);
        let saved = snapshot(&id, number, time, Bytes::new());
        store.save(&saved).await;
        assert_eq!(store.load(&id, SelectionCriteria::ALL).await, Some(saved));
        assert_eq!(store.list(&id).await.len(), 1);
    }
    Ok(())
}

/// S10: the same number again replaces.
pub(crate) async fn replaces_the_same_number(store: &mut SnapshotsUnderTest) -> Verdict {
    let id = id("account|1");
    store.five(&id).await;
    for (time, text) in [(1_600, "later"), (1_000, "earlier")] {
        let again = snapshot(&id, 15, time, text);
        store.save(&again).await;
        assert_eq!(store.load(&id, SelectionCriteria::ALL).await, Some(again));
        assert_eq!(
            store.numbers(&id).await,
            [15, 14, 13, 12, 11],
            "a replaced snapshot is still there"
        );
    }
    Ok(())
}

/// A snapshot is of one life: the same number of another life is another snapshot.
pub(crate) async fn replaces_nothing_of_another_life(store: &mut SnapshotsUnderTest) -> Verdict {
    let id = id("account|1");
    let one = snapshot(&id, 5, 500, "one life");
    let other = of_other_life(snapshot(&id, 5, 400, "other life"));
    store.save(&one).await;
    store.save(&other).await;
    for (life, expected) in [(LIFE, one), (OTHER_LIFE, other)] {
        let loaded = store.load(&id, SelectionCriteria::ALL.of(life)).await;
        assert_eq!(loaded, Some(expected));
    }
    assert_eq!(store.list(&id).await.len(), 2);
    Ok(())
}

/// S11: as large as states get.
pub(crate) async fn keeps_a_large_payload(store: &mut SnapshotsUnderTest) -> Verdict {
    let id = id("account|1");
    let payload: Vec<u8> = (0_u32..).flat_map(u32::to_le_bytes).take(8 << 20).collect();
    let saved = snapshot(&id, 1, 1, payload);
    store.save(&saved).await;
    let loaded = store.load(&id, SelectionCriteria::ALL).await;
    assert!(loaded == Some(saved), "a large payload came back changed");
    Ok(())
}

/// A late save of an old state is not the newest.
pub(crate) async fn in_any_order_keeps_the_order_of_numbers(store: &mut SnapshotsUnderTest) -> Verdict {
    let id = id("account|1");
    for (number, time) in [(9, 100), (100, 300), (20, 200), (10, 400)] {
        store.save(&snapshot(&id, number, time, number.to_string())).await;
    }
    assert_eq!(store.numbers(&id).await, [100, 20, 10, 9]);
    let newest = store.text(&id, SelectionCriteria::ALL).await;
    assert_eq!(newest.as_deref(), Some("100"));
    Ok(())
}

/// Saves beside each other: each is whole, of the same number one of them.
pub(crate) async fn at_once_leaves_whole_snapshots(store: &mut SnapshotsUnderTest) -> Verdict {
    let id = id("account|1");
    let payload = |writer: u64| vec![u8::try_from(writer).expect("small"); 50_000];
    let saved: Vec<_> = (0..16)
        .map(|writer| snapshot(&id, writer % 4, writer, payload(writer)))
        .collect();
    join_all(saved.iter().map(|snapshot| store.save(snapshot))).await;
    assert_eq!(store.numbers(&id).await, [3, 2, 1, 0]);
    for number in 0..4 {
        let only = SelectionCriteria::ALL
            .down_to(SequenceNr::new(number))
            .up_to(SequenceNr::new(number));
        let loaded = store.load(&id, only).await.expect("four snapshots");
        let Timestamp(writer) = loaded.metadata.timestamp;
        assert_eq!(writer % 4, number);
        assert!(loaded.payload == payload(writer), "a mixture of two snapshots");
    }
    Ok(())
}
