//! Idle actors, beside what the contract of adapters says of them.

use std::time::Duration;

use actix::prelude::*;
use journal_core::PersistError;

use crate::common::*;

fn idle_after(store: &Store, idle: Duration) -> (Account, Hears) {
    let (account, hears) = account(&store.persistence);
    (
        account.with(move |options| quick(options).passivate_after(idle)),
        hears,
    )
}

fn soon_idle(store: &Store) -> (Account, Hears) {
    idle_after(store, Duration::from_millis(5))
}

fn look(account: &mut Account, _: &mut Context<Account>) {
    account.note(format!("{} {}", account.balance.is_recovered(), *account.balance));
}

#[actix::test]
async fn a_passivated_actor_shows_the_initial_state_until_a_command_brings_it_back() {
    let store = Store::open();
    let (account, mut hears) = soon_idle(&store);
    let account = account.start();
    assert_eq!(account.send(Deposit(5)).await.unwrap().unwrap(), 5);
    store.gone().await;
    account.send(act(look)).await.unwrap();
    hears.note("false 0").await;
    // A plain message claims nothing.
    assert_eq!(store.journal.claims_made(), 1);
    assert_eq!(account.send(Deposit(2)).await.unwrap().unwrap(), 7);
    assert_eq!(store.journal.claims_made(), 2);
}

#[actix::test]
async fn passivation_stops_no_timer_and_the_way_back_starts_none_twice() {
    let store = Store::open();
    let (account, mut hears) = soon_idle(&store);
    let account = account
        .when_recovered(|_, context| {
            context.run_interval(Duration::from_millis(1), |account, context| {
                if !account.balance.is_recovered() && account.pings.replace(1) == 0 {
                    account.note("a timer of a passivated actor");
                    context.notify(Deposit(2));
                }
            });
        })
        .start();
    account.send(Deposit(5)).await.unwrap().unwrap();
    let expected = ["starting at 0", "recovered at 0", "a timer of a passivated actor"];
    for note in expected {
        hears.note(note).await;
    }
    assert_eq!(account.send(Read).await.unwrap().unwrap(), 7);
    account.send(act(|_, context| context.stop())).await.unwrap();
    let told = hears.rest().await;
    assert!(!notes(&told).contains(&"recovered at 5"), "{told:?}");
}

#[actix::test]
async fn the_wait_for_idleness_keeps_no_actor_alive() {
    let store = Store::open();
    let (account, hears) = idle_after(&store, Duration::from_secs(3_600));
    let account = account.start();
    account.send(Deposit(5)).await.unwrap().unwrap();
    drop(account);
    hears.dropped().await;
    store.gone().await;
}

#[actix::test]
async fn a_passivated_actor_ends_with_its_last_address() {
    let store = Store::open();
    let (account, mut hears) = soon_idle(&store);
    let account = account.start();
    account.send(Deposit(5)).await.unwrap().unwrap();
    store.gone().await;
    drop(account);
    hears.note("stopped at 0").await;
    hears.dropped().await;
}

#[actix::test]
async fn a_passivated_actor_that_is_restarted_rests_on() {
    let store = Store::open();
    let (account, mut hears) = soon_idle(&store);
    let account = Supervisor::start(|_| account);
    account.send(Deposit(5)).await.unwrap().unwrap();
    store.gone().await;
    account.send(act(|_, context| context.stop())).await.unwrap();
    hears.note("stopped at 0").await;
    hears.note("starting at 0").await;
    assert_eq!(account.send(Ping).await.unwrap(), 1);
    assert_eq!(store.journal.claims_made(), 1);
    assert_eq!(account.send(Deposit(2)).await.unwrap().unwrap(), 7);
    // The restart cancelled timers, so the hook comes.
    hears.note("recovered at 5").await;
}

#[actix::test]
async fn a_command_that_finds_no_way_back_is_answered_why() {
    let store = Store::open();
    let (account, mut hears) = soon_idle(&store);
    let account = account.start();
    account.send(Deposit(5)).await.unwrap().unwrap();
    store.gone().await;
    store.journal.set_down(true);
    let refused = account.send(Deposit(2)).await.unwrap().unwrap_err();
    assert!(matches!(refused, PersistError::RecoveryFailed(_)), "{refused:?}");
    hears.failed_recovery().await;
    hears.note("stopped at 0").await;
}
