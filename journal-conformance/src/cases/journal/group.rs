//! Appends of many ids at once.

use std::sync::Arc;

use futures_util::future::join;
use journal_core::{AppendPart, AtomicWrite, Claim, ErrorKind, SequenceNr};

use crate::{
    journal::{Driven, JournalUnderTest, event, id, singles, writes},
    runner::Verdict,
};

fn part(claim: Claim, writes: Arc<[AtomicWrite]>) -> AppendPart {
    AppendPart {
        expected: claim.highest(),
        claim,
        writes,
        result: None,
    }
}

/// Each part gets its own numbers.
pub(crate) async fn stores_every_part(store: &mut JournalUnderTest) -> Verdict {
    let journal = store.journal();
    let ids: Vec<_> = (1..=100_usize)
        .map(|number| id(&format!("account|{number}")))
        .collect();
    let mut parts = Vec::new();
    for (id, count) in ids.iter().zip(1..) {
        parts.push(part(journal.claimed(id).await, singles(&vec!["x"; count])));
    }
    for round in 1..=2 {
        journal.append_group(&mut parts).await;
        for (part, count) in parts.iter_mut().zip(1..) {
            let appended = part
                .result
                .take()
                .expect("each part gets a result")
                .expect("stored");
            let numbers = (appended.first.get(), appended.last.get());
            assert_eq!(
                numbers,
                ((round - 1) * count + 1, round * count),
                "another part's result"
            );
            part.expected = appended.last;
        }
    }
    for (id, count) in ids.iter().zip(1..) {
        assert_eq!(journal.texts(id).await.len(), 2 * count, "{id}");
    }
    Ok(())
}

/// Parts stand and fall on their own: one is rejected, one fenced, one in conflict, one spent, the others stored.
pub(crate) async fn lets_parts_fail_on_their_own(store: &mut JournalUnderTest) -> Verdict {
    store.needs_fencing()?;
    let journal = store.journal();
    let ids = ["first", "rejected", "fenced", "conflict", "spent", "last"].map(id);
    let mut parts = Vec::new();
    for id in &ids {
        let claim = journal.five(id).await;
        parts.push(part(claim, writes(&[&["a-6"], &["a-7", "a-8"]])));
    }
    for part in &mut parts {
        match part.claim.id().as_str() {
            "rejected" => {
                part.writes = Arc::from([event("a-6").into(), AtomicWrite { events: Vec::new() }]);
            }
            "fenced" => drop(journal.claimed(part.claim.id()).await),
            "conflict" => part.expected = SequenceNr::new(4),
            "spent" => part.claim.spend(),
            _ => {}
        }
    }
    journal.append_group(&mut parts).await;
    for part in &parts {
        let id = part.claim.id();
        let result = part.result.as_ref().expect("each part gets a result");
        let result = result.as_ref().map(|appended| appended.last.get());
        let (expected, spent) = match id.as_str() {
            "rejected" => (Err(ErrorKind::Rejected), false),
            "fenced" => (Err(ErrorKind::Fenced), true),
            "conflict" => (Err(ErrorKind::Conflict), false),
            "spent" => (Err(ErrorKind::Spent), true),
            _ => (Ok(8), false),
        };
        assert_eq!(result.map_err(|error| error.kind()), expected, "{id}");
        assert_eq!(part.claim.is_spent(), spent, "{id}");
        let stored = journal.texts(id).await.len();
        assert_eq!(stored, if expected.is_ok() { 8 } else { 5 }, "{id}");
    }
    Ok(())
}

/// A part that fails names its own id.
pub(crate) async fn names_the_id_of_a_failed_part(store: &mut JournalUnderTest) -> Verdict {
    let journal = store.journal();
    let mut parts = Vec::new();
    for name in ["a", "b", "c"] {
        parts.push(part(journal.five(&id(name)).await, Arc::from([])));
    }
    journal.append_group(&mut parts).await;
    for part in parts {
        let error = part
            .result
            .expect("each part gets a result")
            .expect_err("rejected");
        assert_eq!(error.persistence_id(), Some(part.claim.id()), "{error}");
    }
    Ok(())
}

/// Nothing to do is done.
pub(crate) async fn can_be_empty(store: &mut JournalUnderTest) -> Verdict {
    store.journal().append_group(&mut []).await;
    Ok(())
}

/// G2: acknowledged in a group is acknowledged.
pub(crate) async fn survives_a_restart(store: &mut JournalUnderTest) -> Verdict {
    let ids: Vec<_> = (0..50).map(|number| id(&format!("account|{number}"))).collect();
    let mut parts = Vec::new();
    for id in &ids {
        parts.push(part(
            store.journal().claimed(id).await,
            writes(&[&["1", "2"], &["3"]]),
        ));
    }
    store.journal().append_group(&mut parts).await;
    for part in parts {
        part.result.expect("each part gets a result").expect("stored");
    }
    store.restart().await?;
    for id in &ids {
        assert_eq!(store.journal().texts(id).await, ["1", "2", "3"], "{id}");
    }
    Ok(())
}

/// Groups and single appends beside each other.
pub(crate) async fn runs_beside_single_appends(store: &mut JournalUnderTest) -> Verdict {
    let journal = store.journal();
    let mut single = journal.claimed(&id("single")).await;
    let mut parts = Vec::new();
    for name in ["a", "b", "c"] {
        parts.push(part(journal.claimed(&id(name)).await, singles(&["x", "y"])));
    }
    for round in 1..=20 {
        let (appended, ()) = join(
            journal.write(&mut single, singles(&["x"])),
            journal.append_group(&mut parts),
        )
        .await;
        assert_eq!(appended.expect("stored").last.get(), round);
        for part in &mut parts {
            let appended = part
                .result
                .take()
                .expect("each part gets a result")
                .expect("stored");
            assert_eq!(appended.last.get(), round * 2);
            part.expected = appended.last;
        }
    }
    Ok(())
}
