//! Under actix's own supervisor.

use std::time::Duration;

use actix::prelude::*;
use journal_actix::SpawnPersistent;
use journal_core::{PersistError, Persistence, RecoveryError, Signal};

use crate::common::*;

fn supervised(account: Account) -> Addr<Account> {
    Supervisor::start(move |_| account)
}

#[actix::test]
async fn a_restart_begins_at_the_initial_state_and_applies_each_event_once() {
    let store = Store::open();
    let (account, mut hears) = account(&store.persistence);
    let account = supervised(account);
    for life in 1..=3 {
        assert_eq!(account.send(Deposit(5)).await.unwrap().unwrap(), life * 5);
        account.send(act(|_, context| context.stop())).await.unwrap();
        hears.note("starting at 0").await;
        hears.note(&format!("recovered at {}", (life - 1) * 5)).await;
        hears.note(&format!("stopped at {}", life * 5)).await;
    }
    assert_eq!(account.send(Read).await.unwrap().unwrap(), 15);
    // No backoff: it did not fail.
    assert_eq!(store.journal.claims_made(), 4);
}

#[actix::test]
async fn a_restart_cancels_timers_and_the_hook_starts_them_again() {
    let store = Store::open();
    let (account, mut hears) = account(&store.persistence);
    let account = account.when_recovered(|account, context| {
        let life = account.lives;
        context.run_interval(Duration::from_millis(2), move |account, _| {
            account.note(format!("tick of life {life}"));
        });
    });
    let account = supervised(account);
    hears.note("tick of life 1").await;
    account.send(act(|_, context| context.stop())).await.unwrap();
    hears.note("stopped at 0").await;
    hears.note("tick of life 2").await;
    a_while().await;
    let told: Vec<_> = std::iter::from_fn(|| hears.0.try_recv().ok()).collect();
    assert!(
        notes(&told).iter().all(|note| *note == "tick of life 2"),
        "{told:?}"
    );
}

#[actix::test]
async fn a_recovery_that_fails_is_tried_again_after_growing_waits() {
    let store = Store::open();
    store.journal.set_down(true);
    let (account, mut hears) = account(&store.persistence);
    let account = supervised(account.with(quick));
    let deposit = account.send(Deposit(5));
    for _ in 0..4 {
        let error = hears.failed_recovery().await;
        assert!(matches!(error, RecoveryError::Journal(_)), "{error:?}");
    }
    store.journal.set_down(false);
    // It waited for the first one.
    let refused = deposit.await.unwrap().unwrap_err();
    assert!(matches!(refused, PersistError::RecoveryFailed(_)), "{refused:?}");
    assert_eq!(account.send(Deposit(5)).await.unwrap().unwrap(), 5);
    let waits = store.journal.claim_waits();
    assert_eq!(waits.len(), 4);
    for (wait, least) in waits.into_iter().zip([20, 40, 80, 80]) {
        assert!(wait >= Duration::from_millis(least), "{wait:?}");
    }
}

#[actix::test]
async fn the_arbiter_is_free_while_it_waits_to_recover_again() {
    let store = Store::open();
    store.journal.set_down(true);
    let (account, mut hears) = account(&store.persistence);
    let account = supervised(account);
    hears.failed_recovery().await;
    // 200 ms by default.
    a_while().await;
    assert_eq!(store.journal.claims_made(), 1);
    drop(account);
}

#[actix::test]
async fn a_fenced_account_rests_until_a_command_claims_the_id_again() {
    let store = Store::open();
    let (account, mut hears) = account(&store.persistence);
    let account = supervised(account.with(quick));
    account.send(Deposit(5)).await.unwrap().unwrap();
    store.claimed_elsewhere().await;
    let fenced = account.send(Deposit(2)).await.unwrap().unwrap_err();
    assert!(matches!(fenced, PersistError::Fenced(_)), "{fenced:?}");
    hears.note("stopped at 0").await;
    hears.note("starting at 0").await;
    store.gone().await;
    // Not even a plain message starts it.
    assert_eq!(account.send(Ping).await.unwrap(), 1);
    a_while().await;
    assert_eq!(store.journal.claims_made(), 1);
    assert_eq!(account.send(Deposit(3)).await.unwrap().unwrap(), 8);
    assert_eq!(store.journal.claims_made(), 2);
}

#[actix::test]
async fn a_command_that_began_a_recovery_is_answered_if_it_fails() {
    let store = Store::open();
    let (account, mut hears) = account(&store.persistence);
    let account = supervised(account.with(quick));
    let rests = async || {
        account.send(Deposit(5)).await.unwrap().unwrap();
        store.claimed_elsewhere().await;
        account.send(Deposit(2)).await.unwrap().unwrap_err();
        store.gone().await;
        store.journal.set_down(true);
    };
    rests().await;
    let refused = account.send(Deposit(1)).await.unwrap().unwrap_err();
    assert!(matches!(refused, PersistError::RecoveryFailed(_)), "{refused:?}");
    store.journal.set_down(false);
    rests().await;
    account.do_send(Gift(1));
    let wanted = |signal: &Signal| {
        matches!(signal, Signal::CommandFailed(PersistError::RecoveryFailed(_))).then_some(())
    };
    hears.signal(wanted).await;
    store.journal.set_down(false);
    assert_eq!(account.send(Read).await.unwrap().unwrap(), 10);
}

#[actix::test]
async fn one_whose_id_another_actor_has_rests_until_a_command_finds_it_free() {
    let store = Store::open();
    let first = account(&store.persistence).0.spawn().await.unwrap();
    let (second, mut hears) = account(&store.persistence);
    let second = supervised(second);
    let error = hears.failed_recovery().await;
    assert!(matches!(error, RecoveryError::AlreadyLive { .. }), "{error:?}");
    first.ask(Deposit(5)).await.unwrap().unwrap();
    // Told why, once it asked.
    let refused = second.send(Deposit(1)).await;
    assert!(refused.is_err() || refused.unwrap().is_err());
    first.stop().await;
    assert_eq!(second.send(Deposit(2)).await.unwrap().unwrap(), 7);
}

#[actix::test]
async fn a_handled_stop_is_for_good() {
    let store = Store::open();
    let (account, mut hears) = account(&store.persistence);
    let account = supervised(account);
    account.send(Deposit(5)).await.unwrap().unwrap();
    assert_eq!(account.send(Close).await.unwrap().unwrap(), 5);
    hears.note("stopped at 5").await;
    store.gone().await;
    assert_eq!(account.send(Deposit(1)).await.unwrap_err(), MailboxError::Closed);
    assert_eq!(account.send(Read).await.unwrap_err(), MailboxError::Closed);
    // The actix actor goes on, with what it persists nothing of.
    assert_eq!(account.send(Ping).await.unwrap(), 1);
    assert_eq!(store.journal.claims_made(), 1);
}

#[actix::test]
async fn a_stop_in_the_starting_hook_restarts_it_before_it_takes_anything() {
    let store = Store::open();
    let (account, hears) = account(&store.persistence);
    let account = account.at_start(|account, context| {
        if account.lives < 50 {
            context.stop();
        }
    });
    let account = supervised(account);
    assert_eq!(account.send(Deposit(5)).await.unwrap().unwrap(), 5);
    assert_eq!(store.journal.claims_made(), 1);
    drop(account);
    let told = hears.rest().await;
    let recovered = notes(&told)
        .into_iter()
        .filter(|note| note.starts_with("recovered"));
    assert_eq!(recovered.count(), 1);
    assert!(!told.iter().any(|told| matches!(told, Told::RecoveryFailed(_))));
}

#[test]
fn the_end_of_the_runtime_behind_the_persistence_ends_it_instead_of_spinning() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_time()
        .build()
        .unwrap();
    let persistence = Persistence::builder(journal_core::MemoryJournal::new())
        .runtime(runtime.handle().clone())
        .build()
        .unwrap();
    System::new().block_on(async move {
        let (account, mut hears) = account(&persistence);
        let account = supervised(account);
        account.send(Deposit(5)).await.unwrap().unwrap();
        runtime.shutdown_background();
        account.do_send(act(|_, context| context.stop()));
        let error = hears.failed_recovery().await;
        assert!(matches!(error, RecoveryError::Config(_)), "{error:?}");
        assert_eq!(account.send(Read).await.unwrap_err(), MailboxError::Closed);
    });
}
