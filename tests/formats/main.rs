//! What version 1 of each format wrote, in `tests/fixtures/format-v1`, is read by this build: the embedded journal's
//! directory with its snapshots, snapshot files, and the envelopes of states; what came later in that version stands
//! beside it.
//!
//! `JOURNAL_WRITE_FIXTURES=1 cargo test --test formats` writes the fixtures where they are missing and never replaces
//! them: once, when a format changes, under the new format's name.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a panic is how a test fails"
)]

mod account;
mod deliveries;
mod fixture;

use actor_journal::{
    CodecId, EventStream, FileSnapshotStore, JournalError, MemoryJournal, MemorySnapshotStore, Persistence,
    PersistenceId, Record, ReplayRange, SelectionCriteria, SequenceNr, SnapshotStore, Tag,
    embedded::EmbeddedJournal, ractor::SpawnPersistent,
};

use crate::account::{Balance, Look, account};

fn id(text: &str) -> PersistenceId {
    PersistenceId::new(text).unwrap()
}

async fn collect(mut events: EventStream) -> Result<Vec<Record>, JournalError> {
    let mut all = Vec::new();
    while let Some(chunk) = events.next_chunk().await {
        all.extend(chunk?);
    }
    Ok(all)
}

async fn recover(id: &str, persistence: &Persistence) -> Balance {
    let actor = account(id).spawn(persistence).await.unwrap();
    let state = actor.ask(Look).await.unwrap().unwrap();
    actor.stop().await;
    state
}

fn balance(cents: i64, events: u64) -> Balance {
    Balance { cents, events }
}

#[tokio::test]
async fn events_of_each_codec_are_read_bit_for_bit_with_all_that_belongs_to_them() {
    let directory = fixture::copy("embedded");
    let journal = EmbeddedJournal::open(directory.path()).await.unwrap();
    let persistence = Persistence::builder(journal).build().unwrap();
    for (name, codec, first_payload) in [
        (
            "message-pack",
            CodecId::MESSAGE_PACK,
            &b"\x81\xa9Deposited\x81\xa5cents\xcd\x01\xf4"[..],
        ),
        ("json", CodecId::JSON, br#"{"Deposited":{"cents":500}}"#),
        ("bincode", CodecId::BINCODE, b"\x00\xfb\xe8\x03"),
    ] {
        let records = collect(persistence.journal().replay(&id(name), ReplayRange::ALL))
            .await
            .unwrap();
        let numbers: Vec<u64> = records.iter().map(|record| record.sequence_nr.get()).collect();
        assert_eq!(numbers, [1, 2, 3, 4], "{name}");
        for record in &records {
            let event = &record.event;
            assert_eq!(
                (event.codec, event.manifest.as_str()),
                (codec, "account-event"),
                "{name}"
            );
            assert_eq!(
                (event.schema_version, event.timestamp),
                (1, fixture::TIME),
                "{name}"
            );
            assert!(record.commit_order.is_some(), "{name}");
        }
        assert_eq!(&records[0].event.payload[..], first_payload, "{name}");
        let tags: Vec<&[Tag]> = records.iter().map(|record| &record.event.tags[..]).collect();
        let (money, both) = ([Tag::from("money")], [Tag::from("money"), Tag::from("größer\0")]);
        assert_eq!(tags, [&money[..], &both, &money, &money], "{name}");
        assert_eq!(recover(name, &persistence).await, balance(445, 4), "{name}");
    }
    persistence.shutdown().await.unwrap();
}

#[tokio::test]
async fn deletions_fresh_starts_and_purges_are_what_they_were() {
    let directory = fixture::copy("embedded");
    let persistence = actor_journal::embedded(directory.path()).await.unwrap();
    let bounds = async |name: &str| {
        let bounds = persistence.journal().bounds(&id(name)).await.unwrap();
        [bounds.highest, bounds.deleted_to, bounds.fresh_start].map(SequenceNr::get)
    };
    let replayed = async |name: &str| -> Vec<u64> {
        let records = collect(persistence.journal().replay(&id(name), ReplayRange::ALL))
            .await
            .unwrap();
        records.iter().map(|record| record.sequence_nr.get()).collect()
    };
    assert_eq!(bounds("retained").await, [5, 4, 0]);
    assert_eq!(replayed("retained").await, [5]);
    assert_eq!(recover("retained", &persistence).await, balance(1_500, 5));

    assert_eq!(bounds("restarted").await, [3, 2, 2]);
    assert_eq!(replayed("restarted").await, [3]);
    assert_eq!(recover("restarted", &persistence).await, balance(7, 1));

    assert_eq!(bounds("cut").await, [3, 2, 0]);
    assert_eq!(replayed("cut").await, [3]);

    assert_eq!(bounds("purged").await, [0, 0, 0]);
    assert_eq!(recover("purged", &persistence).await, Balance::default());
    assert_eq!(bounds("reborn").await, [1, 0, 0]);
    assert_eq!(recover("reborn", &persistence).await, balance(9, 1));

    assert_eq!(recover("Zürich\0|42", &persistence).await, balance(1, 1));
    persistence.shutdown().await.unwrap();
}

#[tokio::test]
async fn snapshot_files_are_read() {
    let directory = fixture::copy("snapshot-files");
    let store = FileSnapshotStore::open(directory.path()).await.unwrap();
    for (name, envelope) in fixture::envelopes() {
        let loaded = store.load(&id(name), SelectionCriteria::ALL).await.unwrap();
        assert_eq!(loaded.skipped, []);
        assert_eq!(
            loaded.snapshot.unwrap(),
            fixture::snapshot(name, 7, envelope),
            "{name}"
        );
        let listed = store.list(&id(name), SelectionCriteria::ALL).await.unwrap();
        assert_eq!(
            listed
                .iter()
                .map(|snapshot| snapshot.sequence_nr.get())
                .collect::<Vec<_>>(),
            [7, 3],
            "{name}"
        );
    }
}

#[tokio::test]
async fn states_of_each_codec_recover_from_their_envelopes() {
    for (name, envelope) in fixture::envelopes() {
        let journal = MemoryJournal::new();
        let snapshots = MemorySnapshotStore::new();
        fixture::only_a_snapshot(&journal, &snapshots, name, envelope).await;
        let persistence = Persistence::builder(journal)
            .snapshots(snapshots)
            .build()
            .unwrap();
        assert_eq!(recover(name, &persistence).await, balance(-123_456, 7), "{name}");
    }
}
