//! What is special about this journal; what holds for every journal is in the conformance suite and the model test.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a panic is how a test fails"
)]

mod common;

use std::{sync::Arc, thread};

use common::{at, collect, event, id, numbers, writes};
use futures_executor::block_on;
use futures_util::{FutureExt, future::join_all};
use journal_core::{
    AppendPart, AtomicWrite, Bounds, Claim, Deletion, ErrorKind, Journal, Outcome, PersistenceId,
    ReplayRange, Snapshot, SnapshotMetadata, SnapshotStore, Timestamp, WriterId,
};
use journal_embedded::{Durability, EmbeddedJournal};

async fn claim(journal: &EmbeddedJournal, id: &PersistenceId) -> Claim {
    journal.claim(id, WriterId::random()).await.unwrap()
}

async fn append(journal: &EmbeddedJournal, claim: &mut Claim, lengths: &[usize]) {
    let highest = claim.highest();
    journal.append(claim, highest, writes(lengths)).await.unwrap();
}

async fn replayed(journal: &EmbeddedJournal, id: &PersistenceId) -> Vec<u64> {
    numbers(&collect(journal.replay(id, ReplayRange::ALL)).await.unwrap())
}

fn deletion(claim: &Claim, to: u64) -> Deletion {
    Deletion {
        to: at(to),
        incarnation: claim.incarnation(),
        fresh_start: false,
    }
}

/// Runs in a fresh directory.
fn with<T>(test: impl AsyncFnOnce(EmbeddedJournal, &tempfile::TempDir) -> T) -> T {
    let folder = tempfile::tempdir().unwrap();
    block_on(async {
        let journal = EmbeddedJournal::open(folder.path()).await.unwrap();
        test(journal, &folder).await
    })
}

#[test]
fn what_was_written_is_there_after_a_reopen_and_numbers_go_on() {
    with(async |journal, folder| {
        let id = id("a");
        let mut first = claim(&journal, &id).await;
        append(&journal, &mut first, &[1, 3]).await;
        let before = collect(journal.replay(&id, ReplayRange::ALL)).await.unwrap();
        assert_eq!(numbers(&before), [1, 2, 3, 4]);
        drop(journal);

        let journal = EmbeddedJournal::open(folder.path()).await.unwrap();
        let after = collect(journal.replay(&id, ReplayRange::ALL)).await.unwrap();
        assert_eq!(before, after);
        let next = claim(&journal, &id).await;
        assert_eq!(next.bounds().highest, at(4));
        assert_eq!(next.incarnation(), first.incarnation());
        assert!(next.epoch() > first.epoch());
    });
}

#[test]
fn the_highest_number_survives_the_deletion_of_everything_and_a_reopen() {
    with(async |journal, folder| {
        let id = id("a");
        let mut first = claim(&journal, &id).await;
        append(&journal, &mut first, &[2, 2]).await;
        let everything = Deletion {
            fresh_start: true,
            ..deletion(&first, 9)
        };
        assert_eq!(journal.delete_to(&id, everything).await.unwrap(), at(4));
        drop(journal);

        let journal = EmbeddedJournal::open(folder.path()).await.unwrap();
        let bounds = journal.bounds(&id).await.unwrap();
        assert_eq!(
            (bounds.highest, bounds.deleted_to, bounds.fresh_start),
            (at(4), at(4), at(4))
        );
        let mut next = claim(&journal, &id).await;
        append(&journal, &mut next, &[1]).await;
        assert_eq!(replayed(&journal, &id).await, [5]);
    });
}

#[test]
fn commit_orders_increase_across_ids_and_openings() {
    with(async |mut journal, folder| {
        let mut last = 0;
        for _ in 0..3 {
            for name in ["a", "b"] {
                let id = id(name);
                let mut claim = claim(&journal, &id).await;
                append(&journal, &mut claim, &[2, 1]).await;
                let from = at(claim.bounds().highest.get() + 1);
                let records = collect(journal.replay(&id, ReplayRange::from(from)))
                    .await
                    .unwrap();
                let orders: Vec<u64> = records
                    .iter()
                    .map(|record| record.commit_order.unwrap())
                    .collect();
                // The events of a write share its place.
                assert!(last < orders[0], "{orders:?} after {last}");
                assert!(orders[0] == orders[1] && orders[1] < orders[2], "{orders:?}");
                last = orders[2];
            }
            drop(journal);
            journal = EmbeddedJournal::open(folder.path()).await.unwrap();
        }
    });
}

#[test]
fn a_claim_counts_the_appends_that_are_queued_before_it_and_ends_their_claim() {
    with(async |journal, _| {
        let id = id("a");
        let mut first = claim(&journal, &id).await;
        let second = {
            let mut queued = journal.append(&mut first, at(0), writes(&[2]));
            let early = queued.as_mut().now_or_never();
            let second = claim(&journal, &id).await;
            match early {
                Some(stored) => stored,
                None => queued.await,
            }
            .unwrap();
            second
        };
        assert_eq!(second.bounds().highest, at(2));
        let fenced = journal.append(&mut first, at(2), writes(&[1])).await.unwrap_err();
        assert_eq!(fenced.kind(), ErrorKind::Fenced);
        assert_eq!(fenced.outcome(), Outcome::NotStored);
        assert!(first.is_spent());
    });
}

#[test]
fn a_claim_of_another_directory_is_no_claim_of_this_one() {
    with(async |journal, _| {
        let folder = tempfile::tempdir().unwrap();
        let other = EmbeddedJournal::open(folder.path()).await.unwrap();
        let id = id("a");
        // Both are the first claim of the first opening: their epochs are equal.
        let mut foreign = claim(&other, &id).await;
        let own = claim(&journal, &id).await;
        assert_eq!(foreign.epoch(), own.epoch());
        let error = journal
            .append(&mut foreign, at(0), writes(&[1]))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Fenced);
        assert_eq!(journal.bounds(&id).await.unwrap(), Bounds::default());
    });
}

#[test]
fn the_parts_of_a_group_stand_or_fall_alone() {
    with(async |journal, _| {
        let mut parts = Vec::new();
        for name in ["stored", "fenced", "conflict", "rejected"] {
            parts.push(AppendPart {
                claim: claim(&journal, &id(name)).await,
                expected: at(0),
                writes: writes(&[2, 1]),
                result: None,
            });
        }
        claim(&journal, &id("fenced")).await;
        parts[2].expected = at(7);
        parts[3].writes = writes(&[1, 0]);
        journal.append_group(&mut parts).await;

        let stored = parts[0].result.take().unwrap().unwrap();
        assert_eq!((stored.first, stored.last), (at(1), at(3)));
        for (part, kind) in
            parts[1..]
                .iter_mut()
                .zip([ErrorKind::Fenced, ErrorKind::Conflict, ErrorKind::Rejected])
        {
            let error = part.result.take().unwrap().unwrap_err();
            assert_eq!(error.kind(), kind);
            assert_eq!(error.persistence_id(), Some(part.claim.id()));
            assert!(replayed(&journal, part.claim.id()).await.is_empty());
        }
        assert!(!parts[0].claim.is_spent() && parts[1].claim.is_spent());
        assert!(!parts[2].claim.is_spent() && !parts[3].claim.is_spent());
        assert_eq!(replayed(&journal, &id("stored")).await, [1, 2, 3]);
    });
}

#[test]
fn what_was_queued_when_its_caller_went_away_is_stored_whole_and_the_claim_spent() {
    with(async |journal, _| {
        let mut claims = Vec::new();
        for writer in 0..50 {
            claims.push(claim(&journal, &id(&writer.to_string())).await);
        }
        for claim in &mut claims {
            // Polled once: handed over. Its answer has nobody to go to.
            let _ = journal.append(claim, at(0), writes(&[3])).now_or_never();
        }
        for mut old in claims {
            if old.is_spent() {
                let error = journal.append(&mut old, at(0), writes(&[1])).await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Spent);
            }
            let mut next = claim(&journal, old.id()).await;
            assert_eq!(next.bounds().highest, at(3));
            append(&journal, &mut next, &[1]).await;
            assert_eq!(replayed(&journal, old.id()).await, [1, 2, 3, 4]);
        }
    });
}

#[test]
fn shutdown_finishes_what_is_queued_then_everything_is_refused_and_the_directory_free() {
    with(async |journal, folder| {
        let mut claims = Vec::new();
        for writer in 0..20 {
            claims.push(claim(&journal, &id(&writer.to_string())).await);
        }
        let queued = join_all(
            claims
                .iter_mut()
                .map(|claim| journal.append(claim, at(0), writes(&[1]))),
        );
        let mut queued = Box::pin(queued);
        assert!(
            queued.as_mut().now_or_never().is_none(),
            "the flushes were faster than the polls"
        );
        journal.shutdown().await.unwrap();
        for stored in queued.await {
            stored.unwrap();
        }

        journal.shutdown().await.unwrap();
        let a = id("0");
        let mut claim = claims.remove(0);
        let errors = [
            journal.claim(&a, WriterId::random()).await.err(),
            journal.append(&mut claim, at(1), writes(&[1])).await.err(),
            journal.bounds(&a).await.err(),
            collect(journal.replay(&a, ReplayRange::ALL)).await.err(),
            journal.delete_to(&a, deletion(&claim, 1)).await.err(),
            journal.purge(&a).await.err(),
        ];
        for error in errors {
            let error = error.unwrap();
            assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
            assert_eq!(error.outcome(), Outcome::NotStored);
        }
        let mut parts = [AppendPart {
            claim,
            expected: at(1),
            writes: writes(&[1]),
            result: None,
        }];
        journal.append_group(&mut parts).await;
        let error = parts[0].result.take().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Closed);
        assert!(
            journal
                .snapshots()
                .load(&a, journal_core::SelectionCriteria::ALL)
                .await
                .is_err()
        );

        // The old handles are still there.
        let reopened = EmbeddedJournal::open(folder.path()).await.unwrap();
        assert_eq!(replayed(&reopened, &a).await, [1]);
    });
}

#[test]
fn the_last_handle_of_any_kind_closes_the_directory() {
    with(async |journal, folder| {
        let id = id("a");
        let mut first = claim(&journal, &id).await;
        append(&journal, &mut first, &[1; 3_000]).await;
        let snapshots = journal.snapshots();
        let mut events = journal.replay(&id, ReplayRange::ALL);
        drop(journal);
        assert!(EmbeddedJournal::open(folder.path()).await.is_err());
        drop(snapshots);
        // A replay goes on although nobody holds the journal, and gives it free at its end.
        let mut count = events.next_chunk().await.unwrap().unwrap().len();
        assert!(EmbeddedJournal::open(folder.path()).await.is_err());
        while let Some(chunk) = events.next_chunk().await {
            count += chunk.unwrap().len();
        }
        assert_eq!(count, 3_000);
        for _ in 0..5 {
            let journal = EmbeddedJournal::open(folder.path()).await.unwrap();
            // Dropped in the middle of a read: the next opening does not find the directory in use.
            let mut events = journal.replay(&id, ReplayRange::ALL);
            let _ = events.next_chunk().now_or_never();
        }
    });
}

#[test]
fn many_threads_append_at_once_and_nothing_is_lost() {
    with(async |journal, _| {
        let threads: Vec<_> = (0..8)
            .map(|thread| {
                let journal = journal.clone();
                thread::spawn(move || {
                    block_on(join_all((0..16).map(async |writer| {
                        let id = id(&format!("{thread}|{writer}"));
                        let mut claim = claim(&journal, &id).await;
                        for _ in 0..20 {
                            append(&journal, &mut claim, &[1, 2]).await;
                        }
                        assert_eq!(replayed(&journal, &id).await, (1..=60).collect::<Vec<_>>());
                    })));
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
    });
}

#[test]
fn a_row_that_a_deletion_cuts_survives_and_goes_with_the_next() {
    with(async |journal, folder| {
        let id = id("a");
        let mut claim = claim(&journal, &id).await;
        append(&journal, &mut claim, &[2, 4, 2]).await;
        assert_eq!(journal.delete_to(&id, deletion(&claim, 4)).await.unwrap(), at(4));
        assert_eq!(replayed(&journal, &id).await, [5, 6, 7, 8]);
        assert_eq!(journal.delete_to(&id, deletion(&claim, 2)).await.unwrap(), at(4));
        drop(journal);
        let journal = EmbeddedJournal::open(folder.path()).await.unwrap();
        assert_eq!(replayed(&journal, &id).await, [5, 6, 7, 8]);
        assert_eq!(journal.delete_to(&id, deletion(&claim, 6)).await.unwrap(), at(6));
        assert_eq!(replayed(&journal, &id).await, [7, 8]);
    });
}

#[test]
fn a_deletion_whose_caller_went_away_holds_and_the_next_one_finishes_it() {
    with(async |journal, folder| {
        let id = id("a");
        let mut claim = claim(&journal, &id).await;
        append(&journal, &mut claim, &[1; 5_000]).await;
        let _ = journal.delete_to(&id, deletion(&claim, 4_500)).now_or_never();
        journal.shutdown().await.unwrap();
        let journal = EmbeddedJournal::open(folder.path()).await.unwrap();
        assert_eq!(journal.bounds(&id).await.unwrap().deleted_to, at(4_500));
        assert_eq!(replayed(&journal, &id).await.len(), 500);
        assert_eq!(
            journal.delete_to(&id, deletion(&claim, 4_600)).await.unwrap(),
            at(4_600)
        );
        assert_eq!(replayed(&journal, &id).await, (4_601..=5_000).collect::<Vec<_>>());
    });
}

#[test]
fn a_purge_whose_caller_went_away_holds_and_the_next_life_sees_nothing_of_it() {
    with(async |journal, folder| {
        let id = id("a");
        let mut first = claim(&journal, &id).await;
        append(&journal, &mut first, &[1; 3_000]).await;
        let _ = journal.purge(&id).now_or_never();
        journal.shutdown().await.unwrap();

        let journal = EmbeddedJournal::open(folder.path()).await.unwrap();
        assert_eq!(journal.bounds(&id).await.unwrap(), Bounds::default());
        assert!(replayed(&journal, &id).await.is_empty());
        assert_eq!(journal.delete_to(&id, deletion(&first, 3)).await.unwrap(), at(0));
        let mut second = claim(&journal, &id).await;
        assert_ne!(second.incarnation(), first.incarnation());
        append(&journal, &mut second, &[2]).await;
        assert_eq!(replayed(&journal, &id).await, [1, 2]);
        journal.purge(&id).await.unwrap();
        journal.purge(&id).await.unwrap();
        let error = journal
            .append(&mut second, at(2), writes(&[1]))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Fenced);
    });
}

#[test]
fn a_replay_reads_one_moment_whatever_is_deleted_or_purged_meanwhile() {
    with(async |journal, _| {
        let id = id("a");
        let mut claim = claim(&journal, &id).await;
        append(&journal, &mut claim, &[1; 3_000]).await;
        let mut events = journal.replay(&id, ReplayRange::ALL);
        let first = events.next_chunk().await.unwrap().unwrap();
        journal.delete_to(&id, deletion(&claim, 2_900)).await.unwrap();
        journal.purge(&id).await.unwrap();
        let rest = collect(events).await.unwrap();
        let all: Vec<u64> = [numbers(&first), numbers(&rest)].concat();
        assert_eq!(all, (1..=3_000).collect::<Vec<_>>());
    });
}

#[test]
fn a_chunk_of_a_replay_is_bounded_in_count_and_bytes_also_within_one_write() {
    with(async |journal, _| {
        let (many, large) = (id("many"), id("large"));
        let mut first = claim(&journal, &many).await;
        append(&journal, &mut first, &[5_000]).await;
        let mut second = claim(&journal, &large).await;
        let one = AtomicWrite::from(vec![event(vec![b'x'; 700 << 10]); 10]);
        journal
            .append(&mut second, at(0), Arc::new([one.clone(), one.clone(), one]))
            .await
            .unwrap_err();
        let one = AtomicWrite::from(vec![event(vec![b'x'; 700 << 10]); 5]);
        journal
            .append(&mut second, at(0), Arc::new([one.clone(), one]))
            .await
            .unwrap();

        for (id, most, count) in [(&many, 1_024, 5_000), (&large, 2, 10)] {
            let mut events = journal.replay(id, ReplayRange::ALL);
            let mut all = Vec::new();
            while let Some(chunk) = events.next_chunk().await {
                let chunk = chunk.unwrap();
                assert!(chunk.len() <= most, "{} events at once", chunk.len());
                all.extend(numbers(&chunk));
            }
            assert_eq!(all, (1..=count).collect::<Vec<_>>());
            // From the middle of a write, to the middle of one.
            let part = journal.replay(id, ReplayRange::between(at(4), at(7)));
            assert_eq!(numbers(&collect(part).await.unwrap()), [4, 5, 6, 7]);
        }
    });
}

#[test]
fn a_journal_that_only_writes_to_the_system_says_so_and_flushes_when_asked() {
    let folder = tempfile::tempdir().unwrap();
    block_on(async {
        let journal = EmbeddedJournal::builder(folder.path())
            .durability(Durability::OsBuffer)
            .open()
            .await
            .unwrap();
        assert_eq!(
            journal.capabilities().durability,
            journal_core::Durability::OsBuffer
        );
        let id = id("a");
        let mut claim = claim(&journal, &id).await;
        append(&journal, &mut claim, &[1]).await;
        journal.flush().await.unwrap();
        drop(journal);
        let journal = EmbeddedJournal::open(folder.path()).await.unwrap();
        assert_eq!(journal.capabilities().durability, journal_core::Durability::Disk);
        assert_eq!(replayed(&journal, &id).await, [1]);
        journal.flush().await.unwrap();
    });
}

#[test]
fn snapshots_of_the_same_directory_outlive_a_reopen_and_a_purge() {
    with(async |journal, folder| {
        let id = id("a");
        let claim = claim(&journal, &id).await;
        let snapshot = Snapshot {
            metadata: SnapshotMetadata {
                persistence_id: id.clone(),
                sequence_nr: at(3),
                incarnation: claim.incarnation(),
                timestamp: Timestamp(7),
            },
            payload: "state".into(),
        };
        journal.snapshots().save(snapshot.clone()).await.unwrap();
        journal.purge(&id).await.unwrap();
        drop(journal);
        let journal = EmbeddedJournal::open(folder.path()).await.unwrap();
        let loaded = journal
            .snapshots()
            .load(&id, journal_core::SelectionCriteria::ALL)
            .await
            .unwrap();
        assert_eq!(loaded.snapshot, Some(snapshot));
    });
}

#[test]
fn an_oversized_snapshot_is_refused_with_what_to_do_and_the_former_one_stays() {
    let folder = tempfile::tempdir().unwrap();
    block_on(async {
        let journal = EmbeddedJournal::builder(folder.path())
            .largest_snapshot(10)
            .open()
            .await
            .unwrap();
        let claim = claim(&journal, &id("a")).await;
        let mut snapshot = Snapshot {
            metadata: SnapshotMetadata {
                persistence_id: id("a"),
                sequence_nr: at(3),
                incarnation: claim.incarnation(),
                timestamp: Timestamp(7),
            },
            payload: vec![1; 10].into(),
        };
        let snapshots = journal.snapshots();
        snapshots.save(snapshot.clone()).await.unwrap();
        let kept = snapshot.clone();
        snapshot.payload = vec![2; 11].into();
        let error = snapshots.save(snapshot).await.unwrap_err();
        assert!(error.to_string().contains("largest_snapshot"), "{error}");
        let loaded = snapshots
            .load(&id("a"), journal_core::SelectionCriteria::ALL)
            .await
            .unwrap();
        assert_eq!(loaded.snapshot, Some(kept));
    });
}
