use std::time::Duration;

use journal_core::PersistError;
use journal_ractor::{AskError, SpawnPersistent, TellError};

use crate::common::*;

#[tokio::test]
async fn replies_and_effects_are_released_in_the_order_of_the_commands_once_durable() {
    let journal = Controlled::gated();
    let persistence = journal.persistence();
    let (account, mut hears) = account("a");
    let account = account.spawn(&persistence).await.unwrap();
    let first = asked(&account, Announce(1));
    journal.entered().await;
    let read = asked(&account, Read);
    settle().await;
    let rest: Vec<_> = (2..=9).map(|cents| asked(&account, Announce(cents))).collect();
    settle().await;
    // A read is withheld too: it shows what is not durable yet.
    assert!(!first.is_finished() && !read.is_finished());
    assert!(hears.announced().is_empty());
    journal.let_through(1);
    assert_eq!(first.await.unwrap().unwrap().unwrap(), 1);
    assert_eq!(read.await.unwrap().unwrap().unwrap(), 1);
    settle().await;
    assert_eq!(hears.announced(), [1]);
    journal.let_through(1);
    let mut replies = Vec::new();
    for reply in rest {
        replies.push(reply.await.unwrap().unwrap().unwrap());
    }
    assert_eq!(replies, [3, 6, 10, 15, 21, 28, 36, 45]);
    assert_eq!(hears.announced(), replies);
    assert_eq!(*journal.sizes.lock().unwrap(), [1, 8]);
}

#[tokio::test]
async fn a_flood_at_a_slow_journal_stays_bounded_and_is_answered_overloaded() {
    let journal = Controlled::gated();
    let persistence = journal.persistence();
    let account = account("a").0.max_waiting(100).spawn(&persistence).await.unwrap();
    let mut refused = 0;
    for _ in 0..10_000 {
        match account.tell(Deposit(1)) {
            Ok(()) => {}
            Err(TellError::Overloaded(PersistError::Overloaded { waiting, .. })) => {
                assert!(waiting >= 100);
                refused += 1;
            }
            Err(other) => panic!("{other:?}"),
        }
        assert!(account.waiting() <= 100);
    }
    assert_eq!(refused, 9_900);
    // Without a mailbox round trip: nothing else has run yet.
    let overloaded = account.ask(Read).await.unwrap().unwrap_err();
    assert!(
        matches!(overloaded, PersistError::Overloaded { .. }),
        "{overloaded:?}"
    );
    journal.let_all_through();
    while account.waiting() > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(account.ask(Read).await.unwrap().unwrap(), 100);
}

#[tokio::test]
async fn a_command_sent_while_it_recovers_counts_among_the_waiting() {
    let journal = Controlled::with_gated_claims();
    let persistence = journal.persistence();
    let account = account("a").0.max_waiting(2).spawn_instant(&persistence).unwrap();
    account.tell(Deposit(1)).unwrap();
    account.tell(Deposit(1)).unwrap();
    assert!(matches!(account.tell(Deposit(1)), Err(TellError::Overloaded(_))));
    journal.let_claim(1);
    while account.waiting() > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(account.ask(Read).await.unwrap().unwrap(), 2);
}

#[tokio::test]
async fn a_stashed_command_is_answered_after_it_is_unstashed() {
    let persistence = Controlled::open().persistence();
    let account = account("a").0.spawn(&persistence).await.unwrap();
    let waits = asked(&account, ReadOnceAt(5));
    settle().await;
    assert_eq!(account.ask(DepositAndCall(2)).await.unwrap().unwrap(), 2);
    settle().await;
    assert!(!waits.is_finished());
    assert_eq!(account.ask(DepositAndCall(3)).await.unwrap().unwrap(), 5);
    assert_eq!(waits.await.unwrap().unwrap().unwrap(), 5);
}

#[tokio::test]
async fn a_strict_actor_writes_one_command_at_a_time() {
    let journal = Controlled::gated();
    let persistence = journal.persistence();
    let account = account("a").0.strict().spawn(&persistence).await.unwrap();
    let deposits: Vec<_> = (1..=3).map(|cents| asked(&account, Deposit(cents))).collect();
    for _ in &deposits {
        journal.entered().await;
        settle().await;
        journal.let_through(1);
    }
    for (deposit, balance) in deposits.into_iter().zip([1, 3, 6]) {
        assert_eq!(deposit.await.unwrap().unwrap().unwrap(), balance);
    }
    assert_eq!(*journal.sizes.lock().unwrap(), [1, 1, 1]);
}

#[tokio::test(start_paused = true)]
async fn an_ask_that_times_out_may_still_be_handled() {
    let journal = Controlled::gated();
    let persistence = journal.persistence();
    let account = account("a").0.spawn(&persistence).await.unwrap();
    let late = account.ask_timeout(Deposit(5), Duration::from_secs(1)).await;
    assert_eq!(late.unwrap_err(), AskError::Timeout);
    journal.let_all_through();
    assert_eq!(
        account
            .ask_timeout(Read, Duration::from_secs(1))
            .await
            .unwrap()
            .unwrap(),
        5
    );
}

#[tokio::test]
async fn after_a_handled_stop_commands_are_refused_and_then_closed() {
    let journal = Controlled::gated();
    let persistence = journal.persistence();
    let (description, _hears) = account("a");
    let account = description.clone().spawn(&persistence).await.unwrap();
    let closed = asked(&account, Close);
    journal.entered().await;
    let refused = account.ask(Deposit(1)).await.unwrap().unwrap_err();
    assert!(matches!(refused, PersistError::Stopped), "{refused:?}");
    journal.let_all_through();
    assert_eq!(closed.await.unwrap().unwrap().unwrap(), 0);
    account.ended().await;
    assert_eq!(account.ask(Read).await.unwrap_err(), AskError::Closed);
    assert!(matches!(account.tell(Read), Err(TellError::Closed)));
    let again = description.spawn(&persistence).await.unwrap();
    assert_eq!(again.ask(Deposit(1)).await.unwrap().unwrap(), 1);
    assert_eq!(account.ask(Read).await.unwrap_err(), AskError::Closed);
}

#[tokio::test]
async fn errors_of_the_framework_and_of_the_command_both_take_a_question_mark() {
    async fn deposit() -> Result<i64, Box<dyn std::error::Error>> {
        let persistence = Controlled::open().persistence();
        let account = account("a").0.spawn(&persistence).await?;
        Ok(account.ask(Deposit(5)).await??)
    }
    assert_eq!(deposit().await.unwrap(), 5);
}
