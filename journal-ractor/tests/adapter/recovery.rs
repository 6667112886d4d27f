use journal_core::{MemoryJournal, Persistence, RecoveryError};
use journal_ractor::{SpawnError, SpawnPersistent};
use tokio::runtime::Handle;

use crate::common::*;

#[tokio::test]
async fn what_cannot_be_spawned_says_why() {
    let journal = journal();
    let persistence = persistence(&journal);
    let empty = account("").0.spawn(&persistence).await.unwrap_err();
    assert!(
        matches!(empty, SpawnError::Recovery(RecoveryError::InvalidId(_))),
        "{empty:?}"
    );
    let nowhere = Persistence::builder(MemoryJournal::new()).build().unwrap();
    let snapshots = account("a").0.snapshot_every(10);
    let snapshots = snapshots.spawn(&nowhere).await.unwrap_err();
    assert!(
        matches!(snapshots, SpawnError::Recovery(RecoveryError::Config(_))),
        "{snapshots:?}"
    );
}

#[tokio::test]
async fn dropping_the_future_of_spawn_ends_the_actor() {
    let journal = journal();
    journal.claims.close();
    let persistence = persistence(&journal);
    let (description, _hears) = account("a");
    {
        let spawning = description.clone().spawn(&persistence);
        tokio::select! {
            spawned = spawning => panic!("{spawned:?} without a claim"),
            () = settle() => {}
        }
    }
    settle().await;
    assert!(!persistence.is_live(&"a".parse().unwrap()));
    journal.claims.open();
    description.spawn(&persistence).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_actor_that_was_busy_for_long_is_not_idle_right_afterwards() {
    use std::time::Duration;
    let journal = journal();
    let persistence = persistence(&journal);
    let description = account("a").0.strict().passivate_after(Duration::from_secs(1));
    let actor = description.spawn(&persistence).await.unwrap();
    journal.appends.close();
    let busy = actor.clone();
    let answer = Handle::current().spawn(async move { busy.ask(Deposit(1)).await });
    tokio::time::sleep(Duration::from_secs(10)).await;
    journal.appends.open();
    answer.await.unwrap().unwrap().unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(persistence.is_live(&"a".parse().unwrap()));
}
