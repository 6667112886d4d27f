//! Ids that are none, and ids that look like others.

use std::collections::BTreeSet;

use actor_journal::{
    FileSnapshotStore, InvalidPersistenceId, MemoryJournal, MemorySnapshotStore, Persistence, PersistenceId,
    RecoveryError, SelectionCriteria,
    embedded::EmbeddedJournal,
    ractor::{SpawnError, SpawnPersistent},
};

use crate::{
    close,
    notebook::{note, notebook, recover},
    says,
};

#[tokio::test]
async fn an_id_that_is_empty_or_too_long_is_refused_with_what_to_do() {
    let persistence = Persistence::builder(MemoryJournal::new()).build().unwrap();
    let refused = async |id: String| match notebook(id).spawn(&persistence).await.unwrap_err() {
        SpawnError::Recovery(RecoveryError::InvalidId(error)) => error,
        other => panic!("{other:?}"),
    };
    let empty = refused(String::new()).await;
    assert_eq!(empty, InvalidPersistenceId::Empty);
    says(&empty, "name the actor");

    // The limit counts bytes.
    let longest = "ä".repeat(PersistenceId::MAX_BYTES / 2);
    let long = refused(format!("{longest}x")).await;
    assert_eq!(
        long,
        InvalidPersistenceId::TooLong {
            length: PersistenceId::MAX_BYTES + 1
        }
    );
    says(&long, "shorten it");
    assert!(recover(notebook(longest), &persistence).await.unwrap().is_empty());
}

/// Each of these could be taken for another one by a store that escapes, normalises, trims, cuts or joins.
fn look_alikes() -> Vec<String> {
    let mut ids: Vec<String> = [
        "a",
        "A",
        " a",
        "a ",
        "a\n",
        "a\r\n",
        "a\t",
        "a\0",
        "\0a",
        "\0",
        "\0\0",
        "a\0b",
        "a\u{1}",
        "a\0\u{1}",
        "a\u{1}\0",
        "\u{1}",
        "a|b",
        "a/b",
        "a\\b",
        "a:b",
        "a.b",
        "a-b",
        "a_b",
        "a%2Fb",
        "a%00",
        "%",
        "%25",
        "a?",
        "*",
        ".",
        "..",
        "../a",
        "./a",
        "a/../b",
        "/",
        "//",
        "/a",
        "a/",
        "LOCK",
        "FORMAT",
        "tmp",
        "NUL",
        "con",
        "\u{e9}",
        "e\u{301}",
        "\u{212b}",
        "\u{c5}",
        "A\u{30a}",
        "\u{df}",
        "ss",
        "\u{1d11e}",
        "\u{fffd}",
        "\u{feff}a",
        "\u{200b}",
        "\u{10ffff}",
        "\u{7f}",
        "\u{80}",
        "ÿ",
        "1",
        "01",
        "1.0",
        "true",
        "null",
        "\"a\"",
        "'a'",
    ]
    .map(str::to_owned)
    .into();
    let longest = "x".repeat(PersistenceId::MAX_BYTES);
    for end in ["", "\0", "x", "y", "/"] {
        ids.push(format!("{}{end}", &longest[..PersistenceId::MAX_BYTES - 1]));
    }
    ids.push("\0".repeat(PersistenceId::MAX_BYTES));
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len());
    ids
}

/// Each id keeps its own events and snapshots, whatever happens to the others, also after `open` opens again.
async fn never_aliased(open: impl AsyncFn() -> Persistence) {
    let ids = look_alikes();
    let persistence = open().await;
    let name = |id: &str| format!("this is {id:?}");
    for id in &ids {
        let retained = notebook(id).snapshot_every(2).keep(1).delete_events();
        let actor = retained.spawn(&persistence).await.unwrap();
        // Two in a snapshot, one in the journal.
        for _ in 0..3 {
            note(&actor, &[&name(id)]).await.unwrap();
        }
        actor.stop().await;
    }
    close(persistence).await;

    let persistence = open().await;
    for (index, id) in ids.iter().enumerate() {
        let texts = recover(notebook(id), &persistence).await.unwrap();
        assert_eq!(texts, vec![name(id); 3], "{id:?}");
        let parsed = PersistenceId::new(id.as_str()).unwrap();
        assert_eq!(
            persistence
                .journal()
                .bounds(&parsed)
                .await
                .unwrap()
                .deleted_to
                .get(),
            2,
            "{id:?}"
        );
        if index % 2 == 0 {
            let snapshots = persistence.snapshots().unwrap();
            snapshots
                .delete_matching(&parsed, SelectionCriteria::ALL)
                .await
                .unwrap();
            persistence.journal().purge(&parsed).await.unwrap();
        }
    }
    for (index, id) in ids.iter().enumerate() {
        let texts = recover(notebook(id), &persistence).await.unwrap();
        let left = if index % 2 == 0 { 0 } else { 3 };
        assert_eq!(texts, vec![name(id); left], "{id:?}");
    }
    close(persistence).await;
}

#[tokio::test]
async fn no_id_is_taken_for_another_by_the_embedded_journal_and_its_snapshots() {
    let directory = tempfile::tempdir().unwrap();
    never_aliased(async || actor_journal::embedded(directory.path()).await.unwrap()).await;
}

#[tokio::test]
async fn no_id_is_taken_for_another_by_the_embedded_journal_and_snapshot_files() {
    let directory = tempfile::tempdir().unwrap();
    never_aliased(async || {
        let journal = EmbeddedJournal::open(directory.path().join("journal"))
            .await
            .unwrap();
        let snapshots = FileSnapshotStore::open(directory.path().join("snapshots"))
            .await
            .unwrap();
        Persistence::builder(journal)
            .snapshots(snapshots)
            .build()
            .unwrap()
    })
    .await;
}

#[tokio::test]
async fn no_id_is_taken_for_another_by_the_memory_journal_and_snapshots() {
    let journal = MemoryJournal::new();
    let snapshots = MemorySnapshotStore::new();
    never_aliased(async || {
        Persistence::builder(journal.reopen())
            .snapshots(snapshots.clone())
            .build()
            .unwrap()
    })
    .await;
}
