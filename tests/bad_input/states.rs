//! Snapshots of a state type that has changed since.

use std::sync::mpsc;

use actor_journal::{
    Bincode, Json, PersistError, Persistence, Persistent, RecoveryError, SequenceNr, Signal,
    ractor::{SpawnError, SpawnPersistent},
};

use crate::{
    close,
    notebook::{
        Notebook, Noted, Original, WithNewField, WithNewFieldAndVersion, WithoutField, WithoutVersion,
        changed, listening, note, notebook, read, recover,
    },
    says,
};

const TEXTS: [&str; 5] = ["one", "two", "three", "four", "five"];

/// A directory in which the snapshot at 4 is all that is left of the first four events.
async fn snapshot_without_events(
    options: impl Fn(Persistent<Notebook>) -> Persistent<Notebook>,
) -> (tempfile::TempDir, Persistence) {
    let directory = tempfile::tempdir().unwrap();
    let persistence = actor_journal::embedded(directory.path()).await.unwrap();
    let retained = options(notebook("a").snapshot_every(4).keep(1).delete_events());
    let actor = retained.spawn(&persistence).await.unwrap();
    for text in TEXTS {
        note(&actor, &[text]).await.unwrap();
    }
    actor.stop().await;
    close(persistence).await;
    let persistence = actor_journal::embedded(directory.path()).await.unwrap();
    let bounds = persistence.journal().bounds(&"a".parse().unwrap()).await.unwrap();
    assert_eq!(
        (bounds.deleted_to, bounds.highest),
        (SequenceNr::new(4), SequenceNr::new(5))
    );
    (directory, persistence)
}

/// Why the only snapshot could not be used.
fn unreadable<T>(spawned: Result<T, SpawnError>) -> String {
    match spawned.err().unwrap() {
        SpawnError::Recovery(error @ RecoveryError::SnapshotMissing { .. }) => {
            says(&error, "restore the snapshot");
            error.to_string()
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn message_pack_drops_a_dropped_field() {
    let (_directory, persistence) = snapshot_without_events(|actor| actor).await;
    assert_eq!(
        recover(changed::<Noted, WithoutField>("a"), &persistence)
            .await
            .unwrap(),
        TEXTS
    );
}

#[tokio::test]
async fn message_pack_without_a_field_that_is_needed_is_an_error_and_nothing_is_lost() {
    let (_directory, persistence) = snapshot_without_events(|actor| actor).await;
    let why = unreadable(recover(changed::<Noted, WithNewField>("a"), &persistence).await);
    assert!(why.contains("WithNewField"), "{why}");
    assert_eq!(recover(notebook("a"), &persistence).await.unwrap(), TEXTS);
}

#[tokio::test]
async fn bincode_of_an_older_version_is_an_error_and_nothing_is_lost() {
    let (_directory, persistence) = snapshot_without_events(|actor| actor.state_codec(Bincode)).await;
    let changed = changed::<Noted, WithNewFieldAndVersion>("a").state_codec(Bincode);
    let why = unreadable(recover(changed, &persistence).await);
    assert!(why.contains("version 1 is older than this program's 2"), "{why}");
    // Whatever codec is configured now, the snapshot names its own.
    assert_eq!(
        recover(notebook("a").state_codec(Json), &persistence)
            .await
            .unwrap(),
        TEXTS
    );
}

#[tokio::test]
async fn bincode_of_a_newer_version_is_an_error_and_nothing_is_lost() {
    let directory = tempfile::tempdir().unwrap();
    let persistence = actor_journal::embedded(directory.path()).await.unwrap();
    let newer = || {
        changed::<Noted, WithNewFieldAndVersion>("a")
            .state_codec(Bincode)
            .snapshot_every(1)
            .keep(1)
            .delete_events()
    };
    let actor = newer().spawn(&persistence).await.unwrap();
    note(&actor, &["one"]).await.unwrap();
    actor.stop().await;
    close(persistence).await;
    let persistence = actor_journal::embedded(directory.path()).await.unwrap();
    let why = unreadable(recover(notebook("a").state_codec(Bincode), &persistence).await);
    assert!(why.contains("upgrade the program"), "{why}");
    assert_eq!(recover(newer(), &persistence).await.unwrap(), ["one"]);
}

#[tokio::test]
async fn bincode_without_a_declared_version_is_refused_before_anything_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let persistence = actor_journal::embedded(directory.path()).await.unwrap();
    let undeclared = changed::<Noted, WithoutVersion>("a").state_codec(Bincode);
    match undeclared.spawn(&persistence).await.unwrap_err() {
        SpawnError::Recovery(RecoveryError::Config(text)) => says(&text, "STATE_VERSION"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_snapshot_that_cannot_be_used_is_reported_and_replaced_by_a_replay_where_the_events_are_still_there()
 {
    let directory = tempfile::tempdir().unwrap();
    let persistence = actor_journal::embedded(directory.path()).await.unwrap();
    let actor = notebook("a").snapshot_every(2).spawn(&persistence).await.unwrap();
    note(&actor, &["one", "two", "three"]).await.unwrap();
    actor.stop().await;
    close(persistence).await;
    let persistence = actor_journal::embedded(directory.path()).await.unwrap();

    let (told, signals) = mpsc::channel();
    let changed = listening::<Noted, WithNewField>("a", move |signal| drop(told.send(signal.clone())));
    let actor = changed.spawn(&persistence).await.unwrap();
    assert_eq!(read(&actor).await, ["one", "two", "three"]);
    actor.stop().await;
    close(persistence).await;
    let ignored = signals.try_iter().find_map(|signal| match signal {
        Signal::SnapshotIgnored(ignored) => Some(ignored.reason),
        _ => None,
    });
    says(&ignored.unwrap(), "WithNewField");
}

#[tokio::test]
async fn asking_for_snapshots_without_a_store_is_refused_with_what_to_do() {
    let persistence = Persistence::builder(actor_journal::MemoryJournal::new())
        .build()
        .unwrap();
    match notebook("a")
        .snapshot_every(2)
        .spawn(&persistence)
        .await
        .unwrap_err()
    {
        SpawnError::Recovery(RecoveryError::Config(text)) => says(&text, "give the persistence one"),
        other => panic!("{other:?}"),
    }
    let actor = changed::<Noted, Original>("a").spawn(&persistence).await.unwrap();
    assert!(!matches!(
        note(&actor, &["one"]).await,
        Err(PersistError::Rejected(_))
    ));
}
