use actix::prelude::*;
use journal_actix::{SpawnPersistent, TellError};
use journal_core::{PersistError, Signal};

use crate::common::*;

#[actix::test]
async fn of_a_hundred_thousand_commands_forced_into_the_mailbox_as_many_are_taken_as_may_wait() {
    const SENT: i64 = 100_000;
    const MAY_WAIT: i64 = 100;
    let store = Store::open();
    store.journal.claims.close();
    store.journal.appends.close();
    let (account, mut hears) = account(&store.persistence);
    let account = account.with(|options| options.max_waiting(100)).start();
    for _ in 0..SENT {
        account.do_send(Gift(1));
    }
    store.journal.claims.open();
    for _ in MAY_WAIT..SENT {
        let waiting = hears
            .signal(|signal| match signal {
                Signal::CommandFailed(PersistError::Overloaded { waiting, .. }) => Some(*waiting),
                _ => None,
            })
            .await;
        assert_eq!(waiting, 100);
    }
    store.journal.appends.open();
    while let Err(PersistError::Overloaded { .. }) = account.send(Read).await.unwrap() {
        tokio::task::yield_now().await;
    }
    assert_eq!(account.send(Read).await.unwrap().unwrap(), MAY_WAIT);
    assert!(hears.0.try_recv().is_err(), "no more than those were refused");
}

#[actix::test]
async fn the_mailbox_bounds_send_and_try_send_while_it_recovers() {
    let store = Store::open();
    store.journal.claims.close();
    let (account, _hears) = account(&store.persistence);
    let account = account
        .at_start(|_, context| context.set_mailbox_capacity(4))
        .start();
    store.journal.claims.arrival().await;
    let sent = std::iter::from_fn(|| account.try_send(Gift(1)).ok())
        .take(1_000)
        .count();
    // actix lets each sender have one more.
    assert!((4..=5).contains(&sent), "{sent}");
    let waits = actix::spawn(account.send(Read));
    a_while().await;
    assert!(!waits.is_finished());
    store.journal.claims.open();
    let balance = waits.await.unwrap().unwrap().unwrap();
    assert_eq!(usize::try_from(balance).unwrap(), sent);
}

#[actix::test]
async fn a_tell_or_ask_is_refused_before_the_mailbox() {
    let store = Store::open();
    store.journal.claims.close();
    let account = account(&store.persistence)
        .0
        .with(|options| options.max_waiting(2));
    let account = account.spawn_instant();
    account.tell(Deposit(1)).unwrap();
    account.tell(Gift(1)).unwrap();
    let refused = account.tell(Deposit(1)).unwrap_err();
    assert!(matches!(
        refused,
        TellError::Overloaded(PersistError::Overloaded { waiting: 2, .. })
    ));
    // At once, though nothing of it can have been handled.
    let refused = within(account.ask(Read)).await.unwrap().unwrap_err();
    assert!(matches!(refused, PersistError::Overloaded { waiting: 2, .. }));
    assert_eq!(account.waiting(), 2);
    store.journal.claims.open();
    eventually(|| account.waiting() == 0).await;
    assert_eq!(account.ask(Read).await.unwrap().unwrap(), 2);
}

#[actix::test]
async fn a_strict_account_writes_one_command_at_a_time() {
    let store = Store::open();
    let account = account(&store.persistence)
        .0
        .with(|options| options.strict())
        .start();
    account.send(Read).await.unwrap().unwrap();
    store.journal.appends.close();
    let deposits: Vec<_> = (1..=3).map(|cents| account.send(Deposit(cents))).collect();
    for _ in &deposits {
        store.journal.appends.arrival().await;
        a_while().await;
        store.journal.appends.let_through(1);
    }
    for (deposit, balance) in deposits.into_iter().zip([1, 3, 6]) {
        assert_eq!(deposit.await.unwrap().unwrap(), balance);
    }
    assert_eq!(store.journal.sizes(), [1, 1, 1]);
}
