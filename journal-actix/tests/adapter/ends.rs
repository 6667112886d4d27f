//! Whatever ends it: what is handled is written and answered.

use std::{sync::mpsc, thread, time::Duration};

use actix::prelude::*;
use journal_actix::{AskError, SpawnPersistent, TellError};

use crate::common::*;

#[actix::test]
async fn a_stop_of_its_context_waits_for_writes_in_flight_and_answers_them() {
    let store = Store::open();
    let (account, mut hears) = account(&store.persistence);
    let account = account.start();
    account.send(Read).await.unwrap().unwrap();
    store.journal.appends.close();
    let deposit = actix::spawn(account.send(Deposit(5)));
    store.journal.appends.arrival().await;
    account.do_send(act(|_, context| context.stop()));
    let behind = actix::spawn(account.send(Deposit(1)));
    a_while().await;
    assert!(account.connected() && store.is_live());
    assert!(!deposit.is_finished() && !behind.is_finished());
    store.journal.appends.open();
    assert_eq!(deposit.await.unwrap().unwrap().unwrap(), 5);
    assert_eq!(behind.await.unwrap().unwrap_err(), MailboxError::Closed);
    hears.note("stopped at 5").await;
    hears.dropped().await;
    assert!(!account.connected());
    store.gone().await;
    assert_eq!(store.claimed_elsewhere().await, 1);
}

#[actix::test]
async fn it_ends_when_all_addresses_are_gone_after_its_writes() {
    let store = Store::open();
    let (account, mut hears) = account(&store.persistence);
    let account = account.start();
    account.send(Read).await.unwrap().unwrap();
    store.journal.appends.close();
    account.do_send(Deposit(5));
    store.journal.appends.arrival().await;
    drop(account);
    hears.note("recovered at 0").await;
    a_while().await;
    let told: Vec<_> = std::iter::from_fn(|| hears.0.try_recv().ok()).collect();
    assert_eq!(notes(&told), [""; 0]);
    store.journal.appends.open();
    hears.note("stopped at 5").await;
    hears.dropped().await;
    store.gone().await;
    assert_eq!(store.claimed_elsewhere().await, 1);
}

#[actix::test]
async fn an_idle_one_ends_when_all_addresses_are_gone() {
    let (account, hears) = account(&Store::open().persistence);
    let account = account.start();
    account.send(Deposit(5)).await.unwrap().unwrap();
    drop(account);
    hears.dropped().await;
}

#[actix::test]
async fn what_was_sent_during_a_recovery_is_written_though_all_addresses_are_gone() {
    let store = Store::open();
    store.journal.claims.close();
    let (account, hears) = account(&store.persistence);
    let account = account.start();
    for _ in 0..100 {
        account.do_send(Gift(1));
    }
    drop(account);
    store.journal.claims.arrival().await;
    store.journal.claims.open();
    hears.dropped().await;
    store.gone().await;
    assert_eq!(store.claimed_elsewhere().await, 100);
}

#[actix::test]
async fn a_stop_while_it_recovers_frees_the_id() {
    let store = Store::open();
    store.journal.claims.close();
    let (first, hears) = account(&store.persistence);
    let first = first.at_start(|_, context| context.stop()).start();
    assert_eq!(first.send(Deposit(1)).await.unwrap_err(), MailboxError::Closed);
    hears.dropped().await;
    store.journal.claims.open();
    store.gone().await;
    account(&store.persistence).0.spawn().await.unwrap();
}

#[actix::test]
async fn a_stop_during_a_recovery_in_place_ends_it_with_what_was_stored() {
    let store = Store::open();
    let (first, hears) = account(&store.persistence);
    let first = first.spawn().await.unwrap();
    first.ask(Deposit(5)).await.unwrap().unwrap();
    store.journal.claims.close();
    assert!(first.ask(PanicInHandle("on purpose")).await.unwrap().is_err());
    store.journal.claims.arrival().await;
    within(first.stop()).await;
    drop(first);
    hears.dropped().await;
    store.journal.claims.open();
    let second = account(&store.persistence).0.spawn().await.unwrap();
    assert_eq!(second.ask(Read).await.unwrap().unwrap(), 5);
}

#[actix::test]
async fn a_panic_in_a_plain_handler_ends_it_but_what_it_handled_is_written_and_answered() {
    let store = Store::open();
    let (first, hears) = account(&store.persistence);
    let first = first.spawn().await.unwrap();
    store.journal.appends.close();
    let deposit = actix::spawn(first.addr().send(Deposit(5)));
    store.journal.appends.arrival().await;
    first.addr().do_send(act(|_, _| panic!("on purpose")));
    within(first.ended()).await;
    hears.dropped().await;
    assert!(!deposit.is_finished());
    assert_eq!(first.ask(Read).await.unwrap_err(), AskError::Closed);
    assert!(matches!(first.tell(Read), Err(TellError::Closed)));
    let second = account(&store.persistence).0.spawn_instant();
    store.journal.appends.open();
    assert_eq!(deposit.await.unwrap().unwrap().unwrap(), 5);
    assert_eq!(second.ask(Read).await.unwrap().unwrap(), 5);
}

#[actix::test]
async fn a_panic_in_a_hook_ends_the_actor_and_not_the_process() {
    let store = Store::open();
    for in_recovered in [false, true] {
        let (account, hears) = account(&store.persistence);
        let panics = |_: &mut Account, _: &mut Context<Account>| panic!("on purpose");
        let account = if in_recovered {
            account.when_recovered(panics)
        } else {
            account.at_start(panics)
        };
        let account = account.start();
        assert_eq!(account.send(Deposit(1)).await.unwrap_err(), MailboxError::Closed);
        hears.dropped().await;
        store.gone().await;
    }
    let account = account(&store.persistence).0.start();
    assert_eq!(account.send(Deposit(1)).await.unwrap().unwrap(), 1);
}

#[actix::test]
async fn a_panic_after_its_own_wait_ends_the_actor_and_not_the_process() {
    let store = Store::open();
    let account = account(&store.persistence).0.start();
    account.send(Deposit(1)).await.unwrap().unwrap();
    account
        .send(act(|account, context| {
            context.wait(async {}.into_actor(account).map(|(), _, _| panic!("on purpose")));
        }))
        .await
        .unwrap();
    assert_eq!(account.send(Ping).await.unwrap_err(), MailboxError::Closed);
    store.gone().await;
}

#[actix::test]
async fn a_terminated_one_is_written_all_the_same() {
    let store = Store::open();
    let account = account(&store.persistence).0.start();
    account.send(Read).await.unwrap().unwrap();
    store.journal.appends.close();
    let deposit = actix::spawn(account.send(Deposit(5)));
    store.journal.appends.arrival().await;
    account.do_send(act(|_, context| context.terminate()));
    assert_eq!(account.send(Ping).await.unwrap_err(), MailboxError::Closed);
    store.journal.appends.open();
    assert_eq!(deposit.await.unwrap().unwrap().unwrap(), 5);
    store.gone().await;
}

#[actix::test]
async fn a_stop_through_its_reference_answers_what_is_handled_and_is_for_good() {
    let store = Store::open();
    let account = account(&store.persistence).0.spawn().await.unwrap();
    store.journal.appends.close();
    let deposit = actix::spawn(account.addr().send(Deposit(5)));
    store.journal.appends.arrival().await;
    let stop = actix::spawn({
        let account = account.clone();
        async move { account.stop().await }
    });
    a_while().await;
    assert!(!stop.is_finished() && !deposit.is_finished());
    store.journal.appends.open();
    assert_eq!(deposit.await.unwrap().unwrap().unwrap(), 5);
    within(stop).await.unwrap();
    store.gone().await;
    assert_eq!(account.ask(Read).await.unwrap_err(), AskError::Closed);
    assert!(matches!(account.tell(Read), Err(TellError::Closed)));
    assert!(!account.addr().connected());
    assert_eq!(store.claimed_elsewhere().await, 1);
}

#[actix::test]
async fn a_drain_handles_what_is_queued_first() {
    let store = Store::open();
    store.journal.claims.close();
    let account = account(&store.persistence).0.spawn_instant();
    for _ in 0..100 {
        account.tell(Gift(1)).unwrap();
    }
    let drained = actix::spawn({
        let account = account.clone();
        async move { account.drain().await }
    });
    a_while().await;
    assert!(!drained.is_finished());
    store.journal.claims.open();
    within(drained).await.unwrap();
    assert_eq!(store.claimed_elsewhere().await, 100);
}

#[actix::test]
async fn settled_returns_once_what_was_sent_before_is_durable() {
    let store = Store::open();
    let account = account(&store.persistence).0.spawn().await.unwrap();
    store.journal.appends.close();
    account.tell(Gift(1)).unwrap();
    let settled = actix::spawn({
        let account = account.clone();
        async move { account.settled().await }
    });
    store.journal.appends.arrival().await;
    a_while().await;
    assert!(!settled.is_finished());
    store.journal.appends.open();
    settled.await.unwrap();
    assert_eq!(store.claimed_elsewhere().await, 1);
    account.stop().await;
    within(account.settled()).await;
}

#[actix::test]
async fn after_a_kill_in_any_phase_the_id_can_be_had_at_once() {
    let store = Store::open();
    for round in 0..100 {
        store.journal.claims.close();
        let killed = account(&store.persistence).0.spawn_instant();
        store.journal.claims.arrival().await;
        if round % 2 == 0 {
            store.journal.claims.open();
        }
        within(killed.kill()).await;
        store.journal.claims.open();
        account(&store.persistence).0.spawn().await.unwrap().stop().await;
        assert!(!killed.addr().connected());
    }
}

#[actix::test]
async fn what_a_killed_one_handled_is_written_and_answered() {
    let store = Store::open();
    let killed = account(&store.persistence).0.spawn().await.unwrap();
    store.journal.appends.close();
    let deposit = actix::spawn(killed.addr().send(Deposit(5)));
    store.journal.appends.arrival().await;
    within(killed.kill()).await;
    assert_eq!(killed.ask(Read).await.unwrap_err(), AskError::Closed);
    store.journal.appends.open();
    assert_eq!(deposit.await.unwrap().unwrap().unwrap(), 5);
    let next = account(&store.persistence).0.spawn().await.unwrap();
    assert_eq!(next.ask(Read).await.unwrap().unwrap(), 5);
}

/// How a thread of actors ends.
#[derive(Clone, Copy)]
enum End {
    System,
    Arbiter,
}

#[test]
fn the_end_of_its_system_or_arbiter_loses_nothing_that_was_acknowledged() {
    for end in [End::System, End::Arbiter] {
        let store = Store::open();
        let (persistence, (sent, replies)) = (store.persistence.clone(), mpsc::channel());
        let ended = thread::spawn(move || {
            let runner = System::new();
            runner.block_on(async move {
                let arbiter = Arbiter::new();
                let started = Account::start_in_arbiter(&arbiter.handle(), move |_| account(&persistence).0);
                for _ in 0..2_000 {
                    let (reply, sent) = (started.send(Deposit(1)), sent.clone());
                    actix::spawn(async move {
                        if let Ok(Ok(balance)) = reply.await {
                            let _ = sent.send(balance);
                        }
                    });
                    actix::clock::sleep(Duration::from_micros(10)).await;
                }
                match end {
                    End::System => System::current().stop(),
                    End::Arbiter => assert!(arbiter.stop()),
                }
                // What stops it runs here.
                eventually(|| !started.connected()).await;
                arbiter.join().unwrap();
            });
        });
        ended.join().unwrap();
        let acknowledged = replies.try_iter().max().unwrap_or(0);
        System::new().block_on(async move {
            store.gone().await;
            let claimed = store.claimed_elsewhere().await;
            assert!(acknowledged > 0);
            assert!(
                claimed >= u64::try_from(acknowledged).unwrap(),
                "{claimed} < {acknowledged}"
            );
            let next = account(&store.persistence).0.spawn().await.unwrap();
            assert_eq!(
                next.ask(Read).await.unwrap().unwrap(),
                i64::try_from(claimed).unwrap()
            );
        });
    }
}
