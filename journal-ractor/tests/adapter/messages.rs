use std::{sync::Arc, time::Duration};

use journal_core::{Command, Effect, Effects, ErrorKind, Handles, PersistError, Signal};
use journal_ractor::{
    Envelope, PersistentRef, SpawnPersistent, ThenReplyTo,
    ractor::{ActorRef, RpcReplyPort, call, cast},
};

use crate::common::*;

/// The messages of an account as ractor users write them.
enum AccountMessage {
    Deposit(i64, RpcReplyPort<i64>),
    Read(RpcReplyPort<i64>),
    Gift(i64),
    Close,
}

#[cfg(feature = "cluster")]
impl journal_ractor::ractor::Message for AccountMessage {}

impl Command for AccountMessage {
    type Reply = ();
}

impl Handles<AccountMessage> for Account {
    fn handle(&self, _: &Balance, message: AccountMessage) -> Effect<Self> {
        match message {
            AccountMessage::Deposit(cents, port) => self
                .persist(AccountEvent::Deposited(cents))
                .then_reply_to(port, |state| state.cents),
            AccountMessage::Read(port) => self.none().then_reply_to(port, |state| state.cents),
            AccountMessage::Gift(cents) => self.persist(AccountEvent::Deposited(cents)),
            AccountMessage::Close => self.none().then_stop(),
        }
    }
}

async fn spawn(
    journal: &Arc<ControlledJournal>,
) -> (
    PersistentRef<Account, AccountMessage>,
    ActorRef<AccountMessage>,
    Hears,
) {
    let (description, hears) = account("a");
    let account = description
        .max_waiting(100)
        .accepting::<AccountMessage>()
        .spawn(&persistence(journal))
        .await
        .unwrap();
    let actor = account.actor_ref();
    (account, actor, hears)
}

#[tokio::test]
async fn an_actor_ref_of_an_enum_with_reply_ports_works() {
    let journal = journal();
    let (account, actor, _hears) = spawn(&journal).await;
    assert_eq!(call!(actor, AccountMessage::Deposit, 5).unwrap(), 5);
    cast!(actor, AccountMessage::Gift(2)).unwrap();
    assert_eq!(call!(actor, AccountMessage::Read).unwrap(), 7);
    // Typed commands go on beside it.
    assert_eq!(account.ask(Deposit(1)).await.unwrap().unwrap(), 8);
}

#[tokio::test]
async fn a_reply_port_is_answered_once_its_events_are_durable() {
    let journal = journal();
    journal.appends.close();
    let (_account, actor, _hears) = spawn(&journal).await;
    let deposit = background(async move { call!(actor, AccountMessage::Deposit, 5) });
    journal.appends.arrival().await;
    settle().await;
    assert!(!deposit.is_finished());
    journal.appends.let_through(1);
    assert_eq!(deposit.await.unwrap().unwrap(), 5);
}

#[tokio::test]
async fn a_failed_write_drops_the_reply_port_and_signals_the_model() {
    let journal = journal();
    let (_account, actor, mut hears) = spawn(&journal).await;
    journal.fate(Fate::NotStored(ErrorKind::Poisoned));
    assert!(call!(actor, AccountMessage::Deposit, 5).is_err());
    let failure = hears.signal(|signal| match signal {
        Signal::CommandFailed(error) => Some(error.clone()),
        _ => None,
    });
    assert!(matches!(failure.await, PersistError::NotStored(_)));
    assert_eq!(call!(actor, AccountMessage::Deposit, 1).unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_actor_ref_outlives_a_restart() {
    let journal = journal();
    let (_account, actor, _hears) = spawn(&journal).await;
    assert_eq!(call!(actor, AccountMessage::Deposit, 5).unwrap(), 5);
    journal.set_down(true);
    journal.fate(Fate::LostButUnknown);
    assert!(call!(actor, AccountMessage::Deposit, 100).is_err());
    journal.set_down(false);
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(call!(actor, AccountMessage::Deposit, 1).unwrap(), 6);
}

#[tokio::test]
async fn a_flood_of_messages_is_bounded_too() {
    let journal = journal();
    journal.appends.close();
    let (account, actor, mut hears) = spawn(&journal).await;
    for _ in 0..1_000 {
        cast!(actor, AccountMessage::Gift(1)).unwrap();
    }
    for _ in 0..900 {
        hears
            .signal(|signal| {
                matches!(signal, Signal::CommandFailed(PersistError::Overloaded { .. })).then_some(())
            })
            .await;
    }
    assert_eq!(account.waiting(), 100);
    journal.appends.open();
    while account.waiting() > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(call!(actor, AccountMessage::Read).unwrap(), 100);
}

#[tokio::test]
async fn stopping_or_draining_an_actor_ref_finishes_what_it_was_sent() {
    for drain in [false, true] {
        let journal = journal();
        journal.appends.close();
        let (_account, actor, _hears) = spawn(&journal).await;
        let deposit = background({
            let actor = actor.clone();
            async move { call!(actor, AccountMessage::Deposit, 5) }
        });
        journal.appends.arrival().await;
        if drain {
            actor.drain().unwrap();
        } else {
            actor.stop(None);
        }
        settle().await;
        assert!(!deposit.is_finished());
        journal.appends.open();
        actor.wait(None).await.unwrap();
        assert_eq!(deposit.await.unwrap().unwrap(), 5);
    }
}

#[tokio::test]
async fn killing_an_actor_ref_kills() {
    let journal = journal();
    journal.appends.close();
    let (account, actor, _hears) = spawn(&journal).await;
    let deposit = background({
        let actor = actor.clone();
        async move { call!(actor, AccountMessage::Deposit, 5) }
    });
    journal.appends.arrival().await;
    actor.kill();
    account.ended().await;
    journal.appends.open();
    assert_eq!(deposit.await.unwrap().unwrap(), 5);
    assert!(cast!(actor, AccountMessage::Gift(1)).is_err());
}

#[tokio::test]
async fn a_stop_handled_by_a_message_ends_its_actor_ref() {
    let journal = journal();
    let (_account, actor, _hears) = spawn(&journal).await;
    cast!(actor, AccountMessage::Close).unwrap();
    actor.wait(None).await.unwrap();
    assert!(cast!(actor, AccountMessage::Gift(1)).is_err());
}

#[tokio::test]
async fn ractor_calls_carry_any_command_in_an_envelope() {
    let persistence = persistence(&journal());
    let account = account("a").0.spawn(&persistence).await.unwrap();
    let actor: ActorRef<Envelope<Account>> = account.actor_ref();
    actor.cast(Envelope::cast(Deposit(5))).unwrap();
    let reply = actor.call(|port| Envelope::call(Deposit(2), port), None).await;
    assert_eq!(reply.unwrap().unwrap().unwrap(), 7);
}
