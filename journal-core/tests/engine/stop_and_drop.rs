//! Stop, kill, panic and drop: what was handled is still written and answered, and the id is taken until then.

use journal_core::{ErrorKind, Operation, PersistError, Persistence, RecoveryError, adapter::Halt};
use tokio::runtime::Handle;

use crate::common::*;

#[tokio::test]
async fn a_stop_is_answered_and_due_only_once_all_before_it_is_durable() {
    let journal = Controlled::gated();
    let persistence = persistence(&journal);
    let actor = Mini::spawn(&persistence, "a").await.unwrap();
    let first = actor.send(Add(1));
    journal.append_entered().await;
    let mut stop = actor.send(Quit);
    others_run().await;
    assert!(stop.try_recv().is_err());
    assert!(!actor.task.is_finished());
    journal.let_through(1);
    assert_eq!(first.await.unwrap().unwrap(), 1);
    stop.await.unwrap().unwrap();
    assert_eq!(actor.task.await.unwrap().unwrap().total, 1);
}

#[tokio::test]
async fn commands_behind_a_stop_are_refused_at_once() {
    let journal = Controlled::gated();
    let persistence = persistence(&journal);
    let actor = Mini::spawn(&persistence, "a").await.unwrap();
    let stop = actor.send(Stop);
    let late = actor.send(Add(1)).await.unwrap().unwrap_err();
    assert!(matches!(late.0, PersistError::Stopped), "{late:?}");
    journal.let_through(1);
    stop.await.unwrap().unwrap();
    actor.task.await.unwrap().unwrap();
    assert_eq!(journal.stored("a").await.len(), 1);
}

#[tokio::test]
async fn a_stop_decided_on_lost_state_is_dropped() {
    let journal = Controlled::gated();
    let persistence = persistence(&journal);
    let actor = Mini::spawn(&persistence, "a").await.unwrap();
    let first = actor.send(Add(1));
    journal.append_entered().await;
    let stop = actor.send(Stop);
    others_run().await;
    journal.fate(Fate::NotStored(ErrorKind::Closed));
    journal.let_through(100);
    assert!(first.await.unwrap().is_err());
    let lost = stop.await.unwrap().unwrap_err();
    assert!(matches!(lost.0, PersistError::NotStored(_)), "{lost:?}");
    assert_eq!(actor.ask(Add(2)).await.unwrap(), 2);
    assert_eq!(actor.end().await.unwrap().total, 2);
}

#[tokio::test]
async fn a_graceful_end_waits_for_what_was_handled() {
    let journal = Controlled::gated();
    let persistence = persistence(&journal);
    let actor = Mini::spawn(&persistence, "a").await.unwrap();
    let first = actor.send(Add(1));
    journal.append_entered().await;
    let second = actor.send(Add(1));
    let end = Handle::current().spawn(actor.end());
    tokio::task::yield_now().await;
    assert!(!end.is_finished());
    journal.let_through(2);
    assert_eq!(end.await.unwrap().unwrap().total, 2);
    assert_eq!(first.await.unwrap().unwrap(), 1);
    assert_eq!(second.await.unwrap().unwrap(), 2);
    gone(&persistence, "a").await;
}

#[tokio::test]
async fn a_killed_actor_is_still_written_and_answered_before_a_successor_claims() {
    let journal = Controlled::gated();
    let persistence = persistence(&journal);
    let actor = Mini::spawn(&persistence, "a").await.unwrap();
    let first = actor.send(Add(1));
    journal.append_entered().await;
    let (second, read, runs) = (actor.send(Add(1)), actor.send(Get), actor.send(Run("ran")));
    handled(&actor).await;
    let mut told = actor.kill().await;
    let successor = {
        let persistence = persistence.clone();
        Handle::current().spawn(async move { Mini::spawn(&persistence, "a").await })
    };
    others_run().await;
    assert_eq!(*journal.claims.lock().unwrap(), 1);
    assert!(persistence.is_live(&pid("a")));
    journal.let_through(100);
    assert_eq!(first.await.unwrap().unwrap(), 1);
    assert_eq!(second.await.unwrap().unwrap(), 2);
    assert_eq!(read.await.unwrap().unwrap(), 2);
    runs.await.unwrap().unwrap();
    let effect = loop {
        if let Told::Effect(effect) = told.recv().await.unwrap() {
            break effect;
        }
    };
    assert_eq!(effect, "ran 3");
    let successor = successor.await.unwrap().unwrap();
    assert_eq!(successor.ask(Get).await.unwrap(), 3);
}

#[tokio::test]
async fn a_kill_loses_commands_that_were_not_handled() {
    let journal = Controlled::open();
    let persistence = persistence(&journal);
    let actor = Mini::spawn(&persistence, "a").await.unwrap();
    let stashed = actor.send(StashUntil(100));
    handled(&actor).await;
    let unhandled = actor.send(Add(1));
    actor.kill().await;
    assert!(stashed.await.is_err());
    assert!(unhandled.await.is_err());
    gone(&persistence, "a").await;
    assert!(journal.stored("a").await.is_empty());
}

#[tokio::test]
async fn a_kill_while_recovering_gives_permit_and_id_back() {
    let journal = Controlled::open();
    let persistence = persistence(&journal);
    for operation in [Operation::Claim, Operation::Replay] {
        let actor = Mini::spawn(&persistence, "a").await.unwrap();
        actor.ask(AddAll(vec![1, 2])).await.unwrap();
        actor.end().await.unwrap();
        gone(&persistence, "a").await;
        journal.trouble(operation, Trouble::Hangs);
        let recovering = {
            let persistence = persistence.clone();
            Handle::current().spawn(async move { Mini::spawn(&persistence, "a").await.err() })
        };
        while persistence.available_permits() == Persistence::DEFAULT_PERMITS {
            tokio::task::yield_now().await;
        }
        others_run().await;
        recovering.abort();
        assert!(recovering.await.unwrap_err().is_cancelled());
        assert_eq!(persistence.available_permits(), Persistence::DEFAULT_PERMITS);
        assert!(!persistence.is_live(&pid("a")));
    }
}

#[tokio::test]
async fn a_second_actor_of_a_live_id_is_refused() {
    let journal = Controlled::open();
    let persistence = persistence(&journal);
    let first = Mini::spawn(&persistence, "a").await.unwrap();
    let second = Mini::spawn(&persistence, "a").await.err().unwrap();
    assert!(matches!(second, RecoveryError::AlreadyLive { .. }), "{second}");
    assert_eq!(first.ask(Add(1)).await.unwrap(), 1);
}

#[tokio::test]
async fn when_the_actor_must_end_everyone_who_waits_is_refused() {
    let journal = Controlled::gated();
    let persistence = persistence(&journal);
    let actor = Mini::spawn(&persistence, "a").await.unwrap();
    let stashed = actor.send(StashUntil(100));
    let failing = actor.send(Add(1));
    journal.append_entered().await;
    handled(&actor).await;
    journal.fate(Fate::NotStored(ErrorKind::Closed));
    journal.trouble(Operation::Claim, Trouble::Fails);
    journal.let_through(1);
    assert!(failing.await.unwrap().is_err());
    let refused = stashed.await.expect("it is answered").unwrap_err();
    assert!(
        matches!(refused.0, PersistError::RecoveryFailed(_)),
        "{refused:?}"
    );
    assert!(matches!(actor.task.await.unwrap(), Err(Halt::RecoveryFailed(_))));
    gone(&persistence, "a").await;
}

#[tokio::test]
async fn a_shutdown_waits_for_the_last_write_and_refuses_new_actors() {
    let journal = Controlled::gated();
    let persistence = persistence(&journal);
    let actor = Mini::spawn(&persistence, "a").await.unwrap();
    let reply = actor.send(Add(1));
    journal.append_entered().await;
    actor.kill().await;
    let shutdown = {
        let persistence = persistence.clone();
        Handle::current().spawn(async move { persistence.shutdown().await })
    };
    others_run().await;
    assert!(!shutdown.is_finished());
    let late = Mini::spawn(&persistence, "b").await.err().unwrap();
    assert!(matches!(late, RecoveryError::Closed), "{late}");
    journal.let_through(1);
    assert_eq!(reply.await.unwrap().unwrap(), 1);
    shutdown.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_stop_found_to_be_stored_holds_for_the_commands_behind_it() {
    let journal = Controlled::open();
    let persistence = persistence(&journal);
    let actor = Mini::spawn(&persistence, "a").await.unwrap();
    let stashed = actor.send(AddOnce(5, 10));
    journal.fate(Fate::StoredButUnknown);
    actor.ask(RunAndStop).await.unwrap();
    let refused = stashed.await.expect("it is answered").unwrap_err();
    assert!(matches!(refused.0, PersistError::Stopped), "{refused:?}");
    actor.task.await.unwrap().unwrap();
    assert_eq!(journal.stored("a").await, [(1, Happened::Added(5))]);
}
