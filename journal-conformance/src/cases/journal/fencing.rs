//! One writer.

use futures_util::future::{join, join_all};
use journal_core::{Claim, ErrorKind, Journal, Outcome, PersistenceId, ReplayRange, WriterId};
use tokio::task::JoinSet;

use crate::{
    journal::{Driven, JournalUnderTest, id, singles},
    runner::Verdict,
};

/// G4: the former claim stores nothing, keeps nothing, and says so.
async fn assert_fenced(first: &dyn Journal, second: &dyn Journal, id: &PersistenceId) {
    let mut former = first.five(id).await;
    let mut claim = second.claimed(id).await;
    assert_eq!(claim.highest().get(), 5);
    let error = first.write(&mut former, singles(&["former"])).await;
    let error = error.expect_err("a later claim ended this one");
    assert_eq!(error.kind(), ErrorKind::Fenced, "{error}");
    assert_eq!(error.persistence_id(), Some(id), "{error}");
    assert!(former.is_spent(), "a fenced claim is spent");
    let appended = second.write(&mut claim, singles(&["a-6"])).await;
    assert_eq!(appended.expect("the latest claim may append").first.get(), 6);
    for journal in [first, second] {
        let texts = journal.texts(id).await;
        assert_eq!(texts, ["a-1", "a-2", "a-3", "a-4", "a-5", "a-6"]);
    }
}

/// G4.
pub(crate) async fn ends_the_former_claim(store: &mut JournalUnderTest) -> Verdict {
    store.needs_fencing()?;
    assert_fenced(store.journal(), store.journal(), &id("account|1")).await;
    Ok(())
}

/// G4, in every process.
pub(crate) async fn ends_a_claim_of_another_process(store: &mut JournalUnderTest) -> Verdict {
    store.needs_fencing()?;
    let other = store.another_process().await?;
    assert_fenced(&*other, store.journal(), &id("account|1")).await;
    assert_fenced(store.journal(), &*other, &id("account|2")).await;
    Ok(())
}

/// G4: it is the claim that counts, not who claims.
pub(crate) async fn ends_a_former_claim_of_the_same_writer(store: &mut JournalUnderTest) -> Verdict {
    store.needs_fencing()?;
    let id = id("account|1");
    let journal = store.journal();
    let writer = WriterId::random();
    let mut former = journal.claim(&id, writer).await.expect("claimed");
    let mut claim = journal.claim(&id, writer).await.expect("claimed");
    let error = journal.write(&mut former, singles(&["former"])).await;
    assert_eq!(error.expect_err("ended").kind(), ErrorKind::Fenced);
    journal
        .write(&mut claim, singles(&["a-1"]))
        .await
        .expect("stored");
    assert_eq!(journal.texts(&id).await, ["a-1"]);
    Ok(())
}

/// G4: a spent claim stays spent, whatever is tried.
pub(crate) async fn leaves_the_former_claim_spent(store: &mut JournalUnderTest) -> Verdict {
    store.needs_fencing()?;
    let id = id("account|1");
    let journal = store.journal();
    let mut former = journal.five(&id).await;
    journal.claimed(&id).await;
    journal
        .write(&mut former, singles(&["former"]))
        .await
        .expect_err("fenced");
    for _ in 0..3 {
        let error = journal.write(&mut former, singles(&["former"])).await;
        let error = error.expect_err("the claim is spent");
        let (kind, outcome) = (error.kind(), error.outcome());
        assert_eq!((kind, outcome), (ErrorKind::Spent, Outcome::NotStored), "{error}");
    }
    assert_eq!(journal.texts(&id).await.len(), 5);
    Ok(())
}

/// G4: later claims compare greater.
pub(crate) async fn orders_epochs(store: &mut JournalUnderTest) -> Verdict {
    let id = id("account|1");
    let mut epochs = Vec::new();
    for _ in 0..20 {
        epochs.push(store.journal().claimed(&id).await.epoch());
    }
    assert!(epochs.is_sorted_by(|former, later| former < later), "{epochs:?}");
    Ok(())
}

/// Claims of other ids are not its business.
pub(crate) async fn leaves_claims_of_other_ids_alone(store: &mut JournalUnderTest) -> Verdict {
    let journal = store.journal();
    let (one, other) = (id("account|1"), id("account|2"));
    let mut claim = journal.five(&other).await;
    journal.claimed(&one).await;
    journal.claimed(&one).await;
    journal
        .write(&mut claim, singles(&["a-6"]))
        .await
        .expect("the claim is alive");
    assert_eq!(journal.texts(&other).await.len(), 6);
    Ok(())
}

/// G4: of N writers that claimed and expect the same number, exactly one is acknowledged, and its event is the one.
pub(crate) async fn acknowledges_one_of_many_writers(store: &mut JournalUnderTest) -> Verdict {
    store.needs_fencing()?;
    for round in 0..10 {
        let id = id(&format!("account|{round}"));
        let mut claims = Vec::new();
        for _ in 0..16 {
            claims.push(store.journal().claimed(&id).await);
        }
        let mut writers = JoinSet::new();
        for (number, mut claim) in claims.into_iter().enumerate() {
            let journal = store.shared();
            writers.spawn(async move {
                let text = number.to_string();
                let result = journal.write(&mut claim, singles(&[&text])).await;
                (text, result.map_err(|error| error.kind()))
            });
        }
        let results = writers.join_all().await;
        let winners: Vec<_> = results.iter().filter(|(_, result)| result.is_ok()).collect();
        let [(winner, _)] = winners.as_slice() else {
            panic!("exactly one writer must be acknowledged: {results:?}");
        };
        for (_, result) in &results {
            let fits = matches!(result, Ok(_) | Err(ErrorKind::Fenced | ErrorKind::Conflict));
            assert!(fits, "{results:?}");
        }
        assert_eq!(store.journal().texts(&id).await, std::slice::from_ref(winner));
    }
    Ok(())
}

/// G4: writers that also claim at once: no number is acknowledged twice, and what was acknowledged is what is there.
pub(crate) async fn acknowledges_no_number_twice(store: &mut JournalUnderTest) -> Verdict {
    store.needs_fencing()?;
    let id = id("account|1");
    let mut writers = JoinSet::new();
    for writer in 0..8 {
        let (journal, id) = (store.shared(), id.clone());
        writers.spawn(async move {
            let mut acknowledged = Vec::new();
            for round in 0..20 {
                let mut claim = journal.claimed(&id).await;
                tokio::task::yield_now().await;
                let text = format!("{writer}:{round}");
                if let Ok(appended) = journal.write(&mut claim, singles(&[&text])).await {
                    acknowledged.push((appended.first.get(), text));
                }
            }
            acknowledged
        });
    }
    let mut acknowledged: Vec<_> = writers.join_all().await.into_iter().flatten().collect();
    acknowledged.sort();
    let records = store.journal().records(&id, ReplayRange::ALL).await;
    let highest = store.journal().highest(&id).await;
    let numbers: Vec<u64> = records.iter().map(|record| record.sequence_nr.get()).collect();
    assert_eq!(
        numbers,
        (1..=highest).collect::<Vec<_>>(),
        "numbers are not contiguous"
    );
    let texts = store.journal().texts(&id).await;
    let stored: Vec<(u64, String)> = (1..).zip(texts).collect();
    for event in &acknowledged {
        assert!(
            stored.contains(event),
            "{event:?} was acknowledged, but is not there"
        );
    }
    let acknowledged_numbers: Vec<u64> = acknowledged.iter().map(|(number, _)| *number).collect();
    assert!(
        acknowledged_numbers.is_sorted_by(|earlier, later| earlier < later),
        "a number was acknowledged twice: {acknowledged:?}"
    );
    Ok(())
}

async fn claimed_after(journal: &dyn Journal, id: &PersistenceId, yields: usize) -> Claim {
    for _ in 0..yields {
        tokio::task::yield_now().await;
    }
    journal.claimed(id).await
}

/// G5: when a claim returns its bounds are final: an append that was in flight is counted, or never appears. The claim
/// comes from the append's own thread and from another.
pub(crate) async fn returns_final_bounds(store: &mut JournalUnderTest) -> Verdict {
    store.needs_fencing()?;
    for round in 0..50 {
        let id = id(&format!("account|{round}"));
        let mut former = store.journal().five(&id).await;
        let write = store.journal().write(&mut former, singles(&["a-6", "a-7"]));
        let (result, claim) = if round % 2 == 0 {
            join(write, claimed_after(store.journal(), &id, round % 5)).await
        } else {
            let (journal, id) = (store.shared(), id.clone());
            let mut claims = JoinSet::new();
            claims.spawn(async move { claimed_after(&*journal, &id, round % 5).await });
            let (result, mut claims) = join(write, claims.join_all()).await;
            (result, claims.pop().expect("one claim"))
        };
        let counted = claim.highest().get();
        let texts = store.journal().texts(&id).await;
        assert_eq!(
            texts.len() as u64,
            counted,
            "an event that the claim did not count appeared"
        );
        assert_eq!(store.journal().highest(&id).await, counted);
        match result {
            Ok(_) => assert_eq!(counted, 7, "acknowledged, but not counted by the later claim"),
            Err(error) if error.outcome() == Outcome::NotStored => assert_eq!(counted, 5, "{error}"),
            Err(error) => assert!([5, 6, 7].contains(&counted), "{error}"),
        }
    }
    Ok(())
}

/// Claims beside each other leave one that can write.
pub(crate) async fn of_many_claims_at_once_leaves_one(store: &mut JournalUnderTest) -> Verdict {
    store.needs_fencing()?;
    let id = id("account|1");
    let journal = store.journal();
    let mut claims = join_all((0..16).map(|_| journal.claimed(&id))).await;
    claims.sort_by_key(|claim| claim.epoch());
    let mut latest = claims.pop().expect("sixteen claims");
    for mut former in claims {
        let error = journal.write(&mut former, singles(&["former"])).await;
        assert_eq!(error.expect_err("ended").kind(), ErrorKind::Fenced);
    }
    journal
        .write(&mut latest, singles(&["a-1"]))
        .await
        .expect("the latest claim may append");
    assert_eq!(journal.texts(&id).await, ["a-1"]);
    Ok(())
}
