//! Deleting from the front.

use futures_util::future::join;
use journal_core::{Bounds, Deletion, ErrorKind, Incarnation, Outcome, ReplayRange, SequenceNr};

use crate::{
    journal::{Driven, JournalUnderTest, id, plain_deletion, range, singles, writes},
    runner::Verdict,
};

/// Stores five events and deletes the first three.
async fn delete_to_three(store: &JournalUnderTest) {
    let id = id("account|1");
    store.journal().five(&id).await;
    let reached = store.journal().deleted(&id, 3).await;
    assert_eq!(reached, 3, "a deletion returns how far it went");
}

async fn assert_left(store: &JournalUnderTest, range: ReplayRange, expected: &[u64]) -> Verdict {
    delete_to_three(store).await;
    let id = id("account|1");
    let left = store.journal().numbers(&id, range).await;
    assert_eq!(left, expected, "{range:?}");
    let bounds = store.journal().bounds_of(&id).await;
    assert_eq!((bounds.deleted_to.get(), bounds.highest.get()), (3, 5));
    Ok(())
}

/// J12, G7.
pub(crate) async fn is_inclusive(store: &mut JournalUnderTest) -> Verdict {
    assert_left(store, ReplayRange::ALL, &[4, 5]).await
}

/// J13, G5.
pub(crate) async fn keeps_the_highest(store: &mut JournalUnderTest) -> Verdict {
    assert_left(store, ReplayRange::from(SequenceNr::ZERO), &[4, 5]).await
}

/// J14, G5: a cleanup of everything forgets no number; the next event gets the next one.
pub(crate) async fn of_everything_keeps_the_highest(store: &mut JournalUnderTest) -> Verdict {
    let id = id("account|1");
    let journal = store.journal();
    journal.five(&id).await;
    assert_eq!(journal.deleted(&id, u64::MAX).await, 5, "clamped to the highest");
    assert!(journal.texts(&id).await.is_empty());
    assert_eq!(journal.highest(&id).await, 5);
    let mut claim = journal.claimed(&id).await;
    assert_eq!(claim.highest().get(), 5);
    let appended = journal.write(&mut claim, singles(&["a-6"])).await;
    assert_eq!(
        appended.expect("stored").first.get(),
        6,
        "a number was used twice"
    );
    assert_eq!(journal.texts(&id).await, ["a-6"]);
    Ok(())
}

/// J15.
pub(crate) async fn lets_a_replay_start_at_the_last_deleted(store: &mut JournalUnderTest) -> Verdict {
    assert_left(store, ReplayRange::from(SequenceNr::new(3)), &[4, 5]).await
}

/// J16, G6.
pub(crate) async fn leaves_nothing_inside_the_deleted_prefix(store: &mut JournalUnderTest) -> Verdict {
    assert_left(store, range(1, 2), &[]).await
}

/// J17, G6.
pub(crate) async fn leaves_nothing_up_to_the_last_deleted(store: &mut JournalUnderTest) -> Verdict {
    assert_left(store, range(1, 3), &[]).await
}

/// J18.
pub(crate) async fn lets_a_replay_start_behind_it(store: &mut JournalUnderTest) -> Verdict {
    assert_left(store, ReplayRange::from(SequenceNr::new(4)), &[4, 5]).await
}

/// JO4.
pub(crate) async fn lets_a_range_span_the_deleted_prefix(store: &mut JournalUnderTest) -> Verdict {
    assert_left(store, range(1, 4), &[4]).await
}

/// `max` counts what is delivered.
pub(crate) async fn does_not_count_against_max(store: &mut JournalUnderTest) -> Verdict {
    assert_left(store, ReplayRange::ALL.max(2), &[4, 5]).await
}

/// G7.
pub(crate) async fn is_idempotent(store: &mut JournalUnderTest) -> Verdict {
    delete_to_three(store).await;
    for _ in 0..2 {
        assert_eq!(store.journal().deleted(&id("account|1"), 3).await, 3);
    }
    assert_eq!(store.journal().texts(&id("account|1")).await, ["a-4", "a-5"]);
    Ok(())
}

/// G7: a deletion that comes late changes nothing, overlapping ones add up.
pub(crate) async fn is_monotonic(store: &mut JournalUnderTest) -> Verdict {
    let id = id("account|1");
    let journal = store.journal();
    delete_to_three(store).await;
    for late in [0, 1, 2] {
        assert_eq!(journal.deleted(&id, late).await, 3);
    }
    assert_eq!(journal.bounds_of(&id).await.deleted_to.get(), 3);
    assert_eq!(journal.texts(&id).await, ["a-4", "a-5"]);
    assert_eq!(journal.deleted(&id, 4).await, 4);
    assert_eq!(journal.texts(&id).await, ["a-5"]);
    Ok(())
}

/// G7.
pub(crate) async fn to_zero_changes_nothing(store: &mut JournalUnderTest) -> Verdict {
    let id = id("account|1");
    store.journal().five(&id).await;
    assert_eq!(store.journal().deleted(&id, 0).await, 0);
    assert_eq!(store.journal().texts(&id).await.len(), 5);
    Ok(())
}

/// G7: beyond the highest it deletes what is there, and nothing that comes later.
pub(crate) async fn beyond_the_highest_spares_later_events(store: &mut JournalUnderTest) -> Verdict {
    let id = id("account|1");
    let journal = store.journal();
    let mut claim = journal.five(&id).await;
    assert_eq!(journal.deleted(&id, 100).await, 5);
    let bounds = journal.bounds_of(&id).await;
    assert_eq!((bounds.deleted_to.get(), bounds.highest.get()), (5, 5));
    let appended = journal.write(&mut claim, singles(&["a-6", "a-7"])).await;
    assert_eq!(appended.expect("stored").first.get(), 6);
    let left = journal.texts(&id).await;
    assert_eq!(left, ["a-6", "a-7"], "a later event was deleted in advance");
    Ok(())
}

/// G7.
pub(crate) async fn of_an_unknown_id_is_a_no_op(store: &mut JournalUnderTest) -> Verdict {
    let id = id("account|1");
    let journal = store.journal();
    let deletion = plain_deletion(3, Incarnation::random());
    let reached = journal.delete_to(&id, deletion).await.expect("a no-op");
    assert_eq!(reached.get(), 0);
    assert_eq!(journal.bounds_of(&id).await, Bounds::default());
    journal.five(&id).await;
    assert_eq!(journal.texts(&id).await.len(), 5);
    Ok(())
}

/// G7: the rest of an atomic write survives the deletion of its head.
pub(crate) async fn inside_an_atomic_write_spares_its_rest(store: &mut JournalUnderTest) -> Verdict {
    let id = id("account|1");
    let journal = store.journal();
    let mut claim = journal.claimed(&id).await;
    let two_writes = writes(&[&["1", "2", "3", "4"], &["5", "6"]]);
    journal.write(&mut claim, two_writes).await.expect("stored");
    for to in 1..=5 {
        assert_eq!(journal.deleted(&id, to).await, to);
        let left: Vec<u64> = (to + 1..=6).collect();
        assert_eq!(journal.numbers(&id, ReplayRange::ALL).await, left);
        assert!(journal.numbers(&id, range(1, to)).await.is_empty());
    }
    Ok(())
}

/// G7: under a live claim, which goes on.
pub(crate) async fn leaves_the_claim_usable(store: &mut JournalUnderTest) -> Verdict {
    let id = id("account|1");
    let journal = store.journal();
    let mut claim = journal.five(&id).await;
    journal.deleted(&id, 5).await;
    for number in 6..=8 {
        let appended = journal.write(&mut claim, singles(&["x"])).await;
        assert_eq!(appended.expect("the claim is alive").last.get(), number);
        journal.deleted(&id, number - 1).await;
    }
    assert_eq!(journal.numbers(&id, ReplayRange::ALL).await, [8]);
    Ok(())
}

/// G7: beside appends, nothing that comes later is touched.
pub(crate) async fn beside_appends_spares_later_events(store: &mut JournalUnderTest) -> Verdict {
    let id = id("account|1");
    let journal = store.journal();
    let mut claim = journal.five(&id).await;
    for highest in 5..45 {
        let deletion = plain_deletion(highest, claim.incarnation());
        let (appended, deleted) = join(
            journal.write(&mut claim, singles(&["x"])),
            journal.delete_to(&id, deletion),
        )
        .await;
        assert_eq!(appended.expect("stored").last.get(), highest + 1);
        assert_eq!(deleted.expect("deleted").get(), highest);
        assert_eq!(journal.numbers(&id, ReplayRange::ALL).await, [highest + 1]);
    }
    Ok(())
}

/// G7.
pub(crate) async fn leaves_other_ids_alone(store: &mut JournalUnderTest) -> Verdict {
    let others = ["account|10", "account|", "account|1\0", "account|0"].map(id);
    for other in &others {
        store.journal().five(other).await;
    }
    let one = id("account|1");
    store.journal().five(&one).await;
    store.journal().deleted(&one, u64::MAX).await;
    for other in &others {
        assert_eq!(store.journal().texts(other).await.len(), 5, "{other} lost events");
    }
    Ok(())
}

/// G7: decided for another life.
pub(crate) async fn of_another_incarnation_is_refused(store: &mut JournalUnderTest) -> Verdict {
    let id = id("account|1");
    store.journal().five(&id).await;
    let deletion = plain_deletion(3, Incarnation::random());
    let error = store.journal().delete_to(&id, deletion).await;
    let error = error.expect_err("the id lives under another incarnation");
    let (kind, outcome) = (error.kind(), error.outcome());
    assert_eq!(
        (kind, outcome),
        (ErrorKind::WrongIncarnation, Outcome::NotStored),
        "{error}"
    );
    assert_eq!(store.journal().texts(&id).await.len(), 5);
    Ok(())
}

/// A fresh start is recorded together with its deletion; plain deletions leave it.
pub(crate) async fn records_a_fresh_start(store: &mut JournalUnderTest) -> Verdict {
    let id = id("account|1");
    let journal = store.journal();
    let incarnation = journal.five(&id).await.incarnation();
    journal.deleted(&id, 1).await;
    let fresh_start = journal.bounds_of(&id).await.fresh_start;
    assert_eq!(fresh_start, SequenceNr::ZERO, "a plain deletion declares nothing");
    let fresh = Deletion {
        fresh_start: true,
        ..plain_deletion(3, incarnation)
    };
    assert_eq!(journal.delete_to(&id, fresh).await.expect("deleted").get(), 3);
    assert_eq!(journal.claimed(&id).await.bounds().fresh_start.get(), 3);
    journal.deleted(&id, 4).await;
    let bounds = journal.bounds_of(&id).await;
    assert_eq!((bounds.fresh_start.get(), bounds.deleted_to.get()), (3, 4));
    Ok(())
}

/// Many small deletions while the stream grows, as retention makes them.
pub(crate) async fn can_follow_a_growing_stream(store: &mut JournalUnderTest) -> Verdict {
    let id = id("account|1");
    let journal = store.journal();
    let mut claim = journal.claimed(&id).await;
    for round in 1..=30 {
        journal
            .write(&mut claim, singles(&["x"; 10]))
            .await
            .expect("stored");
        journal.deleted(&id, round * 10 - 2).await;
        let left = journal.numbers(&id, ReplayRange::ALL).await;
        assert_eq!(left, [round * 10 - 1, round * 10]);
    }
    Ok(())
}
