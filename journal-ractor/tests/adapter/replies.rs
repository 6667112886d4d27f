use std::time::Duration;

use journal_ractor::{AskError, SpawnPersistent, TellError};

use crate::common::*;

#[tokio::test]
async fn a_command_sent_while_it_recovers_counts_among_the_waiting() {
    let journal = journal();
    journal.claims.close();
    let persistence = persistence(&journal);
    let account = account("a").0.max_waiting(2).spawn_instant(&persistence).unwrap();
    account.tell(Deposit(1)).unwrap();
    account.tell(Deposit(1)).unwrap();
    assert!(matches!(account.tell(Deposit(1)), Err(TellError::Overloaded(_))));
    journal.claims.open();
    while account.waiting() > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(account.ask(Read).await.unwrap().unwrap(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_ask_that_times_out_may_still_be_handled() {
    let journal = journal();
    journal.appends.close();
    let persistence = persistence(&journal);
    let account = account("a").0.spawn(&persistence).await.unwrap();
    let late = account.ask_timeout(Deposit(5), Duration::from_secs(1)).await;
    assert_eq!(late.unwrap_err(), AskError::Timeout);
    journal.appends.open();
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
async fn errors_of_the_framework_and_of_the_command_both_take_a_question_mark() {
    async fn deposit() -> Result<i64, Box<dyn std::error::Error>> {
        let persistence = persistence(&journal());
        let account = account("a").0.spawn(&persistence).await?;
        Ok(account.ask(Deposit(5)).await??)
    }
    assert_eq!(deposit().await.unwrap(), 5);
}

#[tokio::test]
async fn a_drain_handles_what_is_queued() {
    let journal = journal();
    journal.claims.close();
    let persistence = persistence(&journal);
    let account = account("a").0.spawn_instant(&persistence).unwrap();
    let queued: Vec<_> = (0..3).map(|_| asked(&account, Deposit(1))).collect();
    settle().await;
    let drain = background({
        let account = account.clone();
        async move { account.drain().await }
    });
    settle().await;
    assert_eq!(account.ask(Read).await.unwrap_err(), AskError::Closed);
    journal.claims.open();
    for (reply, balance) in queued.into_iter().zip(1..) {
        assert_eq!(reply.await.unwrap().unwrap().unwrap(), balance);
    }
    drain.await.unwrap();
}
