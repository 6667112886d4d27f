use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use journal_core::{Backoff, Outcome, PersistError, Persistence, Signal};
use journal_ractor::{AskError, SpawnPersistent};

use crate::common::*;

#[tokio::test]
async fn a_kill_during_a_write_loses_only_what_was_not_handled() {
    let journal = Controlled::gated();
    let persistence = journal.persistence();
    let (description, _hears) = account("a");
    let killed = description.clone().spawn(&persistence).await.unwrap();
    let in_flight = asked(&killed, Deposit(5));
    journal.entered().await;
    let gathered = asked(&killed, Deposit(2));
    settle().await;
    killed.kill().await;
    assert_eq!(killed.ask(Read).await.unwrap_err(), AskError::Closed);
    // The next one waits for these writes.
    let next = background({
        let persistence = persistence.clone();
        async move { description.spawn(&persistence).await.unwrap() }
    });
    settle().await;
    assert!(!in_flight.is_finished() && !next.is_finished());
    journal.let_all_through();
    assert_eq!(in_flight.await.unwrap().unwrap().unwrap(), 5);
    assert_eq!(gathered.await.unwrap().unwrap().unwrap(), 7);
    assert_eq!(next.await.unwrap().ask(Read).await.unwrap().unwrap(), 7);
}

#[tokio::test]
async fn a_write_whose_outcome_is_lost_after_a_kill_is_answered_unknown() {
    let journal = Controlled::gated();
    let persistence = journal.persistence();
    let killed = account("a").0.spawn(&persistence).await.unwrap();
    let in_flight = asked(&killed, Deposit(5));
    journal.entered().await;
    killed.kill().await;
    journal.fate(Fate::StoredButUnknown);
    journal.let_all_through();
    let unknown = in_flight.await.unwrap().unwrap().unwrap_err();
    assert!(matches!(unknown, PersistError::Unknown(_)), "{unknown:?}");
}

#[tokio::test]
async fn a_write_whose_outcome_a_kill_leaves_open_is_answered_unknown() {
    let journal = Controlled::with_gated_claims();
    let persistence = journal.persistence();
    journal.let_claim(1);
    let killed = account("a").0.spawn(&persistence).await.unwrap();
    journal.fate(Fate::StoredButUnknown);
    let in_flight = asked(&killed, Deposit(5));
    settle().await;
    assert_eq!(journal.claims_made(), 2);
    assert!(!in_flight.is_finished());
    killed.kill().await;
    let unknown = in_flight.await.unwrap().unwrap().unwrap_err();
    assert!(matches!(unknown, PersistError::Unknown(_)), "{unknown:?}");
}

#[tokio::test]
async fn a_kill_closes_what_is_queued() {
    let journal = Controlled::gated();
    let persistence = journal.persistence();
    let (description, _hears) = account("a");
    let killed = description.clone().strict().spawn(&persistence).await.unwrap();
    let in_flight = asked(&killed, Deposit(5));
    journal.entered().await;
    let queued = asked(&killed, Deposit(2));
    settle().await;
    killed.kill().await;
    assert_eq!(queued.await.unwrap().unwrap_err(), AskError::Closed);
    journal.let_all_through();
    assert_eq!(in_flight.await.unwrap().unwrap().unwrap(), 5);
    let next = description.spawn(&persistence).await.unwrap();
    assert_eq!(next.ask(Read).await.unwrap().unwrap(), 5);
}

#[tokio::test]
async fn a_stop_returns_when_everything_handled_is_durable_and_answered() {
    let journal = Controlled::gated();
    let persistence = journal.persistence();
    let account = account("a").0.spawn(&persistence).await.unwrap();
    let in_flight = asked(&account, Deposit(5));
    journal.entered().await;
    let gathered = asked(&account, Deposit(2));
    settle().await;
    let stop = background({
        let account = account.clone();
        async move { account.stop().await }
    });
    settle().await;
    assert!(!stop.is_finished());
    journal.let_through(1);
    assert_eq!(in_flight.await.unwrap().unwrap().unwrap(), 5);
    journal.entered().await;
    settle().await;
    assert!(!stop.is_finished() && !gathered.is_finished());
    journal.let_through(1);
    stop.await.unwrap();
    settle().await;
    assert!(gathered.is_finished());
    assert_eq!(gathered.await.unwrap().unwrap().unwrap(), 7);
    assert_eq!(account.ask(Read).await.unwrap_err(), AskError::Closed);
    assert!(!persistence.is_live(account.persistence_id()));
}

#[tokio::test]
async fn a_drain_handles_what_is_queued() {
    let journal = Controlled::with_gated_claims();
    let persistence = journal.persistence();
    let account = account("a").0.spawn_instant(&persistence).unwrap();
    let queued: Vec<_> = (0..3).map(|_| asked(&account, Deposit(1))).collect();
    settle().await;
    let drain = background({
        let account = account.clone();
        async move { account.drain().await }
    });
    settle().await;
    assert_eq!(account.ask(Read).await.unwrap_err(), AskError::Closed);
    journal.let_claim(1);
    for (reply, balance) in queued.into_iter().zip(1..) {
        assert_eq!(reply.await.unwrap().unwrap().unwrap(), balance);
    }
    drain.await.unwrap();
}

#[tokio::test]
async fn a_stop_does_not_wait_for_a_recovery() {
    let journal = Controlled::with_gated_claims();
    let persistence = journal.persistence();
    let account = account("a").0.spawn_instant(&persistence).unwrap();
    let queued = asked(&account, Deposit(1));
    settle().await;
    account.stop().await;
    assert_eq!(queued.await.unwrap().unwrap_err(), AskError::Closed);
    assert!(!persistence.is_live(account.persistence_id()));
}

#[tokio::test]
async fn a_panic_in_a_handler_recovers_in_place_and_queued_commands_survive() {
    let journal = Controlled::open();
    let persistence = journal.persistence();
    let (description, mut hears) = account("a");
    let account = description.spawn(&persistence).await.unwrap();
    let before = asked(&account, Deposit(5));
    let panics = asked(&account, PanicInHandle);
    let after = asked(&account, Deposit(2));
    let stashed = asked(&account, ReadOnceAt(100));
    assert_eq!(before.await.unwrap().unwrap().unwrap(), 5);
    let panicked = panics.await.unwrap().unwrap().unwrap_err();
    assert!(matches!(panicked, PersistError::Panicked(_)), "{panicked:?}");
    assert_eq!(after.await.unwrap().unwrap().unwrap(), 7);
    assert_eq!(hears.recovery().await, (0, 0));
    assert_eq!(hears.recovery().await, (0, 1));
    // The stash survives too.
    account.ask(PanicInHandle).await.unwrap().unwrap_err();
    assert_eq!(account.ask(DepositAndCall(93)).await.unwrap().unwrap(), 100);
    assert_eq!(stashed.await.unwrap().unwrap().unwrap(), 100);
    assert_eq!(journal.claims_made(), 3);
}

#[tokio::test]
async fn a_panic_in_apply_stores_nothing_of_its_command() {
    let persistence = Controlled::open().persistence();
    let account = account("a").0.spawn(&persistence).await.unwrap();
    account.ask(Deposit(5)).await.unwrap().unwrap();
    let panicked = account.ask(PanicInApply).await.unwrap().unwrap_err();
    assert!(matches!(panicked, PersistError::Panicked(_)), "{panicked:?}");
    assert_eq!(account.ask(Deposit(1)).await.unwrap().unwrap(), 6);
}

#[tokio::test]
async fn a_write_that_is_not_stored_fails_its_command_and_the_actor_goes_on() {
    let journal = Controlled::open();
    let persistence = journal.persistence();
    let (description, mut hears) = account("a");
    let account = description.spawn(&persistence).await.unwrap();
    account.ask(Deposit(5)).await.unwrap().unwrap();
    journal.fate(Fate::NotStored);
    let failed = account.ask(Deposit(100)).await.unwrap().unwrap_err();
    assert!(matches!(failed, PersistError::NotStored(_)), "{failed:?}");
    assert_eq!(account.ask(Deposit(1)).await.unwrap().unwrap(), 6);
    hears
        .signal(|signal| matches!(signal, Signal::PersistFailed(_)).then_some(()))
        .await;
}

#[tokio::test]
async fn a_write_of_unknown_outcome_is_answered_by_what_the_next_claim_finds() {
    let journal = Controlled::open();
    let persistence = journal.persistence();
    let account = account("a").0.spawn(&persistence).await.unwrap();
    journal.fate(Fate::StoredButUnknown);
    // Nothing but the engine's own call for attention drives this recovery.
    assert_eq!(account.ask(Deposit(5)).await.unwrap().unwrap(), 5);
    journal.fate(Fate::LostButUnknown);
    let lost = account.ask(Deposit(100)).await.unwrap().unwrap_err();
    assert!(matches!(lost, PersistError::NotStored(_)), "{lost:?}");
    assert_eq!(account.ask(Deposit(1)).await.unwrap().unwrap(), 6);
    assert_eq!(journal.claims_made(), 3);
}

/// Deposits one cent at a time, from several tasks, while faults and kills hit the actor. What a deposit was answered
/// with must hold: an `Ok` is in the balance, a failure that says so is not.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_acknowledged_is_lost_and_nothing_refused_is_kept() {
    const FAULTS: [Fate; 4] = [
        Fate::NotStored,
        Fate::StoredButUnknown,
        Fate::LostButUnknown,
        Fate::Fenced,
    ];
    let journal = Controlled::open();
    let persistence = Persistence::builder(journal.clone()).build().unwrap();
    let (description, _hears) = account("a");
    let description = description.backoff(Backoff {
        shortest: Duration::from_millis(1),
        longest: Duration::from_millis(2),
    });
    let (mut stored, mut open) = (0, 0);
    for life in 0..20 {
        let account = description.clone().spawn(&persistence).await.unwrap();
        let over = Arc::new(AtomicBool::new(false));
        let tellers: Vec<_> = (0..8)
            .map(|_| {
                let (account, over) = (account.clone(), over.clone());
                background(async move {
                    let (mut stored, mut open) = (0, 0);
                    while !over.load(Ordering::SeqCst) {
                        match account.ask(Deposit(1)).await {
                            Ok(Ok(_)) => stored += 1,
                            Ok(Err(error)) if error.outcome() == Outcome::Unknown => open += 1,
                            // Not stored, or not even handled.
                            Ok(Err(_)) => {}
                            Err(_) => tokio::task::yield_now().await,
                        }
                    }
                    (stored, open)
                })
            })
            .collect();
        journal.forget_entered();
        for fault in FAULTS {
            journal.fate(fault);
            for _ in 0..10 {
                journal.entered().await;
            }
        }
        match life % 2 {
            0 => account.kill().await,
            _ => account.stop().await,
        }
        over.store(true, Ordering::SeqCst);
        for teller in tellers {
            let (more_stored, more_open) = teller.await.unwrap();
            stored += more_stored;
            open += more_open;
        }
    }
    let account = description.spawn(&persistence).await.unwrap();
    let balance = account.ask(Read).await.unwrap().unwrap();
    assert!(
        (stored..=stored + open).contains(&balance),
        "{stored} stored, {open} unknown, balance {balance}"
    );
    assert!(stored > 100, "{stored}");
}
