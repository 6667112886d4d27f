//! Nothing that can be seen from outside comes before all events it depends on are durable, and then in command order.

use std::sync::{Arc, Mutex};

use journal_core::{
    MemoryJournal, PersistError,
    adapter::{BoxedCommand, ReplyPort},
};
use tokio::sync::oneshot::{Receiver, error::TryRecvError};

use crate::common::*;

#[tokio::test]
async fn what_is_acknowledged_is_recovered() {
    let journal = Controlled::open();
    let persistence = persistence(&journal);
    let actor = Mini::spawn(&persistence, "a").await.unwrap();
    assert_eq!(actor.ask(Add(5)).await.unwrap(), 5);
    assert_eq!(actor.ask(AddAll(vec![1, 2])).await.unwrap(), 8);
    assert_eq!(actor.ask(AddAll(vec![])).await.unwrap(), 8);
    assert_eq!(actor.end().await.unwrap().total, 8);
    gone(&persistence, "a").await;
    let actor = Mini::spawn(&persistence, "a").await.unwrap();
    assert_eq!(actor.ask(Get).await.unwrap(), 8);
}

fn waits<T>(reply: &mut Receiver<T>) -> bool {
    matches!(reply.try_recv(), Err(TryRecvError::Empty))
}

#[tokio::test]
async fn every_kind_of_answer_waits_for_the_events_before_it() {
    let journal = Controlled::gated();
    let persistence = persistence(&journal);
    let actor = Mini::spawn_with(&persistence, "a", |options| options.accept_deleted_prefix())
        .await
        .unwrap();
    let mut add = actor.send(Add(5));
    journal.append_entered().await;
    let mut read = actor.send(Get);
    let mut refusal = actor.send(Refuse);
    let mut unencodable = actor.send(Unencodable);
    let mut restart = actor.send(RestartWrongly);
    let mut delete = actor.send(DeleteTo(1));
    let mut run = actor.send(Do(Box::new(|| ())));
    let mut stop = actor.send(Quit);
    others_run().await;
    assert!(waits(&mut add) && waits(&mut read) && waits(&mut refusal) && waits(&mut unencodable));
    assert!(waits(&mut restart) && waits(&mut delete) && waits(&mut run) && waits(&mut stop));
    assert_eq!(journal.bounds_of("a").await.deleted_to.get(), 0);
    journal.let_through(1);
    assert_eq!(add.await.unwrap().unwrap(), 5);
    assert_eq!(read.await.unwrap().unwrap(), 5);
    assert!(matches!(refusal.await.unwrap(), Err(Refusal("validation"))));
    let unencodable = unencodable.await.unwrap().unwrap_err().0;
    assert!(matches!(unencodable, PersistError::Rejected(_)), "{unencodable}");
    let restart = restart.await.unwrap().unwrap_err().0;
    assert!(matches!(restart, PersistError::NotInitialState), "{restart}");
    delete.await.unwrap().unwrap();
    journal.append_entered().await;
    assert!(waits(&mut run) && waits(&mut stop));
    journal.let_through(1);
    run.await.unwrap().unwrap();
    stop.await.unwrap().unwrap();
}

/// Notes in which order replies are sent.
struct Noting(u32, Arc<Mutex<Vec<u32>>>);

impl<R> ReplyPort<R> for Noting {
    fn send(self, _: R) {
        self.1.lock().unwrap().push(self.0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replies_come_in_command_order_also_with_closures_and_refusals_in_between() {
    let journal = Controlled::open();
    let persistence = persistence(&journal);
    let actor = Mini::spawn(&persistence, "a").await.unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    const COMMANDS: u32 = 2_000;
    for number in 0..COMMANDS {
        let port = Noting(number, order.clone());
        actor.deliver(match number % 5 {
            0 => BoxedCommand::new(Add(1), port),
            1 => BoxedCommand::new(Get, port),
            2 => BoxedCommand::new(Do(Box::new(|| ())), port),
            3 => BoxedCommand::new(Unencodable, port),
            _ => BoxedCommand::new(Refuse, port),
        });
    }
    while order.lock().unwrap().len() < COMMANDS as usize {
        tokio::task::yield_now().await;
    }
    let order = order.lock().unwrap();
    assert!(order.is_sorted(), "{order:?}");
}

#[tokio::test]
async fn a_reply_is_of_the_state_right_after_its_own_events() {
    let journal = Controlled::gated();
    let persistence = persistence(&journal);
    let mut actor = Mini::spawn(&persistence, "a").await.unwrap();
    let replies = [1, 10, 100].map(|amount| actor.send(Add(amount)));
    let run = actor.send(Run("at"));
    let last = actor.send(Add(1_000));
    handled(&actor).await;
    journal.let_through(100);
    let mut seen = Vec::new();
    for reply in replies {
        seen.push(reply.await.unwrap().unwrap());
    }
    assert_eq!(seen, [1, 11, 111]);
    run.await.unwrap().unwrap();
    assert_eq!(actor.effect().await, "at 112");
    assert_eq!(last.await.unwrap().unwrap(), 1_112);
}

#[tokio::test]
async fn a_refused_command_changes_nothing_and_consumes_no_number() {
    let journal = Arc::new(Controlled::new(MemoryJournal::new().with_limits(200, 1_000)));
    let persistence = persistence(&journal);
    let actor = Mini::spawn(&persistence, "a").await.unwrap();
    actor.ask(Add(1)).await.unwrap();
    for refused in [
        actor.ask(Note("x".repeat(300))).await.map(drop),
        actor.ask(Unencodable).await,
        actor.ask(AddAll(vec![1; 200])).await.map(drop),
    ] {
        let error = refused.unwrap_err().0;
        let PersistError::Rejected(cause) = &error else {
            panic!("{error}")
        };
        assert_eq!(cause.persistence_id(), Some(&pid("a")));
    }
    assert_eq!(actor.ask(Note(String::new())).await.unwrap(), 1);
    assert_eq!(actor.ask(Add(1)).await.unwrap(), 2);
    assert_eq!(*journal.claims.lock().unwrap(), 1);
    let numbers: Vec<_> = journal
        .stored("a")
        .await
        .into_iter()
        .map(|(number, _)| number)
        .collect();
    assert_eq!(numbers, [1, 2, 3]);
}

#[tokio::test]
async fn a_slow_id_delays_no_other() {
    let journal = Controlled::gated();
    let persistence = persistence(&journal);
    let slow = Mini::spawn(&persistence, "slow").await.unwrap();
    let quick = Mini::spawn(&persistence, "quick").await.unwrap();
    journal.fate(Fate::Hangs);
    journal.let_through(1);
    let mut hanging = slow.send(Add(1));
    while journal.sizes().is_empty() {
        tokio::task::yield_now().await;
    }
    journal.let_through(100);
    for total in 1..10 {
        assert_eq!(quick.ask(Add(1)).await.unwrap(), total);
    }
    assert!(waits(&mut hanging));
}
