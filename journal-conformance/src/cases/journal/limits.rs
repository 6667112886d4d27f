//! Rejections: certainly not stored, decided before any I/O.

use std::sync::Arc;

use journal_core::{AtomicWrite, Bounds, Claim, ErrorKind, Outcome};

use crate::{
    journal::{Driven, JournalUnderTest, event, id, one, singles},
    runner::{NotApplicable, Verdict},
};

/// The largest event that a case makes; a journal whose limit is beyond it is not filled to its limit.
const AFFORDABLE: usize = 64 << 20;

async fn assert_rejected(
    store: &JournalUnderTest,
    claim: &mut Claim,
    writes: Arc<[AtomicWrite]>,
    index: Option<usize>,
) {
    let journal = store.journal();
    let id = claim.id().clone();
    let before = (journal.bounds_of(&id).await, journal.texts(&id).await);
    let error = journal.write(claim, writes).await;
    let error = error.expect_err("this cannot be stored");
    let (kind, outcome) = (error.kind(), error.outcome());
    assert_eq!(
        (kind, outcome),
        (ErrorKind::Rejected, Outcome::NotStored),
        "{error}"
    );
    assert_eq!(
        error.write_index(),
        index,
        "the error names the write at fault: {error}"
    );
    assert_eq!(error.persistence_id(), Some(&id), "{error}");
    assert!(!claim.is_spent(), "a rejection leaves the claim usable");
    let after = (journal.bounds_of(&id).await, journal.texts(&id).await);
    assert_eq!(after, before, "something of a rejected append is stored");
}

fn oversized(store: &JournalUnderTest) -> Result<AtomicWrite, NotApplicable> {
    let largest = store.capabilities().largest_event;
    if largest > AFFORDABLE {
        return NotApplicable::because(format!("an event of {largest} bytes is too large to try"));
    }
    Ok(event(vec![b'x'; largest + 1]).into())
}

/// JO1, G3: one bad write of an append rejects all of it, consumes no number, and leaves the claim usable.
pub(crate) async fn reject_the_whole_append(store: &mut JournalUnderTest) -> Verdict {
    let id = id("account|1");
    let oversized = oversized(store)?;
    let mut claim = store.journal().five(&id).await;
    let good = |text: &'static str| AtomicWrite::from(event(text));
    let writes = Arc::from([good("a-6"), oversized, good("a-8")]);
    assert_rejected(store, &mut claim, writes, Some(1)).await;
    let appended = store.journal().write(&mut claim, singles(&["a-6"])).await;
    let appended = appended.expect("the claim is usable");
    assert_eq!(appended.first.get(), 6, "a rejection consumed a number");
    assert_eq!(
        store.journal().texts(&id).await,
        ["a-1", "a-2", "a-3", "a-4", "a-5", "a-6"]
    );
    Ok(())
}

/// G1, G3: one bad event rejects the events beside it.
pub(crate) async fn reject_a_write_with_one_oversized_event(store: &mut JournalUnderTest) -> Verdict {
    let id = id("account|1");
    let mut events = vec![event("a-1"), event("a-2")];
    events.append(&mut oversized(store)?.events);
    let mut claim = store.journal().claimed(&id).await;
    assert_rejected(store, &mut claim, Arc::from([AtomicWrite::from(events)]), Some(0)).await;
    assert_eq!(store.journal().bounds_of(&id).await, Bounds::default());
    Ok(())
}

/// G3.
pub(crate) async fn reject_an_append_without_writes(store: &mut JournalUnderTest) -> Verdict {
    let mut claim = store.journal().five(&id("account|1")).await;
    assert_rejected(store, &mut claim, Arc::from([]), None).await;
    Ok(())
}

/// G3.
pub(crate) async fn reject_a_write_without_events(store: &mut JournalUnderTest) -> Verdict {
    let mut claim = store.journal().five(&id("account|1")).await;
    let empty = AtomicWrite { events: Vec::new() };
    let writes = Arc::from([AtomicWrite::from(event("a-6")), empty]);
    assert_rejected(store, &mut claim, writes, Some(1)).await;
    Ok(())
}

/// G3: the sum counts, too.
pub(crate) async fn reject_an_oversized_append(store: &mut JournalUnderTest) -> Verdict {
    let limits = store.capabilities();
    if limits.largest_append > AFFORDABLE {
        let reason = format!("an append of {} bytes is too large to try", limits.largest_append);
        return NotApplicable::because(reason);
    }
    let size = (limits.largest_event / 2).min(limits.largest_append / 2).max(1);
    let part = AtomicWrite::from(event(vec![b'x'; size]));
    let fit = limits.largest_append / part.size();
    let mut claim = store.journal().claimed(&id("account|1")).await;
    let writes: Arc<[AtomicWrite]> = std::iter::repeat_n(part, fit + 1).collect();
    assert_rejected(store, &mut claim, writes, Some(fit)).await;
    Ok(())
}

/// What is declared to fit fits.
pub(crate) async fn accept_the_largest_event(store: &mut JournalUnderTest) -> Verdict {
    let limits = store.capabilities();
    let largest = limits.largest_event.min(limits.largest_append);
    if largest > AFFORDABLE {
        return NotApplicable::because(format!("an event of {largest} bytes is too large to try"));
    }
    let id = id("account|1");
    let overhead = event("").size();
    let largest = event(vec![b'x'; largest - overhead]);
    let mut claim = store.journal().claimed(&id).await;
    let stored = store.journal().write(&mut claim, one(largest.clone())).await;
    stored.expect("an event of the declared size is stored");
    let read = store.journal().records(&id, journal_core::ReplayRange::ALL).await;
    assert_eq!(read.len(), 1);
    assert!(
        read.iter().all(|record| record.event == largest),
        "it came back changed"
    );
    Ok(())
}

/// They are declared, make sense, and do not change.
pub(crate) async fn are_constant(store: &mut JournalUnderTest) -> Verdict {
    let before = (store.journal().info(), store.capabilities());
    let limits = before.1;
    assert!(
        limits.largest_event > 0 && limits.largest_append >= limits.largest_event,
        "{limits:?}"
    );
    assert!(!before.0.backend.is_empty(), "a journal has a name");
    store.journal().five(&id("account|1")).await;
    assert_eq!((store.journal().info(), store.capabilities()), before);
    Ok(())
}
