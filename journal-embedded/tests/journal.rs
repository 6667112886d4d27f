//! What is special about this journal; what holds for every journal is in the conformance suite.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a panic is how a test fails"
)]

mod common;

use std::{collections::BTreeSet, sync::Arc};

use common::{collect, id, numbers, writes};
use futures_executor::block_on;
use journal_core::{
    AppendPart, Deletion, ErrorKind, Journal, Outcome, ReplayRange, SequenceNr, SnapshotStore, WriterId,
};
use journal_embedded::{Durability, EmbeddedJournal};

fn at(number: u64) -> SequenceNr {
    SequenceNr::new(number)
}

#[test]
fn what_was_written_is_there_after_a_reopen_and_numbers_go_on() {
    let folder = tempfile::tempdir().unwrap();
    block_on(async {
        let journal = EmbeddedJournal::open(folder.path()).await.unwrap();
        let id = id("a");
        let mut claim = journal.claim(&id, WriterId::random()).await.unwrap();
        journal.append(&mut claim, at(0), writes(&[1, 3])).await.unwrap();
        let before = collect(journal.replay(&id, ReplayRange::ALL)).await.unwrap();
        assert_eq!(numbers(&before), [1, 2, 3, 4]);
        drop(journal);

        let journal = EmbeddedJournal::open(folder.path()).await.unwrap();
        let after = collect(journal.replay(&id, ReplayRange::ALL)).await.unwrap();
        assert_eq!(before, after);
        let next = journal.claim(&id, WriterId::random()).await.unwrap();
        assert_eq!(next.bounds().highest, at(4));
        assert_eq!(next.incarnation(), claim.incarnation());
        assert!(next.epoch() > claim.epoch());
    });
}

#[test]
fn the_highest_number_survives_the_deletion_of_everything_and_a_reopen() {
    let folder = tempfile::tempdir().unwrap();
    block_on(async {
        let journal = EmbeddedJournal::open(folder.path()).await.unwrap();
        let id = id("a");
        let mut claim = journal.claim(&id, WriterId::random()).await.unwrap();
        journal.append(&mut claim, at(0), writes(&[2, 2])).await.unwrap();
        let deletion = Deletion {
            to: at(9),
            incarnation: claim.incarnation(),
            fresh_start: true,
        };
        assert_eq!(journal.delete_to(&id, deletion).await.unwrap(), at(4));
        drop(journal);

        let journal = EmbeddedJournal::open(folder.path()).await.unwrap();
        let bounds = journal.bounds(&id).await.unwrap();
        assert_eq!(
            (bounds.highest, bounds.deleted_to, bounds.fresh_start),
            (at(4), at(4), at(4))
        );
        let mut claim = journal.claim(&id, WriterId::random()).await.unwrap();
        journal.append(&mut claim, at(4), writes(&[1])).await.unwrap();
        let records = collect(journal.replay(&id, ReplayRange::ALL)).await.unwrap();
        assert_eq!(numbers(&records), [5]);
    });
}
