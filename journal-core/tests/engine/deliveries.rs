//! A delivery is recorded with its command's events, sent once they are durable, and again until its confirmation is
//! durable too.

use std::{
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use bytes::Bytes;
use journal_core::{
    AtomicWrite, Backoff, CodecId, Command, DeliveryId, EncodedEvent, ErrorKind, Handles, Journal, Manifest,
    MemoryJournal, Operation, Options, PersistError, Persistence, Persistent, RecoveryError, Redelivery,
    SequenceNr, Signal, Timestamp, WriterId,
    adapter::{self, BoxedCommand, Engine},
};
use tokio::{
    runtime::Handle,
    sync::{
        mpsc::{UnboundedReceiver, unbounded_channel},
        oneshot,
    },
    time::{Instant, sleep},
};

use crate::common::*;

/// Waits of 5, 10 and 15 s, and no further attempt.
const WAITS: Redelivery = Redelivery {
    backoff: Backoff {
        shortest: Duration::from_secs(5),
        longest: Duration::from_secs(15),
    },
    attempts: 3,
    max_unconfirmed: 4,
};

const HOUR: Duration = Duration::from_secs(3_600);

async fn delivering(persistence: &Persistence) -> Mini {
    Mini::spawn_with(persistence, "a", delivers).await.unwrap()
}

fn delivers(options: Persistent<Summing>) -> Persistent<Summing> {
    options.delivers().redelivery(WAITS)
}

fn parcel(number: i64) -> Parcel {
    Parcel::Holding(number)
}

fn given_up(signal: &Signal) -> Option<(u64, u32)> {
    match signal {
        Signal::DeliveryGivenUp { id, attempts, .. } => Some((id.get(), *attempts)),
        _ => None,
    }
}

fn recovered(signal: &Signal) -> Option<()> {
    matches!(signal, Signal::RecoveryCompleted { .. }).then_some(())
}

/// What is sent from now on, and after how many seconds.
async fn sent(actor: &mut Mini, number: usize) -> Vec<(u64, u64)> {
    let start = Instant::now();
    let mut sent = Vec::new();
    for _ in 0..number {
        let (id, _) = actor.delivery().await;
        sent.push((id, start.elapsed().as_secs()));
    }
    sent
}

/// The test's clock is paused.
async fn nothing_is_sent(actor: &mut Mini) {
    sleep(HOUR).await;
    assert_eq!(actor.deliveries(), []);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_before_its_events_are_durable() {
    let journal = Controlled::gated();
    let persistence = on_this_runtime(Persistence::builder(journal.clone()));
    let mut actor = delivering(&persistence).await;
    let first = actor.send(AddAndDeliver(5, parcel(1)));
    journal.append_entered().await;
    let second = actor.send(Deliver(vec![parcel(2), parcel(3)]));
    nothing_is_sent(&mut actor).await;
    journal.let_through(1);
    assert_eq!(first.await.unwrap().unwrap(), 5);
    assert_eq!(actor.delivery().await, (2, parcel(1)));
    journal.append_entered().await;
    others_run().await;
    assert_eq!(actor.deliveries(), []);
    journal.let_through(1);
    second.await.unwrap().unwrap();
    assert_eq!(actor.delivery().await, (3, parcel(2)));
    assert_eq!(actor.delivery().await, (4, parcel(3)));
}

#[tokio::test]
async fn it_is_stored_with_the_events_of_its_command_and_its_id_is_its_number() {
    let journal = Controlled::open();
    let persistence = persistence(&journal);
    let mut actor = delivering(&persistence).await;
    actor.ask(Add(1)).await.unwrap();
    actor.ask(AddAndDeliver(5, parcel(7))).await.unwrap();
    actor.ask(Confirm(vec![3])).await.unwrap();
    assert_eq!(actor.ask(Add(1)).await.unwrap(), 7);
    assert_eq!(actor.delivery().await, (3, parcel(7)));
    let stored = [
        (1, Happened::Added(1)),
        (2, Happened::Added(5)),
        (3, Happened::Owed(parcel(7))),
        (4, Happened::Confirmed(3)),
        (5, Happened::Added(1)),
    ];
    assert_eq!(journal.stored("a").await, stored);
    assert_eq!(journal.sizes(), [vec![1], vec![2], vec![1], vec![1]]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn first_sendings_come_in_command_order_among_the_effects() {
    const COMMANDS: i64 = 500;
    let journal = Controlled::open();
    let persistence = persistence(&journal);
    let mut actor = Mini::spawn_with(&persistence, "a", |options| {
        options.delivers().redelivery(Redelivery {
            max_unconfirmed: 2 * usize::try_from(COMMANDS).unwrap(),
            ..Redelivery::DEFAULT
        })
    })
    .await
    .unwrap();
    let mut replies = Vec::new();
    for number in 0..COMMANDS {
        replies.push(actor.send(Deliver(vec![parcel(2 * number), parcel(2 * number + 1)])));
        replies.push(actor.send(Run("between")));
    }
    for reply in replies {
        reply.await.unwrap().unwrap();
    }
    for number in 0..COMMANDS {
        let mut between = 0;
        let mut next = Vec::new();
        while between == 0 {
            match actor.told.recv().await.unwrap() {
                Told::Delivery(_, parcel) => next.push(parcel),
                Told::Effect(_) => between += 1,
                Told::Signal(_) => {}
            }
        }
        assert_eq!(next, [parcel(2 * number), parcel(2 * number + 1)]);
    }
}

#[tokio::test(start_paused = true)]
async fn it_is_sent_again_after_waits_that_double_up_to_the_longest_and_then_given_up() {
    let journal = Controlled::open();
    let persistence = on_this_runtime(Persistence::builder(journal.clone()));
    let mut actor = delivering(&persistence).await;
    let start = Instant::now();
    actor.ask(Deliver(vec![parcel(1)])).await.unwrap();
    sleep(Duration::from_secs(2)).await;
    actor.ask(Deliver(vec![parcel(2)])).await.unwrap();
    let mut seen = Vec::new();
    for _ in 0..8 {
        let told = loop {
            match actor.told.recv().await.unwrap() {
                Told::Delivery(id, parcel) => break format!("{id} {parcel:?}"),
                Told::Signal(signal) => match given_up(&signal) {
                    Some((id, attempts)) => break format!("{id} given up after {attempts}"),
                    None => continue,
                },
                Told::Effect(_) => continue,
            }
        };
        seen.push((start.elapsed().as_secs(), told));
    }
    let expected = [
        (2, "1 Holding(1)"),
        (2, "2 Holding(2)"),
        (5, "1 Holding(1)"),
        (7, "2 Holding(2)"),
        (15, "1 Holding(1)"),
        (17, "2 Holding(2)"),
        (30, "1 given up after 3"),
        (32, "2 given up after 3"),
    ];
    // The first one was sent at once; it was only looked at after two seconds.
    assert_eq!(seen, expected.map(|(at, told)| (at, told.to_owned())));
    nothing_is_sent(&mut actor).await;
}

#[tokio::test(start_paused = true)]
async fn one_that_was_given_up_is_kept_and_sent_again_by_the_next_recovery() {
    let journal = Controlled::open();
    let persistence = on_this_runtime(Persistence::builder(journal.clone()));
    let mut actor = delivering(&persistence).await;
    actor.ask(Deliver(vec![parcel(1)])).await.unwrap();
    assert_eq!(actor.signal(given_up).await, (1, 3));
    actor.end().await.unwrap();
    let mut actor = delivering(&persistence).await;
    assert_eq!(sent(&mut actor, 3).await, [(1, 0), (1, 5), (1, 15)]);
    assert_eq!(actor.signal(given_up).await, (1, 3));
    actor.ask(Confirm(vec![1])).await.unwrap();
    actor.end().await.unwrap();
    let mut actor = delivering(&persistence).await;
    nothing_is_sent(&mut actor).await;
}

#[tokio::test(start_paused = true)]
async fn a_confirmation_counts_once_it_is_durable_and_then_for_ever() {
    let journal = Controlled::gated();
    let persistence = on_this_runtime(Persistence::builder(journal.clone()));
    let mut actor = delivering(&persistence).await;
    journal.let_through(1);
    actor.ask(Deliver(vec![parcel(1), parcel(2)])).await.unwrap();
    assert_eq!(sent(&mut actor, 2).await, [(1, 0), (2, 0)]);
    let confirmed = actor.send(Confirm(vec![1]));
    journal.append_entered().await;
    assert_eq!(sent(&mut actor, 2).await, [(1, 5), (2, 5)]);
    journal.let_through(1);
    confirmed.await.unwrap().unwrap();
    assert_eq!(sent(&mut actor, 1).await, [(2, 10)]);
    nothing_is_sent(&mut actor).await;
    journal.let_through(1);
    actor.kill().await;
    gone(&persistence, "a").await;
    let mut actor = delivering(&persistence).await;
    assert_eq!(sent(&mut actor, 1).await, [(2, 0)]);
}

#[tokio::test(start_paused = true)]
async fn a_confirmation_that_is_lost_leaves_the_delivery_unconfirmed() {
    let journal = Controlled::open();
    let persistence = on_this_runtime(Persistence::builder(journal.clone()));
    let mut actor = delivering(&persistence).await;
    actor.ask(Deliver(vec![parcel(1)])).await.unwrap();
    assert_eq!(sent(&mut actor, 1).await, [(1, 0)]);
    journal.fate(Fate::NotStored(ErrorKind::Closed));
    let refused = actor.ask(Confirm(vec![1])).await.unwrap_err().0;
    assert!(matches!(refused, PersistError::NotStored(_)), "{refused}");
    // The recovery in place.
    assert_eq!(sent(&mut actor, 2).await, [(1, 0), (1, 5)]);
    actor.ask(Confirm(vec![1])).await.unwrap();
    nothing_is_sent(&mut actor).await;
}

#[tokio::test]
async fn to_confirm_again_or_what_is_unknown_stores_nothing() {
    let journal = Controlled::open();
    let persistence = persistence(&journal);
    let actor = delivering(&persistence).await;
    actor.ask(Deliver(vec![parcel(1), parcel(2)])).await.unwrap();
    actor.ask(Confirm(vec![2, 2, 3, 0, u64::MAX])).await.unwrap();
    actor.ask(Confirm(vec![2])).await.unwrap();
    assert_eq!(journal.stored("a").await.len(), 3);
    actor.end().await.unwrap();
    let actor = delivering(&persistence).await;
    actor.ask(Confirm(vec![2])).await.unwrap();
    actor.ask(Confirm(vec![1])).await.unwrap();
    assert_eq!(journal.stored("a").await.len(), 4);
    // An actor that does not deliver has none to confirm.
    actor.end().await.unwrap();
    let actor = Mini::spawn(&persistence, "a").await.unwrap();
    actor.ask(Confirm(vec![1])).await.unwrap();
    assert_eq!(journal.stored("a").await.len(), 4);
}

#[tokio::test(start_paused = true)]
async fn what_is_unconfirmed_is_sent_again_by_the_next_life_before_what_is_new() {
    let journal = Controlled::open();
    let persistence = on_this_runtime(Persistence::builder(journal.clone()));
    let actor = delivering(&persistence).await;
    actor.ask(AddAndDeliver(5, parcel(1))).await.unwrap();
    actor.ask(Deliver(vec![parcel(2), parcel(3)])).await.unwrap();
    actor.ask(Confirm(vec![3])).await.unwrap();
    actor.end().await.unwrap();
    let mut actor = delivering(&persistence).await;
    assert_eq!(actor.ask(Get).await.unwrap(), 5);
    actor.ask(Deliver(vec![parcel(4)])).await.unwrap();
    others_run().await;
    assert_eq!(
        actor.deliveries(),
        [(2, parcel(1)), (4, parcel(3)), (6, parcel(4))]
    );
}

#[tokio::test(start_paused = true)]
async fn what_a_killed_actor_had_handled_is_sent_by_the_next_one() {
    let journal = Controlled::gated();
    let persistence = on_this_runtime(Persistence::builder(journal.clone()));
    others_run().await;
    let tasks = Handle::current().metrics().num_alive_tasks();
    let actor = delivering(&persistence).await;
    drop(actor.send(Deliver(vec![parcel(1)])));
    journal.append_entered().await;
    drop(actor.send(Deliver(vec![parcel(2)])));
    handled(&actor).await;
    let mut told = actor.kill().await;
    journal.let_through(2);
    gone(&persistence, "a").await;
    // Nobody keeps the time for the dead.
    assert_eq!(Handle::current().metrics().num_alive_tasks(), tasks);
    // Released like any effect of what was handled, but never again by this life.
    sleep(HOUR).await;
    assert_eq!(deliveries(&mut told), [(1, parcel(1)), (2, parcel(2))]);
    let mut actor = delivering(&persistence).await;
    assert_eq!(sent(&mut actor, 2).await, [(1, 0), (2, 0)]);
}

#[tokio::test(start_paused = true)]
async fn what_is_recorded_last_is_sent_also_when_the_actor_ends_right_after() {
    let journal = Controlled::open();
    let persistence = on_this_runtime(Persistence::builder(journal.clone()));
    let mut actor = delivering(&persistence).await;
    drop(actor.send(Deliver(vec![parcel(1)])));
    let mut told = std::mem::replace(&mut actor.told, unbounded_channel().1);
    actor.end().await.unwrap();
    gone(&persistence, "a").await;
    assert_eq!(deliveries(&mut told), [(1, parcel(1))]);
}

#[tokio::test(start_paused = true)]
async fn what_is_recorded_with_a_stop_is_sent_before_it() {
    let journal = Controlled::open();
    let persistence = on_this_runtime(Persistence::builder(journal.clone()));
    let mut actor = delivering(&persistence).await;
    drop(actor.send(Deliver(vec![parcel(1)])));
    actor.ask(Stop).await.unwrap();
    assert_eq!(actor.delivery().await, (1, parcel(1)));
    (&mut actor.task).await.unwrap().unwrap();
    nothing_is_sent(&mut actor).await;
}

#[tokio::test(start_paused = true)]
async fn a_recovery_in_place_sends_what_is_unconfirmed_and_not_what_was_lost() {
    let journal = Controlled::open();
    let persistence = on_this_runtime(Persistence::builder(journal.clone()));
    let mut actor = delivering(&persistence).await;
    actor.ask(Deliver(vec![parcel(1)])).await.unwrap();
    assert_eq!(sent(&mut actor, 1).await, [(1, 0)]);
    journal.fate(Fate::NotStored(ErrorKind::Closed));
    actor.ask(Deliver(vec![parcel(2)])).await.unwrap_err();
    actor.signal(recovered).await;
    // The lost one's number is given to another.
    actor.ask(Deliver(vec![parcel(3)])).await.unwrap();
    assert_eq!(actor.delivery().await, (1, parcel(1)));
    assert_eq!(actor.delivery().await, (2, parcel(3)));
    actor.ask(PanicInApply).await.unwrap_err();
    assert_eq!(sent(&mut actor, 4).await, [(1, 0), (2, 0), (1, 5), (2, 5)]);
}

#[tokio::test(start_paused = true)]
async fn one_of_unknown_outcome_is_sent_if_it_was_stored() {
    for (fate, sent) in [
        (
            Fate::StoredButUnknown,
            vec![(1, parcel(1)), (1, parcel(1)), (2, parcel(2))],
        ),
        (Fate::LostButUnknown, vec![(1, parcel(2))]),
    ] {
        let journal = Controlled::open();
        let persistence = on_this_runtime(Persistence::builder(journal.clone()));
        let mut actor = delivering(&persistence).await;
        journal.fate(fate.clone());
        let stored = actor.ask(Deliver(vec![parcel(1)])).await.is_ok();
        assert_eq!(stored, matches!(fate, Fate::StoredButUnknown));
        actor.ask(Deliver(vec![parcel(2)])).await.unwrap();
        others_run().await;
        // Once with its command, and once by the recovery that found it.
        assert_eq!(actor.deliveries(), sent, "{fate:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn while_it_is_unknown_what_is_stored_nothing_is_sent() {
    let journal = Controlled::open();
    let persistence = on_this_runtime(Persistence::builder(journal.clone()));
    let mut actor = Mini::spawn_with(&persistence, "a", |options| {
        delivers(options).recovery_idle_timeout(10 * HOUR)
    })
    .await
    .unwrap();
    actor.ask(Deliver(vec![parcel(1)])).await.unwrap();
    assert_eq!(sent(&mut actor, 1).await, [(1, 0)]);
    journal.fate(Fate::StoredButUnknown);
    journal.trouble(Operation::Claim, Trouble::Hangs);
    let unknown = actor.ask(Confirm(vec![1])).await.unwrap_err().0;
    assert!(matches!(unknown, PersistError::Unknown(_)), "{unknown}");
    nothing_is_sent(&mut actor).await;
}

#[tokio::test(start_paused = true)]
async fn a_fenced_actor_sends_nothing_more() {
    for fate in [Fate::FencedBefore, Fate::StoredThenFenced, Fate::FencedUnknown] {
        let journal = Controlled::open();
        let persistence = on_this_runtime(Persistence::builder(journal.clone()));
        let mut actor = delivering(&persistence).await;
        actor.ask(Deliver(vec![parcel(1)])).await.unwrap();
        assert_eq!(actor.delivery().await, (1, parcel(1)));
        journal.fate(fate.clone());
        drop(actor.ask(Deliver(vec![parcel(2)])).await);
        nothing_is_sent(&mut actor).await;
        (&mut actor.task).await.unwrap().unwrap_err();
        nothing_is_sent(&mut actor).await;
    }
}

#[tokio::test]
async fn an_actor_that_was_not_set_up_to_deliver_refuses_and_says_what_to_write() {
    let journal = Controlled::open();
    let persistence = persistence(&journal);
    let actor = Mini::spawn(&persistence, "a").await.unwrap();
    let refused = actor.ask(AddAndDeliver(5, parcel(1))).await.unwrap_err().0;
    assert!(matches!(refused, PersistError::NotDelivering), "{refused}");
    assert!(refused.to_string().contains(".delivers()"), "{refused}");
    assert_eq!(actor.ask(Get).await.unwrap(), 0);
    assert_eq!(actor.ask(Add(1)).await.unwrap(), 1);
    assert_eq!(journal.stored("a").await, [(1, Happened::Added(1))]);
}

#[tokio::test]
async fn an_actor_that_was_not_set_up_to_deliver_does_not_recover_with_unconfirmed_deliveries() {
    let (journal, snapshots) = (Controlled::open(), Snapshots::new());
    let persistence = with_snapshots(&journal, &snapshots);
    let refused = async |unconfirmed| {
        let failed = Mini::spawn(&persistence, "a").await.err().unwrap();
        let RecoveryError::NotDelivering {
            id,
            unconfirmed: count,
            ..
        } = &failed
        else {
            panic!("{failed}")
        };
        assert_eq!((id, *count), (&pid("a"), unconfirmed));
        assert!(failed.to_string().contains(".delivers()"), "{failed}");
    };
    let actor = delivering(&persistence).await;
    actor.ask(Deliver(vec![parcel(1), parcel(2)])).await.unwrap();
    actor.end().await.unwrap();
    refused(2).await;
    let mut actor = delivering(&persistence).await;
    actor.ask(Confirm(vec![1])).await.unwrap();
    take_snapshot(&mut actor).await;
    actor.end().await.unwrap();
    refused(1).await;
    let actor = delivering(&persistence).await;
    actor.ask(Confirm(vec![2])).await.unwrap();
    actor.end().await.unwrap();
    let actor = Mini::spawn(&persistence, "a").await.unwrap();
    assert_eq!(actor.ask(Add(1)).await.unwrap(), 1);
}

async fn take_snapshot(actor: &mut Mini) {
    actor.ask(TakeSnapshot).await.unwrap();
    actor
        .signal(|signal| matches!(signal, Signal::SnapshotSaved(_)).then_some(()))
        .await;
}

#[tokio::test]
async fn a_command_beyond_the_most_unconfirmed_is_refused_before_anything_is_applied() {
    let journal = Controlled::open();
    let persistence = persistence(&journal);
    let mut actor = delivering(&persistence).await;
    actor
        .ask(Deliver(vec![parcel(1), parcel(2), parcel(3)]))
        .await
        .unwrap();
    let refused = actor
        .ask(Deliver(vec![parcel(4), parcel(5)]))
        .await
        .unwrap_err()
        .0;
    let PersistError::TooManyUnconfirmed {
        unconfirmed: 3,
        limit: 4,
        ..
    } = refused
    else {
        panic!("{refused}")
    };
    assert_eq!(actor.ask(AddAndDeliver(5, parcel(4))).await.unwrap(), 5);
    actor.ask(AddAndDeliver(5, parcel(5))).await.unwrap_err();
    assert_eq!(actor.ask(Get).await.unwrap(), 5);
    assert_eq!(actor.ask(Add(1)).await.unwrap(), 6);
    // A confirmation makes room, also before it is durable, and in the same command.
    actor.ask(Confirm(vec![1])).await.unwrap();
    actor.ask(Deliver(vec![parcel(6)])).await.unwrap();
    actor
        .ask(Exchange(vec![2, 3], vec![parcel(7), parcel(8)]))
        .await
        .unwrap();
    actor.ask(Exchange(vec![2], vec![parcel(9)])).await.unwrap_err();
    let numbers: Vec<_> = journal
        .stored("a")
        .await
        .iter()
        .map(|(number, _)| *number)
        .collect();
    assert_eq!(numbers, (1..=12).collect::<Vec<_>>());
    let sent: Vec<_> = actor.deliveries().into_iter().map(|(_, parcel)| parcel).collect();
    assert_eq!(sent, [1, 2, 3, 4, 6, 7, 8].map(parcel));
}

#[tokio::test(start_paused = true)]
async fn a_recovery_takes_more_than_may_be_unconfirmed_by_now() {
    let journal = Controlled::open();
    let persistence = on_this_runtime(Persistence::builder(journal.clone()));
    let actor = delivering(&persistence).await;
    actor
        .ask(Deliver(vec![parcel(1), parcel(2), parcel(3)]))
        .await
        .unwrap();
    actor.end().await.unwrap();
    let mut actor = Mini::spawn_with(&persistence, "a", |options| {
        options.delivers().redelivery(Redelivery {
            max_unconfirmed: 1,
            ..WAITS
        })
    })
    .await
    .unwrap();
    assert_eq!(sent(&mut actor, 3).await, [(1, 0), (2, 0), (3, 0)]);
    actor.ask(Deliver(vec![parcel(4)])).await.unwrap_err();
    // Also where too many are left.
    actor.ask(Confirm(vec![1])).await.unwrap();
    actor.ask(Exchange(vec![2], vec![parcel(4)])).await.unwrap_err();
    actor.ask(Exchange(vec![2, 3], vec![parcel(4)])).await.unwrap();
}

#[tokio::test]
async fn a_refused_command_delivers_nothing_and_confirms_nothing() {
    let journal = Arc::new(Controlled::new(MemoryJournal::new().with_limits(200, 1_000)));
    let persistence = persistence(&journal);
    let mut actor = delivering(&persistence).await;
    actor.ask(Deliver(vec![parcel(1)])).await.unwrap();
    for parcels in [
        vec![parcel(2), Parcel::Unencodable],
        vec![parcel(2), Parcel::Undecodable],
        vec![parcel(2), Parcel::Large("x".repeat(300))],
    ] {
        let refused = actor.ask(Exchange(vec![1], parcels)).await.unwrap_err().0;
        let PersistError::Rejected(cause) = &refused else {
            panic!("{refused}")
        };
        assert_eq!(cause.persistence_id(), Some(&pid("a")));
    }
    assert_eq!(actor.ask(Add(1)).await.unwrap(), 1);
    assert_eq!(actor.deliveries(), [(1, parcel(1))]);
    actor.ask(Confirm(vec![1])).await.unwrap();
    let stored = [
        (1, Happened::Owed(parcel(1))),
        (2, Happened::Added(1)),
        (3, Happened::Confirmed(1)),
    ];
    assert_eq!(journal.stored("a").await, stored);
    assert_eq!(*journal.claims.lock().unwrap(), 1);
}

#[tokio::test]
async fn to_restart_from_here_is_refused_while_something_is_unconfirmed() {
    let journal = Controlled::open();
    let persistence = persistence(&journal);
    let mut actor = delivering(&persistence).await;
    actor.ask(Deliver(vec![parcel(1)])).await.unwrap();
    let refused = actor.ask(Restart).await.unwrap_err().0;
    assert!(matches!(refused, PersistError::NotInitialState), "{refused}");
    let refused = actor
        .ask(ConfirmAndRestart(vec![], vec![parcel(2)]))
        .await
        .unwrap_err()
        .0;
    assert!(matches!(refused, PersistError::NotInitialState), "{refused}");
    actor.ask(ConfirmAndRestart(vec![1], vec![])).await.unwrap();
    actor
        .signal(|signal| matches!(signal, Signal::EventsDeleted(_)).then_some(()))
        .await;
    assert_eq!(journal.stored("a").await, []);
    actor.ask(Deliver(vec![parcel(2)])).await.unwrap();
    assert_eq!(actor.delivery().await, (4, parcel(2)));
    actor.end().await.unwrap();
    let mut actor = delivering(&persistence).await;
    assert_eq!(actor.delivery().await, (4, parcel(2)));
}

#[tokio::test(start_paused = true)]
async fn retention_deletes_their_events_and_loses_none() {
    let (journal, snapshots) = (Controlled::open(), Snapshots::new());
    let persistence = on_this_runtime(builder_with(&journal, &snapshots));
    let retaining = |options| delivers(options).snapshot_every(5).keep(1).delete_events();
    let mut actor = Mini::spawn_with(&persistence, "a", retaining).await.unwrap();
    actor.ask(Deliver(vec![parcel(1), parcel(2)])).await.unwrap();
    for round in 1..4 {
        actor.ask(AddAll(vec![1; 5])).await.unwrap();
        actor
            .signal(|signal| matches!(signal, Signal::SnapshotsDeleted).then_some(()))
            .await;
        assert_eq!(journal.bounds_of("a").await.deleted_to.get(), 2 + 5 * round);
    }
    actor.ask(Confirm(vec![1])).await.unwrap();
    actor.end().await.unwrap();
    for _ in 0..2 {
        let mut actor = Mini::spawn_with(&persistence, "a", retaining).await.unwrap();
        assert_eq!(actor.delivery().await, (2, parcel(2)));
        assert_eq!(actor.ask(Get).await.unwrap(), 15);
        actor.end().await.unwrap();
    }
}

#[tokio::test]
async fn a_snapshot_has_the_delivery_of_its_own_command() {
    let (journal, snapshots) = (Controlled::open(), Snapshots::new());
    let persistence = with_snapshots(&journal, &snapshots);
    let mut actor = delivering(&persistence).await;
    actor.ask(DeliverAndSnapshot(parcel(1))).await.unwrap();
    actor
        .signal(|signal| matches!(signal, Signal::SnapshotSaved(_)).then_some(()))
        .await;
    actor.end().await.unwrap();
    gone(&persistence, "a").await;
    journal.delete(&pid("a"), 1, false).await;
    let mut actor = delivering(&persistence).await;
    assert_eq!(actor.delivery().await, (1, parcel(1)));
}

#[tokio::test]
async fn a_damaged_snapshot_gives_way_to_the_events() {
    let (journal, snapshots) = (Controlled::open(), Snapshots::new());
    let persistence = with_snapshots(&journal, &snapshots);
    let mut actor = delivering(&persistence).await;
    actor.ask(Deliver(vec![parcel(1)])).await.unwrap();
    take_snapshot(&mut actor).await;
    actor.end().await.unwrap();
    snapshots.fault(Call::Load, Fault::Garbles);
    let mut actor = delivering(&persistence).await;
    assert_eq!(actor.delivery().await, (1, parcel(1)));
}

#[tokio::test]
async fn a_deletion_that_would_lose_one_is_refused() {
    let (journal, snapshots) = (Controlled::open(), Snapshots::new());
    let persistence = with_snapshots(&journal, &snapshots);
    let mut actor = Mini::spawn_with(&persistence, "a", |options| {
        delivers(options).accept_deleted_prefix()
    })
    .await
    .unwrap();
    actor.ask(Add(1)).await.unwrap();
    actor.ask(Deliver(vec![parcel(1)])).await.unwrap();
    actor.ask(DeleteTo(2)).await.unwrap();
    let error = actor
        .signal(|signal| match signal {
            Signal::EventsNotDeleted(error) => Some(error.clone()),
            _ => None,
        })
        .await;
    assert!(error.to_string().contains("no snapshot covers"), "{error}");
    for to in [1, 2] {
        if to == 2 {
            actor.ask(Confirm(vec![2])).await.unwrap();
        }
        actor.ask(DeleteTo(to)).await.unwrap();
        let deleted = actor
            .signal(|signal| match signal {
                Signal::EventsDeleted(to) => Some(to.get()),
                _ => None,
            })
            .await;
        assert_eq!(deleted, to);
    }
    // A confirmation of what was deleted before it is nothing to stumble over.
    actor.end().await.unwrap();
    let mut actor = Mini::spawn_with(&persistence, "a", |options| {
        delivers(options).accept_deleted_prefix()
    })
    .await
    .unwrap();
    assert_eq!(actor.ask(Get).await.unwrap(), 0);
    assert_eq!(actor.deliveries(), []);
}

#[tokio::test]
async fn a_stashed_command_delivers_once_it_is_handled() {
    let journal = Controlled::open();
    let persistence = persistence(&journal);
    let mut actor = delivering(&persistence).await;
    let stashed = actor.send(DeliverWhen(5, parcel(1)));
    handled(&actor).await;
    assert_eq!(journal.stored("a").await, []);
    actor.ask(AddAndUnstash(5)).await.unwrap();
    stashed.await.unwrap().unwrap();
    assert_eq!(actor.delivery().await, (2, parcel(1)));
    let stored = [(1, Happened::Added(5)), (2, Happened::Owed(parcel(1)))];
    assert_eq!(journal.stored("a").await, stored);
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_send_is_told_and_the_delivery_is_sent_again() {
    let journal = Controlled::open();
    let persistence = on_this_runtime(Persistence::builder(journal.clone()));
    let mut actor = delivering(&persistence).await;
    actor
        .ask(Deliver(vec![Parcel::Fragile, parcel(2)]))
        .await
        .unwrap();
    for (fragile, other) in [(1, 2), (1, 2)] {
        assert_eq!(actor.delivery().await.0, fragile);
        let message = actor
            .signal(|signal| match signal {
                Signal::EffectPanicked(message) => Some(message.clone()),
                _ => None,
            })
            .await;
        assert!(message.contains("sending panics"), "{message}");
        assert_eq!(actor.delivery().await.0, other);
    }
    assert_eq!(actor.ask(Add(1)).await.unwrap(), 1);
    assert_eq!(*journal.claims.lock().unwrap(), 1);
}

#[tokio::test]
async fn sending_is_no_business_of_the_hub() {
    let journal = Controlled::open();
    let persistence = persistence(&journal);
    let hooks = Hooks {
        send: Some(Arc::new(|_, _| {
            assert!(
                !thread::current()
                    .name()
                    .is_some_and(|name| name.starts_with("journal-"))
            );
        })),
        ..Hooks::default()
    };
    let mut actor = Mini::spawn_hooked(&persistence, "a", hooks, delivers)
        .await
        .unwrap();
    actor.ask(Deliver(vec![parcel(1)])).await.unwrap();
    actor.ask(Run("done")).await.unwrap();
    while let Ok(told) = actor.told.try_recv() {
        if let Told::Signal(signal) = told {
            assert!(!matches!(signal, Signal::EffectPanicked(_)), "{signal:?}");
        }
    }
}

/// Puts an event of the engine there as another version of it would.
async fn plant(journal: &Controlled, manifest: &'static str, version: u32, payload: &[u8]) {
    let event = EncodedEvent {
        payload: Bytes::copy_from_slice(payload),
        codec: CodecId(0),
        manifest: Manifest::from_static(manifest),
        schema_version: version,
        timestamp: Timestamp(0),
        tags: Vec::new(),
        metadata: Bytes::new(),
    };
    let journal = &journal.inner;
    let mut claim = Journal::claim(journal, &pid("a"), WriterId::random())
        .await
        .unwrap();
    let highest = claim.highest();
    let writes = Arc::new([AtomicWrite::from(event)]);
    Journal::append(journal, &mut claim, highest, writes)
        .await
        .unwrap();
}

#[tokio::test]
async fn an_older_delivery_goes_through_its_upcaster() {
    let journal = Controlled::open();
    plant(
        &journal,
        "actor-journal/deliver",
        1,
        b"\x01\0\x01\0\0\0\x06\0parcel\x2a",
    )
    .await;
    let mut actor = delivering(&persistence(&journal)).await;
    assert_eq!(actor.delivery().await, (1, parcel(42)));
}

#[tokio::test]
async fn a_delivery_that_cannot_be_read_ends_the_recovery_unless_it_is_confirmed() {
    for (manifest, version, payload, says) in [
        // A newer version, another type and damaged bytes of the delivery.
        (
            "actor-journal/deliver",
            1,
            &b"\x01\0\x03\0\0\0\x06\0parcel\x2a"[..],
            "newer",
        ),
        (
            "actor-journal/deliver",
            1,
            b"\x01\0\x01\0\0\0\x06\0letter\x2a",
            "letter",
        ),
        (
            "actor-journal/deliver",
            1,
            b"\x01\0\x02\0\0\0\x06\0parcel\x2a",
            "parcel",
        ),
    ] {
        let journal = Controlled::open();
        plant(&journal, manifest, version, payload).await;
        let persistence = persistence(&journal);
        let failed = Mini::spawn_with(&persistence, "a", delivers).await.err().unwrap();
        let RecoveryError::Journal(error) = &failed else {
            panic!("{failed}")
        };
        assert_eq!(error.kind(), ErrorKind::Undecodable);
        assert_eq!(error.persistence_id(), Some(&pid("a")));
        assert_eq!(error.sequence_nr(), Some(SequenceNr::FIRST));
        assert!(error.to_string().contains(says), "{error}");
        plant(&journal, "actor-journal/confirm", 1, &1_u64.to_le_bytes()).await;
        delivering(&persistence).await;
    }
}

#[tokio::test]
async fn an_event_of_a_newer_engine_or_a_damaged_one_ends_every_recovery() {
    for (manifest, version, payload, says) in [
        (
            "actor-journal/deliver",
            2,
            &b"\x01\0\x02\0\0\0\x06\0parcel\x2a"[..],
            "upgrade",
        ),
        ("actor-journal/other", 1, b"", "upgrade"),
        (
            "actor-journal/deliver",
            1,
            b"\x01\0\x02\0\0\0\xff\xffparcel",
            "damaged",
        ),
        ("actor-journal/confirm", 1, b"\x01", "damaged"),
    ] {
        let journal = Controlled::open();
        plant(&journal, manifest, version, payload).await;
        let persistence = persistence(&journal);
        for options in [delivers, |options| options] {
            let failed = Mini::spawn_with(&persistence, "a", options).await.err().unwrap();
            let RecoveryError::Journal(error) = &failed else {
                panic!("{failed}")
            };
            assert_eq!(error.kind(), ErrorKind::Undecodable);
            assert_eq!(error.sequence_nr(), Some(SequenceNr::FIRST));
            let text = error.to_string();
            assert!(text.contains(says) && text.contains(manifest), "{text}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn one_task_keeps_the_time_and_only_while_confirmations_are_waited_for() {
    let journal = Controlled::open();
    let persistence = on_this_runtime(Persistence::builder(journal.clone()));
    let mut actor = delivering(&persistence).await;
    actor.ask(Add(1)).await.unwrap();
    let tasks = async || {
        others_run().await;
        Handle::current().metrics().num_alive_tasks()
    };
    let before = tasks().await;
    actor.ask(Deliver(vec![parcel(1), parcel(2)])).await.unwrap();
    actor.ask(Deliver(vec![parcel(3)])).await.unwrap();
    assert_eq!(tasks().await, before + 1);
    assert_eq!(sent(&mut actor, 6).await.last(), Some(&(4, 5)));
    assert_eq!(tasks().await, before + 1);
    actor.ask(Confirm(vec![2, 3, 4])).await.unwrap();
    assert_eq!(tasks().await, before);
    // Given up.
    actor.ask(Deliver(vec![parcel(4)])).await.unwrap();
    assert_eq!(tasks().await, before + 1);
    actor.signal(given_up).await;
    assert_eq!(tasks().await, before);
    // Killed.
    actor.ask(Deliver(vec![parcel(5)])).await.unwrap();
    assert_eq!(tasks().await, before + 1);
    actor.kill().await;
    gone(&persistence, "a").await;
    // That of the actor has ended with it.
    assert_eq!(tasks().await, before - 1);
}

#[tokio::test(start_paused = true)]
async fn a_newer_delivery_does_not_wait_for_an_older_ones_longer_wait() {
    let journal = Controlled::open();
    let persistence = on_this_runtime(Persistence::builder(journal.clone()));
    let mut actor = delivering(&persistence).await;
    actor.ask(Deliver(vec![parcel(1)])).await.unwrap();
    assert_eq!(sent(&mut actor, 2).await, [(1, 0), (1, 5)]);
    sleep(Duration::from_secs(1)).await;
    actor.ask(Deliver(vec![parcel(2)])).await.unwrap();
    assert_eq!(sent(&mut actor, 3).await, [(2, 0), (2, 5), (1, 9)]);
}

#[tokio::test]
async fn a_confirmation_by_the_receiver_of_the_first_sending_is_not_lost() {
    let journal = Controlled::open();
    let persistence = persistence(&journal);
    let mut actor = delivering(&persistence).await;
    for number in 0..100 {
        actor.ask(Deliver(vec![parcel(number)])).await.unwrap();
        let (id, _) = actor.delivery().await;
        actor.ask(Confirm(vec![id])).await.unwrap();
    }
    actor.end().await.unwrap();
    let actor = Mini::spawn(&persistence, "a").await.unwrap();
    assert_eq!(actor.ask(Get).await.unwrap(), 0);
}

/// Keeps what the model is told, as an adapter does whose model is on another thread.
#[derive(Clone, Default)]
struct Later(Arc<Mutex<Vec<adapter::Told<Summing>>>>);

impl adapter::Listener<Summing> for Later {
    fn wake(&self) {}

    fn tell(&self, told: adapter::Told<Summing>) {
        self.0.lock().unwrap().push(told);
    }
}

impl Later {
    /// The ids that are sent if the model hears now.
    fn hear(&self, model: &mut Direct) -> Vec<u64> {
        for told in std::mem::take(&mut *self.0.lock().unwrap()) {
            told.to(&model.summing);
        }
        let sent = deliveries(&mut model.told);
        sent.into_iter().map(|(id, _)| id).collect()
    }
}

struct Direct {
    summing: Summing,
    told: UnboundedReceiver<Told>,
}

impl Direct {
    fn new() -> Self {
        let (told, hears) = unbounded_channel();
        let hooks = Hooks::default();
        Self {
            summing: Summing { told, hooks },
            told: hears,
        }
    }

    async fn ask<C: Command>(&self, engine: &mut Engine<Summing>, command: C) -> C::Reply
    where
        Summing: Handles<C>,
    {
        let (port, reply) = oneshot::channel();
        engine.push(BoxedCommand::new(command, port));
        engine.run(&self.summing).await.unwrap();
        reply.await.unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_overtaken_on_its_way_to_the_model_is_not_sent() {
    let journal = Controlled::open();
    let persistence = on_this_runtime(Persistence::builder(journal.clone()));
    let (mut model, later) = (Direct::new(), Later::default());
    let options = Options::default().delivers().redelivery(WAITS);
    let recover = async || {
        let admission = options.admission();
        Engine::recover("a", options.clone(), &persistence, admission, later.clone())
            .await
            .unwrap()
    };
    let mut engine = recover().await;
    // By its confirmation.
    model
        .ask(&mut engine, Deliver(vec![parcel(1), parcel(2)]))
        .await
        .unwrap();
    model.ask(&mut engine, Confirm(vec![1])).await.unwrap();
    others_run().await;
    assert_eq!(later.hear(&mut model), [2]);
    sleep(Duration::from_secs(6)).await;
    model.ask(&mut engine, Confirm(vec![2])).await.unwrap();
    assert!(later.hear(&mut model).is_empty());
    // By the end of its actor: the next life sends it again, the first time excepted.
    model.ask(&mut engine, Deliver(vec![parcel(3)])).await.unwrap();
    assert_eq!(later.hear(&mut model), [5]);
    sleep(Duration::from_secs(6)).await;
    model.ask(&mut engine, Deliver(vec![parcel(4)])).await.unwrap();
    drop(engine);
    gone(&persistence, "a").await;
    assert_eq!(later.hear(&mut model), [6]);
    // By another writer.
    let mut engine = recover().await;
    others_run().await;
    assert_eq!(later.hear(&mut model), [5, 6]);
    sleep(Duration::from_secs(6)).await;
    journal.fate(Fate::StoredThenFenced);
    model.ask(&mut engine, Deliver(vec![parcel(5)])).await.unwrap();
    others_run().await;
    assert!(later.hear(&mut model).is_empty());
}

#[test]
fn an_id_travels_as_a_plain_number() {
    let id = DeliveryId::new(258);
    assert_eq!(serde_json::to_string(&id).unwrap(), "258");
    assert_eq!(serde_json::from_str::<DeliveryId>("258").unwrap(), id);
    assert_eq!(id.to_string(), "258");
}
