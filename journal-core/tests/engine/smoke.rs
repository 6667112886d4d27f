use crate::common::*;
use journal_core::{Halt, PersistError, Persistence, RecoveryError, Signal};

#[tokio::test]
async fn what_is_acknowledged_is_recovered() {
    let journal = Controlled::open();
    let persistence = persistence(&journal);
    let actor = Mini::spawn(&persistence, "a").await.unwrap();
    assert_eq!(actor.ask(Add(5)).await.unwrap(), 5);
    assert_eq!(actor.ask(AddAll(vec![1, 2])).await.unwrap(), 8);
    assert_eq!(actor.ask(Get).await.unwrap(), 8);
    assert_eq!(actor.end().await.unwrap().total, 8);
    let actor = Mini::spawn(&persistence, "a").await.unwrap();
    assert_eq!(actor.ask(Get).await.unwrap(), 8);
}

#[tokio::test]
async fn a_reply_is_withheld_until_its_events_are_durable() {
    let journal = Controlled::gated();
    let persistence = persistence(&journal);
    let actor = Mini::spawn(&persistence, "a").await.unwrap();
    let mut first = actor.send(Add(5));
    journal.append_entered().await;
    let mut read = actor.send(Get);
    let mut second = actor.send(Add(1));
    handled(&actor).await;
    assert!(first.try_recv().is_err());
    assert!(read.try_recv().is_err());
    journal.let_through(1);
    assert_eq!(first.await.unwrap().unwrap(), 5);
    assert_eq!(read.await.unwrap().unwrap(), 5);
    journal.append_entered().await;
    assert!(second.try_recv().is_err());
    journal.let_through(1);
    assert_eq!(second.await.unwrap().unwrap(), 6);
}

#[tokio::test]
async fn an_unknown_append_that_was_stored_is_answered_by_the_next_claim() {
    let journal = Controlled::open();
    let persistence = persistence(&journal);
    let mut actor = Mini::spawn(&persistence, "a").await.unwrap();
    assert_eq!(actor.ask(Add(5)).await.unwrap(), 5);
    journal.fate(Fate::StoredButUnknown);
    assert_eq!(actor.ask(Add(2)).await.unwrap(), 7);
    journal.fate(Fate::LostButUnknown);
    let lost = actor.ask(Add(3)).await.unwrap_err();
    assert!(matches!(lost.0, PersistError::NotStored(_)), "{lost:?}");
    assert_eq!(actor.ask(Get).await.unwrap(), 7);
    actor
        .signal(|signal| matches!(signal, Signal::PersistFailed(_)).then_some(()))
        .await;
}

#[tokio::test]
async fn a_fenced_actor_halts() {
    let journal = Controlled::open();
    let persistence = persistence(&journal);
    let actor = Mini::spawn(&persistence, "a").await.unwrap();
    journal.fate(Fate::FencedBefore);
    let fenced = actor.ask(Add(5)).await.unwrap_err();
    assert!(matches!(fenced.0, PersistError::Fenced(_)), "{fenced:?}");
    assert!(matches!(actor.task.await.unwrap(), Err(Halt::Fenced(_))));
}

#[tokio::test]
async fn a_panic_in_a_handler_recovers_in_place() {
    let journal = Controlled::open();
    let persistence = persistence(&journal);
    let actor = Mini::spawn(&persistence, "a").await.unwrap();
    actor.ask(Add(5)).await.unwrap();
    let panicked = actor.ask(PanicInHandle).await.unwrap_err();
    assert!(matches!(panicked.0, PersistError::Panicked(_)), "{panicked:?}");
    assert!(matches!(
        actor.ask(PanicInApply).await.unwrap_err().0,
        PersistError::Panicked(_)
    ));
    assert_eq!(actor.ask(Add(1)).await.unwrap(), 6);
}

#[tokio::test]
async fn a_stashed_command_is_answered_after_unstash() {
    let journal = Controlled::open();
    let persistence = persistence(&journal);
    let actor = Mini::spawn(&persistence, "a").await.unwrap();
    let waits = actor.send(StashUntil(5));
    assert_eq!(actor.ask(AddAndUnstash(2)).await.unwrap(), 2);
    assert_eq!(actor.ask(AddAndUnstash(3)).await.unwrap(), 5);
    assert_eq!(waits.await.unwrap().unwrap(), 5);
}

#[tokio::test]
async fn a_rejected_write_fails_what_follows_and_stores_what_came_before() {
    let journal = Controlled::gated();
    let persistence = persistence(&journal);
    let actor = Mini::spawn(&persistence, "a").await.unwrap();
    let first = actor.send(Add(1));
    journal.append_entered().await;
    let gathered: Vec<_> = [10, 20, 30]
        .into_iter()
        .map(|amount| actor.send(Add(amount)))
        .collect();
    handled(&actor).await;
    journal.fate(Fate::Stored);
    journal.fate(Fate::Reject(Some(1)));
    journal.let_through(100);
    assert_eq!(first.await.unwrap().unwrap(), 1);
    let mut replies = Vec::new();
    for reply in gathered {
        replies.push(reply.await.unwrap());
    }
    assert_eq!(*replies[0].as_ref().unwrap(), 11);
    assert!(matches!(
        replies[1].as_ref().unwrap_err().0,
        PersistError::Rejected(_)
    ));
    assert!(matches!(
        replies[2].as_ref().unwrap_err().0,
        PersistError::Rejected(_)
    ));
    assert_eq!(actor.ask(Get).await.unwrap(), 11);
}

#[tokio::test]
async fn a_handled_stop_ends_the_actor_and_frees_the_id() {
    let journal = Controlled::open();
    let persistence = persistence(&journal);
    let actor = Mini::spawn(&persistence, "a").await.unwrap();
    assert!(matches!(
        Mini::spawn(&persistence, "a").await,
        Err(RecoveryError::AlreadyLive { .. })
    ));
    actor.ask(Stop).await.unwrap();
    actor.task.await.unwrap().unwrap();
    Mini::spawn(&persistence, "a").await.unwrap();
}

#[test]
fn an_actor_whose_hub_lost_its_runtime_answers_and_ends() {
    let journal = Controlled::gated();
    let hub = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let persistence = Persistence::builder(journal.clone())
        .runtime(hub.handle().clone())
        .build()
        .unwrap();
    let actors = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    actors.block_on(async {
        let actor = Mini::spawn(&persistence, "a").await.unwrap();
        let in_flight = actor.send(Add(1));
        journal.append_entered().await;
        let behind = actor.send(Add(2));
        hub.shutdown_background();
        assert!(matches!(
            in_flight.await.unwrap().unwrap_err().0,
            PersistError::Unknown(_)
        ));
        assert!(matches!(
            behind.await.unwrap().unwrap_err().0,
            PersistError::NotStored(_)
        ));
        assert!(matches!(
            actor.ask(Add(3)).await.unwrap_err().0,
            PersistError::NotStored(_)
        ));
    });
}
