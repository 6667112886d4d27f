//! Reading back.

use std::time::{Duration, Instant};

use futures_util::{
    StreamExt,
    future::{join, join_all},
};
use journal_core::{ErrorKind, GapPolicy, JournalError, JournalExt, Record, ReplayRange, SequenceNr};

use crate::{
    journal::{Damage, Driven, JournalUnderTest, id, range, singles, text_of},
    runner::{NotApplicable, Verdict},
};

/// Replays `range` of five events; the highest number must not depend on it.
async fn assert_replayed(store: &JournalUnderTest, range: ReplayRange, expected: &[u64]) -> Verdict {
    let id = id("account|1");
    let journal = store.journal();
    journal.five(&id).await;
    let records = journal.records(&id, range).await;
    let numbers: Vec<u64> = records.iter().map(|record| record.sequence_nr.get()).collect();
    assert_eq!(numbers, expected, "{range:?}");
    let texts: Vec<String> = records.iter().map(text_of).collect();
    let expected: Vec<String> = expected.iter().map(|number| format!("a-{number}")).collect();
    assert_eq!(texts, expected, "{range:?}");
    let highest = journal.highest(&id).await;
    assert_eq!(highest, 5, "the highest number depends on the replayed range");
    Ok(())
}

/// J1, G6.
pub(crate) async fn delivers_everything_in_order(store: &mut JournalUnderTest) -> Verdict {
    assert_replayed(store, ReplayRange::ALL, &[1, 2, 3, 4, 5]).await
}

/// J2, G6.
pub(crate) async fn starts_at_the_lower_bound_inclusive(store: &mut JournalUnderTest) -> Verdict {
    assert_replayed(store, ReplayRange::from(SequenceNr::new(3)), &[3, 4, 5]).await
}

/// J3, G6.
pub(crate) async fn stops_at_the_upper_bound_inclusive(store: &mut JournalUnderTest) -> Verdict {
    assert_replayed(store, range(1, 3), &[1, 2, 3]).await
}

/// J4.
pub(crate) async fn delivers_at_most_max_events(store: &mut JournalUnderTest) -> Verdict {
    assert_replayed(store, ReplayRange::ALL.max(3), &[1, 2, 3]).await
}

/// J5, G6.
pub(crate) async fn includes_both_bounds(store: &mut JournalUnderTest) -> Verdict {
    assert_replayed(store, range(2, 3), &[2, 3]).await
}

/// J6.
pub(crate) async fn applies_max_within_bounds(store: &mut JournalUnderTest) -> Verdict {
    assert_replayed(store, range(2, 5).max(2), &[2, 3]).await
}

/// J7.
pub(crate) async fn delivers_one_event_where_the_bounds_are_equal(store: &mut JournalUnderTest) -> Verdict {
    assert_replayed(store, range(2, 2), &[2]).await
}

/// J8.
pub(crate) async fn delivers_one_event_for_a_max_of_one(store: &mut JournalUnderTest) -> Verdict {
    assert_replayed(store, range(2, 4).max(1), &[2]).await
}

/// J9, G6.
pub(crate) async fn delivers_nothing_for_a_max_of_zero(store: &mut JournalUnderTest) -> Verdict {
    assert_replayed(store, ReplayRange::ALL.max(0), &[]).await
}

/// J10, G6.
pub(crate) async fn delivers_nothing_where_the_bounds_are_crossed(store: &mut JournalUnderTest) -> Verdict {
    assert_replayed(store, range(3, 2), &[]).await
}

/// J11, G6: no error, also from zero.
pub(crate) async fn of_an_unknown_id_is_empty(store: &mut JournalUnderTest) -> Verdict {
    let (known, unknown) = (id("account|1"), id("account|2"));
    let journal = store.journal();
    journal.five(&known).await;
    for from in [0, 1, 7] {
        let range = ReplayRange::from(SequenceNr::new(from));
        assert_eq!(journal.numbers(&unknown, range).await, [0_u64; 0]);
    }
    assert_eq!(journal.highest(&unknown).await, 0);
    Ok(())
}

/// G6.
pub(crate) async fn from_zero_starts_at_the_first_event(store: &mut JournalUnderTest) -> Verdict {
    assert_replayed(store, range(0, 2), &[1, 2]).await
}

/// Zero to zero is before the first event.
pub(crate) async fn up_to_zero_is_empty(store: &mut JournalUnderTest) -> Verdict {
    assert_replayed(store, range(0, 0), &[]).await
}

/// Asking for more than there is is legal.
pub(crate) async fn beyond_the_highest_is_empty(store: &mut JournalUnderTest) -> Verdict {
    assert_replayed(store, range(6, 9), &[]).await
}

/// The largest number there can be, as both bounds.
pub(crate) async fn at_the_largest_number_is_empty(store: &mut JournalUnderTest) -> Verdict {
    let largest = ReplayRange::between(SequenceNr::MAX, SequenceNr::MAX);
    assert_replayed(store, largest, &[]).await
}

/// A bound inside an atomic write cuts the replay, not the write.
pub(crate) async fn can_start_inside_an_atomic_write(store: &mut JournalUnderTest) -> Verdict {
    assert_replayed(store, range(5, 5), &[5]).await
}

/// As above, from the other side.
pub(crate) async fn can_stop_inside_an_atomic_write(store: &mut JournalUnderTest) -> Verdict {
    assert_replayed(store, range(3, 4), &[3, 4]).await
}

/// G6: over many chunks, each number once, the last one reached.
pub(crate) async fn of_a_long_stream_is_complete(store: &mut JournalUnderTest) -> Verdict {
    let id = id("account|1");
    store.many(&id, 10_000, 100).await;
    let journal = store.journal();
    let numbers = journal.numbers(&id, ReplayRange::ALL).await;
    assert_eq!(numbers.len(), 10_000, "the replay ended at {:?}", numbers.last());
    assert!(numbers.into_iter().eq(1..=10_000), "the replay is out of order");
    let middle = journal.numbers(&id, range(777, 9_001)).await;
    assert!(
        middle.into_iter().eq(777..=9_001),
        "a range over many chunks differs"
    );
    let most = ReplayRange::from(SequenceNr::new(500)).max(4_321);
    let most = journal.numbers(&id, most).await;
    assert!(most.into_iter().eq(500..=4_820), "max over many chunks differs");
    Ok(())
}

/// G6: appends that run beside it neither cut nor disturb it.
pub(crate) async fn reaches_the_highest_known_at_its_start(store: &mut JournalUnderTest) -> Verdict {
    let id = id("account|1");
    let journal = store.journal();
    let mut claim = journal.claimed(&id).await;
    for round in 0..30 {
        let known = round * 2;
        let replay = async { journal.numbers(&id, ReplayRange::ALL).await };
        let (numbers, stored) = join(replay, journal.write(&mut claim, singles(&["x", "y"]))).await;
        let last = numbers.last().copied().unwrap_or(0);
        assert!(
            last >= known,
            "a replay ended at {last}, {known} was known when it started"
        );
        assert!(
            numbers.into_iter().eq(1..=last),
            "a replay beside an append has gaps"
        );
        assert_eq!(stored.expect("stored").last.get(), known + 2);
    }
    Ok(())
}

/// As records or in chunks: the same.
pub(crate) async fn gives_the_same_in_chunks(store: &mut JournalUnderTest) -> Verdict {
    let id = id("account|1");
    store.many(&id, 2_000, 20).await;
    let records = store.journal().records(&id, ReplayRange::ALL).await;
    let mut replay = store.journal().replay(&id, ReplayRange::ALL);
    let mut chunks: Vec<Record> = Vec::new();
    while let Some(chunk) = replay.next_chunk().await {
        let chunk = chunk.expect("readable");
        assert!(!chunk.is_empty(), "a chunk has at least one record");
        chunks.extend(chunk);
    }
    assert!(chunks == records, "chunks and records differ");
    Ok(())
}

/// The callback form ends with the highest number, also where the range ends earlier.
pub(crate) async fn with_a_callback_returns_the_highest(store: &mut JournalUnderTest) -> Verdict {
    let id = id("account|1");
    store.journal().five(&id).await;
    let mut seen = Vec::new();
    let highest = store
        .shared()
        .replay_each(&id, range(2, 3), &mut |record| {
            seen.push(record.sequence_nr.get())
        })
        .await
        .expect("readable");
    assert_eq!((seen, highest.get()), (vec![2, 3], 5));
    Ok(())
}

/// Replays share nothing.
pub(crate) async fn runs_beside_others(store: &mut JournalUnderTest) -> Verdict {
    let id = id("account|1");
    store.many(&id, 1_000, 50).await;
    let replays = (0..16).map(|n| store.journal().numbers(&id, range(1 + n, 1_000 - n)));
    for (n, numbers) in (0..).zip(join_all(replays).await) {
        assert!(numbers.into_iter().eq(1 + n..=1_000 - n), "replay {n} differs");
    }
    Ok(())
}

/// A consumer that has read enough just stops.
pub(crate) async fn can_be_dropped_half_way(store: &mut JournalUnderTest) -> Verdict {
    let id = id("account|1");
    store.many(&id, 2_000, 20).await;
    for taken in [0, 1, 300] {
        let mut replay = store.journal().replay(&id, ReplayRange::ALL);
        for _ in 0..taken {
            replay.next().await.expect("2000 events").expect("readable");
        }
    }
    let mut claim = store.journal().claimed(&id).await;
    let appended = store.journal().write(&mut claim, singles(&["x"])).await;
    assert_eq!(appended.expect("stored").last.get(), 2_001);
    Ok(())
}

/// G6: a deletion that overtakes a replay ends it with an error, or not at all, but cuts no hole.
pub(crate) async fn that_a_deletion_overtakes_has_no_hole(store: &mut JournalUnderTest) -> Verdict {
    let id = id("account|1");
    store.many(&id, 5_000, 100).await;
    let mut replay = store.journal().replay(&id, ReplayRange::ALL);
    let first = replay.next().await.expect("5000 events").expect("readable");
    assert_eq!(first.sequence_nr.get(), 1);
    store.journal().deleted(&id, 4_000).await;
    let mut last = 1;
    loop {
        match replay.next().await {
            Some(Ok(record)) => {
                let number = record.sequence_nr.get();
                assert_eq!(number, last + 1, "the replay jumped over a deletion");
                last = number;
            }
            Some(Err(_)) => return Ok(()),
            None => {
                assert_eq!(last, 5_000, "the replay ended without a word");
                return Ok(());
            }
        }
    }
}

/// What a replay says of an event that is damaged or gone.
async fn assert_ends_with_an_error(store: &mut JournalUnderTest, at: u64, damage: Damage) -> Verdict {
    let id = id("account|1");
    let texts = ["a-1", "a-2", "a-3", "a-4", "a-5"];
    store.journal().stored(&id, &texts).await;
    store.damage(&id, at, damage).await?;
    let replayed: Vec<Result<Record, JournalError>> =
        store.journal().replay(&id, ReplayRange::ALL).collect().await;
    let (last, delivered) = replayed.split_last().expect("at least the error");
    let error = last.as_ref().expect_err("a damaged stream must not end well");
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert_eq!(error.persistence_id(), Some(&id), "{error}");
    for (record, number) in delivered.iter().zip(1..) {
        let record = record.as_ref().expect("only the end is an error");
        assert_eq!(record.sequence_nr.get(), number);
        assert!(number < at, "events behind the damage were delivered");
    }
    Ok(())
}

/// G6.
pub(crate) async fn ends_with_an_error_at_a_corrupt_event(store: &mut JournalUnderTest) -> Verdict {
    assert_ends_with_an_error(store, 3, Damage::Corrupt).await
}

/// G6.
pub(crate) async fn ends_with_an_error_at_a_missing_event(store: &mut JournalUnderTest) -> Verdict {
    if store.capabilities().gaps == GapPolicy::Accept {
        return NotApplicable::because("the journal declares GapPolicy::Accept");
    }
    assert_ends_with_an_error(store, 3, Damage::Missing).await
}

/// G6: a lost tail is a gap too.
pub(crate) async fn ends_with_an_error_where_the_last_event_is_missing(
    store: &mut JournalUnderTest,
) -> Verdict {
    assert_ends_with_an_error(store, 5, Damage::Missing).await
}

/// G6: an engine that says nothing is an error in bounded time, neither an end nor a wait for ever.
pub(crate) async fn of_a_silent_engine_ends_with_an_error(store: &mut JournalUnderTest) -> Verdict {
    let id = id("account|1");
    store.journal().five(&id).await;
    store.silence(true).await?;
    let replayed: Vec<_> = store.journal().replay(&id, ReplayRange::ALL).collect().await;
    let error = replayed
        .into_iter()
        .next_back()
        .expect("the replay ended as if there were no events")
        .expect_err("the replay ended as if it were complete");
    let silent = matches!(error.kind(), ErrorKind::Timeout | ErrorKind::Unavailable);
    assert!(silent, "{error}");
    store.silence(false).await?;
    assert_eq!(store.journal().texts(&id).await.len(), 5);
    Ok(())
}

/// G7: the cost of a replay does not depend on what was deleted. Compares the best of several runs, by a wide margin.
pub(crate) async fn of_the_tail_does_not_read_what_was_deleted(store: &mut JournalUnderTest) -> Verdict {
    let id = id("account|1");
    store.many(&id, 10_000, 100).await;
    let best = async |expected| {
        let mut best = Duration::MAX;
        for _ in 0..5 {
            let start = Instant::now();
            let read = store.journal().numbers(&id, ReplayRange::ALL).await.len();
            best = best.min(start.elapsed());
            assert_eq!(read, expected);
        }
        best
    };
    let whole = best(10_000).await;
    store.journal().deleted(&id, 9_999).await;
    let tail = best(1).await;
    assert!(
        tail < whole / 4,
        "one event behind a deletion takes {tail:?}, the ten thousand took {whole:?}"
    );
    Ok(())
}
