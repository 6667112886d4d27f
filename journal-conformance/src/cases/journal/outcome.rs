//! What a failed append says, and what follows from it.

use journal_core::{ErrorKind, Outcome, ReplayRange};

use crate::{
    journal::{Driven, JournalUnderTest, id, writes},
    runner::Verdict,
};

/// G3: an engine that says nothing is a failure in bounded time and never a rejection; what it left open is settled by
/// the next claim, whole or not at all.
pub(crate) async fn of_a_silent_engine_is_settled_by_the_next_claim(store: &mut JournalUnderTest) -> Verdict {
    let id = id("account|1");
    let mut claim = store.journal().five(&id).await;
    store.silence(true).await?;
    let error = store
        .journal()
        .write(&mut claim, writes(&[&["a-6", "a-7"]]))
        .await;
    let error = error.expect_err("nobody answered");
    let failed = matches!(
        error.kind(),
        ErrorKind::Timeout | ErrorKind::Unavailable | ErrorKind::Fenced | ErrorKind::Poisoned
    );
    assert!(failed, "connection trouble is none of this: {error}");
    store.silence(false).await?;
    let next = store.journal().claimed(&id).await;
    let highest = next.highest().get();
    let numbers = store.journal().numbers(&id, ReplayRange::ALL).await;
    assert!(
        numbers.into_iter().eq(1..=highest),
        "the claim counts what is not there"
    );
    match error.outcome() {
        Outcome::NotStored => assert_eq!(highest, 5, "not stored, yet there"),
        Outcome::Unknown => assert!([5, 7].contains(&highest), "a torn write"),
    }
    Ok(())
}

/// G4: after Unknown the claim is spent: the writer must learn what was stored before it writes again.
pub(crate) async fn unknown_leaves_the_claim_spent(store: &mut JournalUnderTest) -> Verdict {
    let id = id("account|1");
    let mut claim = store.journal().five(&id).await;
    store.silence(true).await?;
    let error = store
        .journal()
        .write(&mut claim, writes(&[&["a-6", "a-7"]]))
        .await;
    let error = error.expect_err("nobody answered");
    store.silence(false).await?;
    if error.outcome() == Outcome::NotStored {
        return Ok(());
    }
    assert!(claim.is_spent(), "a claim with an unknown append stayed usable");
    let error = store.journal().write(&mut claim, writes(&[&["again"]])).await;
    let error = error.expect_err("the claim is spent");
    assert_eq!(
        (error.kind(), error.outcome()),
        (ErrorKind::Spent, Outcome::NotStored)
    );
    Ok(())
}

/// Every call ends, and says what it could not do.
pub(crate) async fn of_every_call_to_a_silent_engine_is_an_error(store: &mut JournalUnderTest) -> Verdict {
    let id = id("account|1");
    let incarnation = store.journal().five(&id).await.incarnation();
    store.silence(true).await?;
    let journal = store.journal();
    let writer = journal_core::WriterId::random();
    let deletion = crate::journal::plain_deletion(2, incarnation);
    let errors = [
        journal.claim(&id, writer).await.map(drop).expect_err("no claim"),
        journal.bounds(&id).await.map(drop).expect_err("no bounds"),
        journal
            .delete_to(&id, deletion)
            .await
            .map(drop)
            .expect_err("no deletion"),
        journal.purge(&id).await.expect_err("no purge"),
    ];
    for error in errors {
        let failed = matches!(
            error.kind(),
            ErrorKind::Timeout | ErrorKind::Unavailable | ErrorKind::Poisoned
        );
        assert!(failed, "{error}");
        assert_eq!(error.persistence_id(), Some(&id), "{error}");
    }
    store.silence(false).await?;
    Ok(())
}

/// The text says what happened to whom; the rest can be asked.
pub(crate) async fn names_id_and_operation(store: &mut JournalUnderTest) -> Verdict {
    let id = id("account|42");
    let mut claim = store.journal().five(&id).await;
    claim.spend();
    let error = store.journal().write(&mut claim, writes(&[&["a-6"]])).await;
    let error = error.expect_err("the claim is spent");
    assert_eq!(error.operation(), journal_core::Operation::Append);
    let text = error.to_string();
    assert!(text.contains("append") && text.contains("account|42"), "{text}");
    Ok(())
}
