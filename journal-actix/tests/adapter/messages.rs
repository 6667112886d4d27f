use std::{error::Error, sync::Arc, time::Duration};

use actix::prelude::*;

use crate::common::*;

#[actix::test]
async fn a_command_is_sent_as_any_message_and_its_reply_takes_two_question_marks() {
    async fn deposit() -> Result<i64, Box<dyn Error>> {
        let account = account(&Store::open().persistence).0.start();
        account.send(Deposit(2)).await??;
        Ok(account.send(Deposit(3)).await??)
    }
    assert_eq!(deposit().await.unwrap(), 5);
}

#[actix::main]
async fn program() -> i64 {
    let account = account(&Store::open().persistence).0.start();
    account.send(Deposit(5)).await.unwrap().unwrap()
}

#[test]
fn the_main_attribute_of_actix_runs_it() {
    assert_eq!(program(), 5);
}

#[actix::test]
async fn a_plain_handler_stands_beside_commands_and_reads_the_newest_state() {
    let store = Store::open();
    let (account, mut hears) = account(&store.persistence);
    let account = account.start();
    assert_eq!(account.send(Ping).await.unwrap(), 1);
    account.send(Deposit(5)).await.unwrap().unwrap();
    account
        .send(act(|account, _| {
            account.note(format!("reads {}", *account.balance))
        }))
        .await
        .unwrap();
    hears.note("reads 5").await;
    assert_eq!(account.send(Ping).await.unwrap(), 2);
    assert_eq!(store.journal.sizes(), [1]);
}

#[actix::test]
async fn a_stream_feeds_it() {
    let (account, mut hears) = account(&Store::open().persistence);
    let account = account
        .when_recovered(|_, context| {
            context.add_stream(futures_util::stream::iter(1..=10));
        })
        .start();
    hears.note("the stream ended").await;
    assert_eq!(account.send(Read).await.unwrap().unwrap(), 55);
}

#[actix::test]
async fn a_recipient_takes_one_kind_of_command() {
    let account = account(&Store::open().persistence).0.start();
    let recipient: Recipient<Deposit> = account.clone().recipient();
    assert_eq!(recipient.send(Deposit(2)).await.unwrap().unwrap(), 2);
    recipient.do_send(Deposit(3));
    assert_eq!(account.send(Read).await.unwrap().unwrap(), 5);
    let weak = account.downgrade().recipient::<Deposit>();
    assert_eq!(
        weak.upgrade().unwrap().send(Deposit(1)).await.unwrap().unwrap(),
        6
    );
}

#[actix::test]
async fn it_sends_commands_to_itself_at_once_later_and_in_turn() {
    let (account, mut hears) = account(&Store::open().persistence);
    let account = account.start();
    account
        .send(act(|account, context| {
            context.notify(Deposit(1));
            context.notify_later(Deposit(2), Duration::from_millis(2));
            let direct = Handler::<Deposit>::handle(account, Deposit(4), context);
            drop(direct);
            let address = context.address();
            let asks = async move { address.send(Deposit(8)).await.unwrap().unwrap() };
            context.spawn(asks.into_actor(account).map(|balance, account, _| {
                account.note(format!("asked itself, {}", balance & 8));
            }));
        }))
        .await
        .unwrap();
    hears.note("asked itself, 8").await;
    within(async {
        while account.send(Read).await.unwrap().unwrap() != 15 {
            actix::clock::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}

#[actix::test]
async fn a_model_that_knows_nothing_of_actix_serves_many_actors() {
    let store = Store::open();
    let model = Arc::new(Counter { step: 3 });
    let first = CounterActor::new("first", &model, &store.persistence).start();
    let second = CounterActor::new("second", &model, &store.persistence).start();
    assert_eq!(count(&first).await, 3);
    assert_eq!(count(&first).await, 6);
    assert_eq!(count(&second).await, 3);
}

#[actix::test]
async fn replies_come_in_order_once_durable_and_a_read_is_withheld_too() {
    let store = Store::open();
    let account = account(&store.persistence).0.start();
    account.send(Read).await.unwrap().unwrap();
    store.journal.appends.close();
    let (sent, mut replies) = tokio::sync::mpsc::unbounded_channel();
    let ask = |reply: actix::dev::Request<Account, Deposit>| {
        let sent = sent.clone();
        actix::spawn(async move { sent.send(reply.await.unwrap().unwrap()).unwrap() });
    };
    ask(account.send(Deposit(1)));
    store.journal.appends.arrival().await;
    let read = actix::spawn(account.send(Read));
    for _ in 2..=9 {
        ask(account.send(Deposit(1)));
    }
    a_while().await;
    assert!(!read.is_finished());
    assert!(replies.try_recv().is_err());
    store.journal.appends.open();
    assert_eq!(read.await.unwrap().unwrap().unwrap(), 1);
    for balance in 1..=9 {
        assert_eq!(replies.recv().await, Some(balance));
    }
    assert_eq!(store.journal.sizes(), [1, 8]);
}

#[actix::test]
async fn a_caller_that_no_longer_waits_takes_back_only_what_is_not_handled() {
    let store = Store::open();
    let account = account(&store.persistence).0.start();
    account.send(Read).await.unwrap().unwrap();
    store.journal.appends.close();
    let timed_out = account.send(Deposit(5)).timeout(Duration::from_millis(5)).await;
    assert_eq!(timed_out.unwrap_err(), MailboxError::Timeout);
    drop(account.send(Deposit(2)));
    store.journal.appends.open();
    assert_eq!(account.send(Read).await.unwrap().unwrap(), 5);
}
