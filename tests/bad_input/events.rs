//! Events that cannot be stored, and stored events that this program does not know.

use std::sync::Arc;

use actor_journal::{
    Bincode, ErrorKind, JournalError, PersistError, Persistence, RecoveryError, SequenceNr,
    embedded::EmbeddedJournal,
    ractor::{SpawnError, SpawnPersistent},
};

use crate::{
    is, journal_error,
    notebook::{
        Newer, Noted, Original, Renamed, UNSPEAKABLE, Unversioned, changed, note, notebook, read, recover,
        write,
    },
    says,
};

const LARGEST_EVENT: usize = 1_000;
const LARGEST_APPEND: usize = 2_500;

async fn open(directory: &tempfile::TempDir) -> Persistence {
    let journal = EmbeddedJournal::builder(directory.path())
        .largest_event(LARGEST_EVENT)
        .largest_append(LARGEST_APPEND)
        .open()
        .await
        .unwrap();
    Persistence::builder(journal).build().unwrap()
}

/// What is wrong with these texts; whatever it is, the actor goes on where it was, also after a restart.
async fn rejected(texts: &[&str]) -> String {
    let directory = tempfile::tempdir().unwrap();
    let persistence = open(&directory).await;
    let actor = notebook("a").spawn(&persistence).await.unwrap();
    note(&actor, &["first"]).await.unwrap();
    let error = match note(&actor, texts).await.unwrap_err() {
        PersistError::Rejected(error) => error,
        other => panic!("{other:?}"),
    };
    assert_eq!(error.kind(), ErrorKind::Rejected);
    assert_eq!(read(&actor).await, ["first"]);
    assert_eq!(note(&actor, &["second"]).await.unwrap(), 2);
    actor.stop().await;
    persistence.shutdown().await.unwrap();

    let persistence = open(&directory).await;
    assert_eq!(
        recover(notebook("a"), &persistence).await.unwrap(),
        ["first", "second"]
    );
    let id = "a".parse().unwrap();
    assert_eq!(
        persistence.journal().bounds(&id).await.unwrap().highest,
        SequenceNr::new(2)
    );
    error.to_string()
}

#[tokio::test]
async fn an_event_that_is_too_large_is_rejected_and_nothing_changes() {
    let large = "x".repeat(LARGEST_EVENT + 1);
    let text = rejected(&[&large]).await;
    assert!(text.contains("1000"), "{text}");
}

#[tokio::test]
async fn events_that_are_too_large_together_are_rejected_and_nothing_changes() {
    let large = "x".repeat(LARGEST_EVENT - 100);
    let text = rejected(&[&large, &large, &large]).await;
    assert!(text.contains("2500"), "{text}");
}

#[tokio::test]
async fn an_event_that_cannot_be_encoded_is_rejected_with_the_others_of_its_command() {
    let text = rejected(&["fine", UNSPEAKABLE]).await;
    assert!(text.contains("Serialize"), "{text}");
}

/// Stores two events, then recovers as `recovered` does, which must fail, then as they were stored.
async fn undecodable(
    store: impl AsyncFnOnce(&Persistence),
    fail: impl AsyncFnOnce(&Persistence) -> Arc<JournalError>,
) -> Arc<JournalError> {
    let directory = tempfile::tempdir().unwrap();
    let persistence = actor_journal::embedded(directory.path()).await.unwrap();
    store(&persistence).await;
    let error = fail(&persistence).await;
    assert_eq!(error.persistence_id().unwrap().as_str(), "a");
    assert_eq!(error.sequence_nr(), Some(SequenceNr::FIRST));
    persistence.shutdown().await.unwrap();
    let persistence = actor_journal::embedded(directory.path()).await.unwrap();
    assert_eq!(
        recover(notebook("a"), &persistence).await.unwrap(),
        ["first", "second"]
    );
    error
}

#[tokio::test]
async fn an_unknown_manifest_is_an_error_that_names_it_and_no_event_is_skipped() {
    let error = undecodable(
        async |persistence| write(notebook("a"), persistence, &["first", "second"]).await,
        async |persistence| journal_error(recover(changed::<Renamed, Original>("a"), persistence).await),
    )
    .await;
    is(&error, ErrorKind::Undecodable, "register an upcaster");
    says(&error, "noted");
}

#[tokio::test]
async fn an_event_of_a_newer_version_is_an_error_that_says_to_upgrade() {
    let directory = tempfile::tempdir().unwrap();
    let persistence = actor_journal::embedded(directory.path()).await.unwrap();
    let newer = changed::<Newer, Original>("a").spawn(&persistence).await.unwrap();
    note(&newer, &["first"]).await.unwrap();
    newer.stop().await;
    let error = journal_error(recover(notebook("a"), &persistence).await);
    is(&error, ErrorKind::Undecodable, "upgrade the program");
    assert_eq!(
        recover(changed::<Newer, Original>("a"), &persistence)
            .await
            .unwrap(),
        ["first"]
    );
}

#[tokio::test]
async fn bincode_refuses_an_event_of_an_older_version() {
    let error = undecodable(
        async |persistence| {
            write(
                notebook("a").event_codec(Bincode),
                persistence,
                &["first", "second"],
            )
            .await;
        },
        async |persistence| journal_error(recover(changed::<Newer, Original>("a"), persistence).await),
    )
    .await;
    is(
        &error,
        ErrorKind::Undecodable,
        "register an upcaster for version 1",
    );
}

#[tokio::test]
async fn bincode_without_a_declared_version_ends_the_actor_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let persistence = actor_journal::embedded(directory.path()).await.unwrap();
    let undeclared = || changed::<Unversioned, Original>("a").event_codec(Bincode);
    match undeclared().spawn(&persistence).await.unwrap_err() {
        SpawnError::Recovery(RecoveryError::Config(text)) => says(&text, "#[event(version = 1)]"),
        other => panic!("{other:?}"),
    }
    // Trying again would change nothing.
    undeclared().spawn_instant(&persistence).unwrap().ended().await;
}

#[tokio::test]
async fn message_pack_reads_an_older_version_of_the_same_fields() {
    let directory = tempfile::tempdir().unwrap();
    let persistence = actor_journal::embedded(directory.path()).await.unwrap();
    write(notebook("a"), &persistence, &["first"]).await;
    assert_eq!(
        recover(changed::<Newer, Original>("a"), &persistence)
            .await
            .unwrap(),
        ["first"]
    );
    assert_eq!(
        recover(changed::<Noted, Original>("a"), &persistence)
            .await
            .unwrap(),
        ["first"]
    );
}
