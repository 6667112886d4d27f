//! Forgetting an id.

use journal_core::{Bounds, ErrorKind, ReplayRange};

use crate::{
    journal::{Driven, JournalUnderTest, id, plain_deletion, singles},
    runner::Verdict,
};

/// G5: events and numbers.
pub(crate) async fn forgets_everything(store: &mut JournalUnderTest) -> Verdict {
    let id = id("account|1");
    let journal = store.journal();
    journal.five(&id).await;
    journal.deleted(&id, 2).await;
    journal.purge(&id).await.expect("purged");
    assert_eq!(journal.bounds_of(&id).await, Bounds::default());
    assert!(journal.texts(&id).await.is_empty());
    Ok(())
}

/// G5: the next life has number 1 and another incarnation, and nothing of the former.
pub(crate) async fn starts_a_new_life(store: &mut JournalUnderTest) -> Verdict {
    let id = id("account|1");
    let journal = store.journal();
    let former = journal.five(&id).await.incarnation();
    journal.purge(&id).await.expect("purged");
    let mut claim = journal.claimed(&id).await;
    assert_eq!(claim.highest().get(), 0);
    assert_ne!(
        claim.incarnation(),
        former,
        "a snapshot of the former life would fit this one"
    );
    let appended = journal
        .write(&mut claim, singles(&["b-1", "b-2"]))
        .await
        .expect("stored");
    assert_eq!(appended.first.get(), 1);
    assert_eq!(
        journal.bounds_of(&id).await.incarnation,
        Some(claim.incarnation())
    );
    assert_eq!(journal.texts(&id).await, ["b-1", "b-2"]);
    Ok(())
}

/// G5: appends under a claim from before it fail, before and after the next life begins.
pub(crate) async fn ends_all_claims(store: &mut JournalUnderTest) -> Verdict {
    store.needs_fencing()?;
    let id = id("account|1");
    let journal = store.journal();
    for next_life in [false, true] {
        let mut claim = journal.five(&id).await;
        journal.purge(&id).await.expect("purged");
        if next_life {
            journal.stored(&id, &["b-1", "b-2", "b-3", "b-4", "b-5"]).await;
        }
        let error = journal.write(&mut claim, singles(&["a-6"])).await;
        let error = error.expect_err("the purge ended the claim");
        assert_eq!(error.kind(), ErrorKind::Fenced, "{error}");
        assert!(claim.is_spent());
        let left = journal.texts(&id).await.len();
        assert_eq!(
            left,
            if next_life { 5 } else { 0 },
            "an event of the former life appeared"
        );
        journal.purge(&id).await.expect("purged");
    }
    Ok(())
}

/// G5: also a claim that never wrote.
pub(crate) async fn ends_a_claim_that_never_wrote(store: &mut JournalUnderTest) -> Verdict {
    store.needs_fencing()?;
    let id = id("account|1");
    let journal = store.journal();
    let mut claim = journal.claimed(&id).await;
    journal.purge(&id).await.expect("purged");
    let error = journal.write(&mut claim, singles(&["a-1"])).await;
    assert_eq!(
        error.expect_err("the purge ended the claim").kind(),
        ErrorKind::Fenced
    );
    assert_eq!(journal.bounds_of(&id).await, Bounds::default());
    Ok(())
}

/// G7: a deletion that was decided in the former life does not reach into the next.
pub(crate) async fn refuses_deletions_of_the_former_life(store: &mut JournalUnderTest) -> Verdict {
    let id = id("account|1");
    let journal = store.journal();
    let former = journal.five(&id).await.incarnation();
    journal.purge(&id).await.expect("purged");
    let late = plain_deletion(3, former);
    assert_eq!(journal.delete_to(&id, late).await.expect("a no-op").get(), 0);
    journal.five(&id).await;
    let error = journal.delete_to(&id, late).await;
    let error = error.expect_err("the id lives under another incarnation");
    assert_eq!(error.kind(), ErrorKind::WrongIncarnation, "{error}");
    assert_eq!(journal.texts(&id).await.len(), 5);
    Ok(())
}

/// An unknown id, an id twice.
pub(crate) async fn is_idempotent(store: &mut JournalUnderTest) -> Verdict {
    let id = id("account|1");
    let journal = store.journal();
    journal.purge(&id).await.expect("nothing to forget");
    journal.five(&id).await;
    for _ in 0..2 {
        journal.purge(&id).await.expect("purged");
    }
    assert_eq!(journal.bounds_of(&id).await, Bounds::default());
    Ok(())
}

/// The other ids are not its business.
pub(crate) async fn leaves_other_ids_alone(store: &mut JournalUnderTest) -> Verdict {
    let others = ["account|10", "account|", "account|1\0", "account|0"].map(id);
    let one = id("account|1");
    let mut claims = Vec::new();
    for other in &others {
        claims.push(store.journal().five(other).await);
    }
    store.journal().five(&one).await;
    store.journal().purge(&one).await.expect("purged");
    for mut claim in claims {
        let other = claim.id().clone();
        let appended = store.journal().write(&mut claim, singles(&["a-6"])).await;
        appended.expect("the claims of other ids are alive");
        assert_eq!(
            store.journal().texts(&other).await.len(),
            6,
            "{other} lost events"
        );
    }
    Ok(())
}

/// Life after life: all numbers start again, no incarnation comes twice.
pub(crate) async fn can_follow_a_purge(store: &mut JournalUnderTest) -> Verdict {
    let id = id("account|1");
    let journal = store.journal();
    let mut lives = Vec::new();
    for _ in 0..10 {
        let claim = journal.stored(&id, &["x", "y"]).await;
        assert!(!lives.contains(&claim.incarnation()), "an incarnation came back");
        lives.push(claim.incarnation());
        assert_eq!(journal.numbers(&id, ReplayRange::ALL).await, [1, 2]);
        journal.deleted(&id, 1).await;
        journal.purge(&id).await.expect("purged");
    }
    Ok(())
}
