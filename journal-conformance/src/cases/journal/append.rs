//! What `Ok` of an append means.

use std::sync::Arc;

use futures_util::{StreamExt, future::join};
use journal_core::{AtomicWrite, ErrorKind, Journal, Outcome, PersistenceId, ReplayRange, SequenceNr};
use tokio::task::JoinSet;

use crate::{
    journal::{Driven, JournalUnderTest, event, id, singles, writes},
    runner::Verdict,
};

/// G5.
pub(crate) async fn starts_at_number_one(store: &mut JournalUnderTest) -> Verdict {
    let id = id("account|1");
    let mut claim = store.journal().claimed(&id).await;
    let appended = store.journal().write(&mut claim, singles(&["a-1"])).await;
    let appended = appended.expect("the first append is stored");
    assert_eq!((appended.first.get(), appended.last.get()), (1, 1));
    assert_eq!(store.journal().numbers(&id, ReplayRange::ALL).await, [1]);
    Ok(())
}

/// G5: contiguous, over appends of several sizes.
pub(crate) async fn continues_after_the_highest(store: &mut JournalUnderTest) -> Verdict {
    let id = id("account|1");
    let journal = store.journal();
    let mut claim = journal.five(&id).await;
    for (writes, first, last) in [
        (singles(&["a-6"]), 6, 6),
        (writes(&[&["a-7", "a-8", "a-9"]]), 7, 9),
        (singles(&["a-10", "a-11"]), 10, 11),
    ] {
        let appended = journal.write(&mut claim, writes).await.expect("stored");
        assert_eq!((appended.first.get(), appended.last.get()), (first, last));
        assert_eq!(claim.highest(), appended.last, "the claim knows its own appends");
    }
    let expected: Vec<String> = (1..=11).map(|number| format!("a-{number}")).collect();
    assert_eq!(journal.texts(&id).await, expected);
    Ok(())
}

/// G2: read after acknowledgement, each time.
pub(crate) async fn is_seen_by_a_replay_that_starts_after_ok(store: &mut JournalUnderTest) -> Verdict {
    let id = id("account|1");
    let journal = store.journal();
    let mut claim = journal.claimed(&id).await;
    for number in 1..=50 {
        let appended = journal.write(&mut claim, singles(&["x"])).await;
        assert_eq!(appended.expect("stored").last.get(), number);
        assert_eq!(journal.highest(&id).await, number);
        let range = ReplayRange::from(SequenceNr::new(number));
        let seen = journal.numbers(&id, range).await;
        assert_eq!(seen, [number], "acknowledged, but not replayed");
    }
    Ok(())
}

/// G2, in any process.
pub(crate) async fn is_seen_by_another_process_after_ok(store: &mut JournalUnderTest) -> Verdict {
    let other = store.another_process().await?;
    let id = id("account|1");
    let mut claim = store.journal().five(&id).await;
    assert_eq!(other.texts(&id).await, ["a-1", "a-2", "a-3", "a-4", "a-5"]);
    let appended = store.journal().write(&mut claim, singles(&["a-6"])).await;
    appended.expect("a reader does not fence");
    assert_eq!(other.highest(&id).await, 6);
    Ok(())
}

const WRITE: u64 = 7;

/// Reads `id` again and again; every write of it has [`WRITE`] events.
async fn assert_no_part_is_seen(journal: &dyn Journal, id: &PersistenceId, reads: usize) {
    for _ in 0..reads {
        let highest = journal.highest(id).await;
        let last = journal.numbers(id, ReplayRange::ALL).await.pop().unwrap_or(0);
        assert_eq!(highest % WRITE, 0, "the bounds show a part of an atomic write");
        assert_eq!(last % WRITE, 0, "a replay shows a part of an atomic write");
        tokio::task::yield_now().await;
    }
}

/// G1: readers beside the writer, on its thread and on another, see each atomic write whole or not at all.
pub(crate) async fn is_atomic_for_a_concurrent_reader(store: &mut JournalUnderTest) -> Verdict {
    let id = id("account|1");
    let mut claim = store.journal().claimed(&id).await;
    let (journal, read) = (store.shared(), id.clone());
    let mut readers = JoinSet::new();
    readers.spawn(async move { assert_no_part_is_seen(&*journal, &read, 300).await });
    for _ in 0..30 {
        let events: Vec<_> = (0..WRITE).map(|part| event(part.to_string())).collect();
        let write = store
            .journal()
            .write(&mut claim, Arc::from([AtomicWrite::from(events)]));
        let (stored, ()) = join(write, assert_no_part_is_seen(store.journal(), &id, 10)).await;
        stored.expect("stored");
    }
    readers.join_all().await;
    Ok(())
}

/// A thousand writes in one call keep their order.
pub(crate) async fn stores_a_thousand_writes_in_one_call(store: &mut JournalUnderTest) -> Verdict {
    let id = id("account|1");
    let texts: Vec<String> = (1..=1_000).map(|number| format!("a-{number}")).collect();
    let batch: Arc<[AtomicWrite]> = texts.iter().map(|text| event(text.clone()).into()).collect();
    let mut claim = store.journal().claimed(&id).await;
    let appended = store.journal().write(&mut claim, batch).await.expect("stored");
    assert_eq!((appended.first.get(), appended.last.get()), (1, 1_000));
    assert_eq!(store.journal().texts(&id).await, texts);
    Ok(())
}

/// One atomic write of a thousand events.
pub(crate) async fn stores_a_thousand_events_in_one_write(store: &mut JournalUnderTest) -> Verdict {
    let id = id("account|1");
    let texts: Vec<String> = (1..=1_000).map(|number| format!("a-{number}")).collect();
    let events: Vec<_> = texts.iter().map(|text| event(text.clone())).collect();
    let mut claim = store.journal().claimed(&id).await;
    let write = Arc::from([AtomicWrite::from(events)]);
    let appended = store.journal().write(&mut claim, write).await.expect("stored");
    assert_eq!((appended.first.get(), appended.last.get()), (1, 1_000));
    assert_eq!(store.journal().texts(&id).await, texts);
    Ok(())
}

/// G4: `expected` is a check beside the claim's own knowledge.
pub(crate) async fn conflicts_where_the_expected_number_differs(store: &mut JournalUnderTest) -> Verdict {
    let id = id("account|1");
    let journal = store.journal();
    let mut claim = journal.five(&id).await;
    for expected in [0, 4, 6] {
        let error = journal
            .append(&mut claim, SequenceNr::new(expected), singles(&["wrong"]))
            .await
            .expect_err("the expected number is wrong");
        let (kind, outcome) = (error.kind(), error.outcome());
        assert_eq!(
            (kind, outcome),
            (ErrorKind::Conflict, Outcome::NotStored),
            "{error}"
        );
        assert!(!claim.is_spent(), "a conflict leaves the claim usable");
    }
    let appended = journal
        .write(&mut claim, singles(&["a-6"]))
        .await
        .expect("stored");
    assert_eq!(appended.first.get(), 6, "a conflict consumes no number");
    assert_eq!(
        journal.texts(&id).await,
        ["a-1", "a-2", "a-3", "a-4", "a-5", "a-6"]
    );
    Ok(())
}

/// Events of one id are never another's.
pub(crate) async fn keeps_many_ids_apart(store: &mut JournalUnderTest) -> Verdict {
    let journal = store.journal();
    let texts_of =
        |number: usize| -> Vec<String> { (0..=number % 4).map(|part| format!("{number}:{part}")).collect() };
    for number in 0..200 {
        let texts = texts_of(number);
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        journal.stored(&id(&format!("account|{number}")), &texts).await;
    }
    for number in 0..200 {
        let texts = journal.texts(&id(&format!("account|{number}"))).await;
        assert_eq!(texts, texts_of(number));
    }
    Ok(())
}

/// A replay that nobody reads on does not stop the writer, and misses nothing that it started with.
pub(crate) async fn goes_on_while_a_replay_is_open(store: &mut JournalUnderTest) -> Verdict {
    let id = id("account|1");
    let journal = store.journal();
    let mut claim = journal.five(&id).await;
    let mut replay = journal.replay(&id, ReplayRange::ALL);
    let first = replay.next().await.expect("five events").expect("readable");
    assert_eq!(first.sequence_nr.get(), 1);
    for number in 6..=30 {
        let appended = journal.write(&mut claim, singles(&["x"])).await.expect("stored");
        assert_eq!(appended.last.get(), number);
    }
    let rest: Vec<u64> = replay
        .map(|record| record.expect("readable").sequence_nr.get())
        .collect()
        .await;
    assert!(
        rest.starts_with(&[2, 3, 4, 5]),
        "the replay lost events: {rest:?}"
    );
    Ok(())
}
