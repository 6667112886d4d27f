//! Stashed commands return to the head of the queue, in order, also where the state that was to wake them is lost.

use journal_core::{ErrorKind, PersistError};

use crate::common::*;

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
async fn stashed_commands_go_before_queued_ones_in_their_order() {
    let journal = Controlled::gated();
    let persistence = persistence(&journal);
    let actor = Mini::spawn(&persistence, "a").await.unwrap();
    let stashed = [1, 10].map(|amount| actor.send(AddOnce(100, amount)));
    let wakes = actor.send(AddAndUnstash(100));
    let queued = actor.send(Add(1_000));
    journal.let_through(100);
    assert_eq!(wakes.await.unwrap().unwrap(), 100);
    let [first, second] = stashed;
    assert_eq!(first.await.unwrap().unwrap(), 101);
    assert_eq!(second.await.unwrap().unwrap(), 111);
    assert_eq!(queued.await.unwrap().unwrap(), 1_111);
}

#[tokio::test]
async fn after_a_recovery_in_place_the_stash_is_handled_again_in_order() {
    for fate in [Fate::StoredButUnknown, Fate::LostButUnknown] {
        let stored = matches!(fate, Fate::StoredButUnknown);
        let journal = Controlled::open();
        let persistence = persistence(&journal);
        let actor = Mini::spawn(&persistence, "a").await.unwrap();
        let stashed = [1, 10].map(|amount| actor.send(AddOnce(100, amount)));
        // Its unstash is lost with its state, or was handled on a state that is gone.
        journal.fate(fate);
        let wakes = actor.ask(AddAndUnstash(100)).await;
        assert_eq!(wakes.is_ok(), stored);
        if !stored {
            assert_eq!(actor.ask(AddAndUnstash(100)).await.unwrap(), 100);
        }
        let mut answers = Vec::new();
        for reply in stashed {
            answers.push(reply.await.unwrap().map_err(|Failure(error)| error.outcome()));
        }
        // Handled behind the unstash they may be lost with it; each is answered, and what is acknowledged is stored.
        let sum: i64 = (answers.iter().zip([1, 10]))
            .map(|(answer, amount)| if answer.is_ok() { amount } else { 0 })
            .sum();
        assert_eq!(actor.ask(Get).await.unwrap(), 100 + sum);
    }
}

#[tokio::test]
async fn a_command_stashed_because_of_lost_state_is_woken() {
    let journal = Controlled::gated();
    let persistence = persistence(&journal);
    let actor = Mini::spawn(&persistence, "a").await.unwrap();
    let minus = actor.send(Add(-1));
    journal.append_entered().await;
    // On the newest state, -1, it must wait; on the recovered one, 0, it need not.
    let stashed = [actor.send(AddOnce(0, 5)), actor.send(AddOnce(0, 7))];
    handled(&actor).await;
    journal.fate(Fate::NotStored(ErrorKind::Closed));
    journal.let_through(100);
    let lost = minus.await.unwrap().unwrap_err().0;
    assert!(matches!(lost, PersistError::NotStored(_)), "{lost}");
    let [first, second] = stashed;
    assert_eq!(first.await.unwrap().unwrap(), 5);
    assert_eq!(second.await.unwrap().unwrap(), 12);
}

#[tokio::test]
async fn the_stash_counts_as_waiting() {
    let journal = Controlled::open();
    let persistence = persistence(&journal);
    let actor = Mini::spawn_with(&persistence, "a", |options| options.max_waiting(3))
        .await
        .unwrap();
    let stashed: Vec<_> = (0..3).map(|_| actor.send(StashUntil(1))).collect();
    let refused = actor.ask(StashUntil(1)).await.unwrap_err().0;
    let PersistError::Overloaded { waiting, .. } = refused else {
        panic!("{refused}")
    };
    assert_eq!(waiting, 3);
    assert_eq!(actor.admission.waiting(), 3);
    drop((stashed, actor.kill().await));
}
