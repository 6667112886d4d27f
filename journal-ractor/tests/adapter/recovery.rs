use std::sync::atomic::Ordering;

use journal_core::{MemoryJournal, Persistence, RecoveryError, Signal};
use journal_ractor::{SpawnError, SpawnPersistent};

use crate::common::*;

#[tokio::test]
async fn an_actor_without_events_starts_from_the_initial_state() {
    let persistence = Controlled::open().persistence();
    let (account, mut hears) = account("a");
    let account = account.spawn(&persistence).await.unwrap();
    assert_eq!(account.ask(Read).await.unwrap().unwrap(), 0);
    assert_eq!(hears.recovery().await, (0, 0));
    assert_eq!(account.persistence_id().as_str(), "a");
}

#[tokio::test]
async fn what_is_acknowledged_is_recovered() {
    let persistence = Controlled::open().persistence();
    let (description, mut hears) = account("a");
    let first = description.clone().spawn(&persistence).await.unwrap();
    assert_eq!(first.ask(Deposit(5)).await.unwrap().unwrap(), 5);
    assert_eq!(first.ask(Deposit(7)).await.unwrap().unwrap(), 12);
    first.stop().await;
    assert_eq!(hears.recovery().await, (0, 0));
    let second = description.spawn(&persistence).await.unwrap();
    assert_eq!(second.ask(Read).await.unwrap().unwrap(), 12);
    assert_eq!(hears.recovery().await, (0, 2));
}

#[tokio::test]
async fn recovery_starts_from_the_snapshot_and_replays_the_tail() {
    let persistence = Controlled::open().persistence();
    let (description, mut hears) = account("a");
    let description = description.snapshot_every(10).keep(1).delete_events();
    let first = description.clone().spawn(&persistence).await.unwrap();
    for _ in 0..20 {
        first.ask(Deposit(1)).await.unwrap().unwrap();
        // A due snapshot is skipped while the former one is under way.
        settle().await;
    }
    hears
        .signal(|signal| matches!(signal, Signal::EventsDeleted(to) if to.get() == 20).then_some(()))
        .await;
    for _ in 0..5 {
        first.ask(Deposit(1)).await.unwrap().unwrap();
    }
    first.stop().await;
    let second = description.spawn(&persistence).await.unwrap();
    assert_eq!(second.ask(Read).await.unwrap().unwrap(), 25);
    assert_eq!(hears.recovery().await, (20, 5));
}

#[tokio::test]
async fn an_actor_spawned_instantly_queues_commands_until_it_is_recovered() {
    let journal = Controlled::with_gated_claims();
    let persistence = journal.persistence();
    let account = account("a").0.spawn_instant(&persistence).unwrap();
    account.tell(Deposit(1)).unwrap();
    let deposit = asked(&account, Deposit(2));
    settle().await;
    let read = asked(&account, Read);
    settle().await;
    assert!(!deposit.is_finished());
    assert_eq!(account.waiting(), 3);
    journal.let_claim(1);
    assert_eq!(deposit.await.unwrap().unwrap().unwrap(), 3);
    assert_eq!(read.await.unwrap().unwrap().unwrap(), 3);
}

#[tokio::test]
async fn a_failed_recovery_is_the_error_of_spawn_and_leaves_nothing() {
    let journal = Controlled::open();
    let persistence = journal.persistence();
    let (description, _hears) = account("a");
    journal.set_down(true);
    let failed = description.clone().spawn(&persistence).await.unwrap_err();
    assert!(
        matches!(failed, SpawnError::Recovery(RecoveryError::Journal(_))),
        "{failed:?}"
    );
    assert!(!persistence.is_live(&"a".parse().unwrap()));
    assert_eq!(journal.claims_made(), 1);
    journal.set_down(false);
    let account = description.spawn(&persistence).await.unwrap();
    assert_eq!(account.ask(Deposit(5)).await.unwrap().unwrap(), 5);
}

#[tokio::test]
async fn what_cannot_be_spawned_says_why() {
    let journal = Controlled::open();
    let persistence = journal.persistence();
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
    let journal = Controlled::with_gated_claims();
    let persistence = journal.persistence();
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
    journal.let_claim(1);
    description.spawn(&persistence).await.unwrap();
}

#[tokio::test]
async fn a_thousand_actors_recover_within_the_permits() {
    let journal = Controlled::open();
    let persistence = journal.builder().recovery_permits(8).build().unwrap();
    let accounts: Vec<_> = (0..1_000)
        .map(|number| {
            account(&number.to_string())
                .0
                .spawn_instant(&persistence)
                .unwrap()
        })
        .collect();
    let deposits: Vec<_> = accounts
        .iter()
        .map(|account| asked(account, Deposit(5)))
        .collect();
    for deposit in deposits {
        assert_eq!(deposit.await.unwrap().unwrap().unwrap(), 5);
    }
    assert_eq!(journal.most_claiming.load(Ordering::SeqCst), 8);
    assert_eq!(persistence.available_permits(), 8);
}
