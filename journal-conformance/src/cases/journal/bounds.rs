//! What is stored of an id.

use journal_core::Bounds;

use crate::{
    journal::{Driven, JournalUnderTest, id, plain_deletion, range, singles},
    runner::Verdict,
};

/// J11.
pub(crate) async fn of_an_unknown_id_are_empty(store: &mut JournalUnderTest) -> Verdict {
    store.journal().five(&id("account|1")).await;
    let bounds = store.journal().bounds_of(&id("account|2")).await;
    assert_eq!(bounds, Bounds::default());
    Ok(())
}

/// A claim alone is seen by no reader.
pub(crate) async fn of_an_id_only_claimed_are_empty(store: &mut JournalUnderTest) -> Verdict {
    let id = id("account|1");
    for _ in 0..2 {
        store.journal().claimed(&id).await;
        assert_eq!(store.journal().bounds_of(&id).await, Bounds::default());
        assert!(store.journal().texts(&id).await.is_empty());
    }
    Ok(())
}

/// G5.
pub(crate) async fn carry_the_incarnation_of_the_claims(store: &mut JournalUnderTest) -> Verdict {
    let id = id("account|1");
    let claim = store.journal().five(&id).await;
    let bounds = store.journal().bounds_of(&id).await;
    assert_eq!(bounds.incarnation, Some(claim.incarnation()));
    let next = store.journal().claimed(&id).await;
    assert_eq!(
        next.incarnation(),
        claim.incarnation(),
        "a life goes on over claims"
    );
    Ok(())
}

/// Two ids live two lives.
pub(crate) async fn differ_in_incarnation_between_ids(store: &mut JournalUnderTest) -> Verdict {
    let a = store.journal().five(&id("account|1")).await;
    let b = store.journal().five(&id("account|2")).await;
    assert_ne!(a.incarnation(), b.incarnation());
    Ok(())
}

/// G4: a claim tells its writer what is stored.
pub(crate) async fn of_a_claim_are_those_of_the_id(store: &mut JournalUnderTest) -> Verdict {
    let id = id("account|1");
    let journal = store.journal();
    let first = journal.claimed(&id).await;
    assert_eq!((first.highest().get(), first.bounds().deleted_to.get()), (0, 0));
    journal.five(&id).await;
    journal.deleted(&id, 2).await;
    let claim = journal.claimed(&id).await;
    assert_eq!(*claim.bounds(), journal.bounds_of(&id).await);
    assert_eq!((claim.highest().get(), claim.bounds().deleted_to.get()), (5, 2));
    Ok(())
}

/// J3: the highest number has nothing to do with what is replayed.
pub(crate) async fn do_not_depend_on_the_replayed_range(store: &mut JournalUnderTest) -> Verdict {
    let id = id("account|1");
    store.journal().five(&id).await;
    for range in [range(1, 3), range(0, 0), range(3, 2), range(5, 9)] {
        store.journal().records(&id, range).await;
        assert_eq!(store.journal().highest(&id).await, 5);
    }
    Ok(())
}

/// G5: over appends, deletions and claims.
pub(crate) async fn never_show_a_lower_highest(store: &mut JournalUnderTest) -> Verdict {
    let id = id("account|1");
    let journal = store.journal();
    for round in 1..=20 {
        let mut claim = journal.claimed(&id).await;
        let appended = journal.write(&mut claim, singles(&["x", "y", "z"])).await;
        appended.expect("stored");
        let deletion = plain_deletion(round * 3 - round % 2, claim.incarnation());
        journal.delete_to(&id, deletion).await.expect("deleted");
        assert_eq!(journal.highest(&id).await, round * 3);
    }
    Ok(())
}
