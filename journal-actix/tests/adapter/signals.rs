//! The model is the actor: it hears on its own thread.

use std::thread;

use actix::prelude::*;
use journal_actix::SpawnPersistent;
use journal_core::{PersistError, Signal};

use crate::common::*;

#[actix::test]
async fn it_hears_on_its_own_thread_and_in_order() {
    let store = Store::open();
    let (account, hears) = account(&store.persistence);
    let account = account.start();
    let said = ["one", "two", "three"];
    for message in said {
        account.send(PanicInHandle(message)).await.unwrap().unwrap_err();
    }
    account.send(Read).await.unwrap().unwrap();
    drop(account);
    let mut heard = Vec::new();
    for told in hears.rest().await {
        if let Told::Signal(signal, on) = told {
            assert_eq!(on, thread::current().id());
            match signal {
                Signal::HandlerPanicked(message) => heard.push(message.to_string()),
                Signal::RecoveryCompleted { .. } => heard.push("recovered".to_owned()),
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(
        heard,
        [
            "recovered",
            "one",
            "recovered",
            "two",
            "recovered",
            "three",
            "recovered"
        ]
    );
}

fn heard_of_the_fence(told: &[Told]) {
    let heard = |wanted: fn(&Signal) -> bool| {
        told.iter()
            .any(|told| matches!(told, Told::Signal(signal, _) if wanted(signal)))
    };
    for wanted in [
        (|signal| matches!(signal, Signal::PersistFailed(PersistError::Fenced(_)))) as fn(&Signal) -> bool,
        |signal| matches!(signal, Signal::CommandFailed(PersistError::Fenced(_))),
    ] {
        assert!(heard(wanted), "{told:?}");
    }
}

#[actix::test]
async fn it_hears_the_last_before_it_ends_of_a_failure() {
    for _ in 0..50 {
        let store = Store::open();
        let (account, hears) = account(&store.persistence);
        let account = account.start();
        account.send(Deposit(5)).await.unwrap().unwrap();
        store.claimed_elsewhere().await;
        account.do_send(Gift(2));
        heard_of_the_fence(&hears.rest().await);
    }
}

#[actix::test]
async fn it_hears_the_last_before_it_ends_of_a_stop() {
    for _ in 0..50 {
        let store = Store::open();
        let (account, hears) = account(&store.persistence);
        let account = account.start();
        account.send(Deposit(5)).await.unwrap().unwrap();
        store.journal.appends.close();
        account.do_send(Gift(2));
        account.do_send(act(|_, context| context.stop()));
        store.journal.appends.arrival().await;
        store.claimed_elsewhere().await;
        store.journal.appends.open();
        heard_of_the_fence(&hears.rest().await);
    }
}

#[actix::test]
async fn it_hears_that_it_could_not_recover() {
    for _ in 0..50 {
        let store = Store::open();
        store.journal.set_down(true);
        let (account, hears) = account(&store.persistence);
        account.start();
        let told = hears.rest().await;
        let failed = |told: &Told| matches!(told, Told::Signal(Signal::RecoveryFailed(_), _));
        assert_eq!(told.iter().filter(|told| failed(told)).count(), 1, "{told:?}");
    }
}

#[actix::test]
async fn a_panic_of_signal_harms_nobody() {
    let store = Store::open();
    let (account, mut hears) = account(&store.persistence);
    let account = account.spawn().await.unwrap();
    account.tell(Strange).unwrap();
    hears
        .signal(|signal| matches!(signal, Signal::EffectPanicked(_)).then_some(()))
        .await;
    assert_eq!(account.ask(Deposit(5)).await.unwrap().unwrap(), 5);
    assert_eq!(account.addr().send(Ping).await.unwrap(), 1);
    assert_eq!(store.journal.claims_made(), 1);
}
