//! Strict mode: one write at a time, later commands wait.

use journal_core::{Effects, ErrorKind, PersistError};

use crate::common::*;

const STRICT: Describe = |options| options.strict();

#[tokio::test]
async fn the_next_command_is_handled_only_when_the_former_one_is_durable() {
    let journal = Controlled::gated();
    let persistence = persistence(&journal);
    let actor = Mini::spawn_with(&persistence, "a", STRICT).await.unwrap();
    let replies = [actor.send(Add(1)), actor.send(Add(1)), actor.send(Add(1))];
    for reply in replies {
        journal.append_entered().await;
        assert_eq!(
            persistence.available_permits(),
            journal_core::Persistence::DEFAULT_PERMITS
        );
        journal.let_through(1);
        reply.await.unwrap().unwrap();
    }
    assert_eq!(journal.sizes(), [[1], [1], [1]]);
}

#[tokio::test]
async fn a_command_behind_a_failed_write_is_handled_on_the_recovered_state() {
    let journal = Controlled::open();
    let persistence = persistence(&journal);
    let actor = Mini::spawn_with(&persistence, "a", STRICT).await.unwrap();
    journal.fate(Fate::NotStored(ErrorKind::Closed));
    let (failing, behind) = (actor.send(Add(1)), actor.send(Add(2)));
    let failed = failing.await.unwrap().unwrap_err();
    assert!(matches!(failed.0, PersistError::NotStored(_)), "{failed:?}");
    assert_eq!(behind.await.unwrap().unwrap(), 2);
}

#[tokio::test]
async fn the_first_command_waits_for_what_recovered_persists() {
    let journal = Controlled::gated();
    let persistence = persistence(&journal);
    let hooks = Hooks {
        recovered: Some(|model, _| model.persist(Happened::Added(5))),
        ..Hooks::default()
    };
    let actor = Mini::spawn_hooked(&persistence, "a", hooks, STRICT)
        .await
        .unwrap();
    journal.append_entered().await;
    let (seen, mut was_seen) = tokio::sync::oneshot::channel();
    drop(actor.send(Seen(seen)));
    others_run().await;
    assert!(was_seen.try_recv().is_err());
    journal.let_through(1);
    was_seen.await.unwrap();
    assert_eq!(actor.ask(Get).await.unwrap(), 5);
}
