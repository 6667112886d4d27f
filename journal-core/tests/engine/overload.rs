//! What waits at one actor is bounded by count and bytes; beyond that callers are refused at once.

use journal_core::{
    PersistError,
    adapter::{Admission, BoxedCommand, NoPort},
};

use crate::common::*;

#[tokio::test]
async fn beyond_the_bound_of_commands_they_are_refused_at_once_and_nothing_of_them_is_done() {
    let journal = Controlled::gated();
    let persistence = persistence(&journal);
    let actor = Mini::spawn_with(&persistence, "a", |options| options.max_waiting(10))
        .await
        .unwrap();
    let mut replies: Vec<_> = (0..100).map(|_| actor.send(Add(1))).collect();
    for refused in replies.drain(10..) {
        let refused = refused.await.unwrap().unwrap_err().0;
        assert!(
            matches!(refused, PersistError::Overloaded { waiting: 10, .. }),
            "{refused}"
        );
    }
    assert_eq!(actor.admission.waiting(), 10);
    journal.let_through(100);
    for (reply, total) in replies.into_iter().zip(1..) {
        assert_eq!(reply.await.unwrap().unwrap(), total);
    }
    assert_eq!(actor.admission.waiting(), 0);
    assert_eq!(actor.ask(Add(1)).await.unwrap(), 11);
    assert_eq!(journal.stored("a").await.len(), 11);
}

#[tokio::test]
async fn beyond_the_bound_of_bytes_they_are_refused_at_once() {
    let journal = Controlled::gated();
    let persistence = persistence(&journal);
    let actor = Mini::spawn_with(&persistence, "a", |options| options.max_waiting_bytes(1_000))
        .await
        .unwrap();
    let note = || Note("x".repeat(100));
    let first = actor.send(note());
    journal.append_entered().await;
    let mut replies: Vec<_> = (0..50).map(|_| actor.send(note())).collect();
    let refused = replies.pop().unwrap().await.unwrap().unwrap_err().0;
    let PersistError::Overloaded { bytes, .. } = refused else {
        panic!("{refused}")
    };
    assert!((1_001..1_200).contains(&bytes), "{bytes}");
    journal.let_through(100);
    first.await.unwrap().unwrap();
    let mut stored = 1;
    for reply in replies {
        stored += usize::from(reply.await.unwrap().is_ok());
    }
    assert!((8..12).contains(&stored), "{stored}");
    assert_eq!(journal.stored("a").await.len(), stored);
}

#[tokio::test]
async fn each_answered_failed_or_lost_command_gives_its_place_back() {
    let journal = Controlled::gated();
    let persistence = persistence(&journal);
    let actor = Mini::spawn(&persistence, "a").await.unwrap();
    let first = actor.send(Add(1));
    journal.append_entered().await;
    let stashed = actor.send(StashUntil(100));
    drop(actor.send(Tell(1)));
    let panicking = actor.send(PanicInApply);
    others_run().await;
    assert!(actor.admission.waiting() >= 3);
    journal.fate(Fate::LostButUnknown);
    journal.let_through(100);
    assert!(first.await.unwrap().is_err());
    assert!(panicking.await.unwrap().is_err());
    let admission = actor.admission.clone();
    actor.ask(Get).await.unwrap();
    assert_eq!(admission.waiting(), 1);
    actor.kill().await;
    assert!(stashed.await.is_err());
    assert_eq!(admission.waiting(), 0);
}

#[test]
fn a_command_is_admitted_once() {
    let admission = Admission::new(1);
    let command = BoxedCommand::<Summing>::new(Add(1), NoPort)
        .admit(&admission)
        .unwrap();
    let command = command.admit(&admission).unwrap();
    assert_eq!(admission.waiting(), 1);
    let (refused, error) = BoxedCommand::<Summing>::new(Add(1), NoPort)
        .admit(&admission)
        .unwrap_err();
    assert!(
        matches!(error, PersistError::Overloaded { waiting: 1, .. }),
        "{error}"
    );
    drop((command, refused));
    assert_eq!(admission.waiting(), 0);
}
