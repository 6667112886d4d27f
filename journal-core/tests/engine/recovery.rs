//! Permit, claim, newest usable snapshot, replay, ready; a state that might be wrong is an error, never a guess.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use journal_core::{
    AtomicWrite, ErrorKind, EventSourced, Incarnation, Journal, Operation, Persistence, RecoveryError,
    SequenceNr, Signal, SkippedSnapshot, WriterId, adapter::Halt, persistent,
};
use serde::{Deserialize, Serialize};
use tokio::{runtime::Handle, time::Instant};

use crate::common::*;

/// Highest number, snapshot's number, events replayed.
fn completed(signal: &Signal) -> Option<(u64, u64, u64)> {
    match signal {
        Signal::RecoveryCompleted {
            highest,
            snapshot,
            replayed,
            ..
        } => Some((highest.get(), snapshot.get(), *replayed)),
        _ => None,
    }
}

fn ignored(signal: &Signal) -> Option<SkippedSnapshot> {
    match signal {
        Signal::SnapshotIgnored(skipped) => Some(skipped.clone()),
        _ => None,
    }
}

fn round_over(signal: &Signal) -> Option<()> {
    matches!(signal, Signal::SnapshotsDeleted).then_some(())
}

/// An actor of five events, with snapshots at these of them.
async fn five_events(persistence: &Persistence, snapshots_at: &[i64]) {
    let mut actor = Mini::spawn(persistence, "a").await.unwrap();
    for number in 1..=5 {
        actor.ask(Add(number)).await.unwrap();
        if snapshots_at.contains(&number) {
            actor.ask(TakeSnapshot).await.unwrap();
            actor.signal(round_over).await;
        }
    }
    actor.end().await.unwrap();
    gone(persistence, "a").await;
}

async fn fails(persistence: &Persistence) -> RecoveryError {
    let failed = Mini::spawn(persistence, "a")
        .await
        .err()
        .expect("it does not recover");
    gone(persistence, "a").await;
    assert_eq!(persistence.available_permits(), Persistence::DEFAULT_PERMITS);
    failed
}

#[tokio::test]
async fn an_id_that_was_never_written_starts_from_the_default_state() {
    let journal = Controlled::open();
    let persistence = persistence(&journal);
    let mut actor = Mini::spawn(&persistence, "a").await.unwrap();
    assert_eq!(actor.signal(completed).await, (0, 0, 0));
    assert_eq!(actor.ask(Get).await.unwrap(), 0);
}

#[tokio::test]
async fn the_newest_snapshot_and_the_tail_make_the_state() {
    let (journal, snapshots) = (Controlled::open(), Snapshots::new());
    let persistence = with_snapshots(&journal, &snapshots);
    five_events(&persistence, &[2, 3]).await;
    let mut actor = Mini::spawn(&persistence, "a").await.unwrap();
    assert_eq!(actor.signal(completed).await, (5, 3, 2));
    assert_eq!(actor.ask(Get).await.unwrap(), 15);
}

#[tokio::test]
async fn a_snapshot_at_the_highest_number_needs_no_replay() {
    let (journal, snapshots) = (Controlled::open(), Snapshots::new());
    let persistence = with_snapshots(&journal, &snapshots);
    five_events(&persistence, &[5]).await;
    journal.delete(&pid("a"), 5, false).await;
    let mut actor = Mini::spawn(&persistence, "a").await.unwrap();
    assert_eq!(actor.signal(completed).await, (5, 5, 0));
    assert_eq!(actor.ask(Add(1)).await.unwrap(), 16);
    assert_eq!(journal.stored("a").await, [(6, Happened::Added(1))]);
}

#[tokio::test]
async fn an_unreadable_newest_snapshot_falls_back_to_an_older_one_then_to_full_replay() {
    for fault in [Fault::Garbles, Fault::Skips] {
        let (journal, snapshots) = (Controlled::open(), Snapshots::new());
        let persistence = with_snapshots(&journal, &snapshots);
        five_events(&persistence, &[2, 4]).await;
        for (faults, expected) in [(1, (5, 2, 3)), (2, (5, 0, 5))] {
            if fault == Fault::Skips && faults == 2 {
                // The store itself goes on to the older one.
                continue;
            }
            for _ in 0..faults {
                snapshots.fault(Call::Load, fault);
            }
            let mut actor = Mini::spawn(&persistence, "a").await.unwrap();
            for _ in 0..faults {
                actor.signal(ignored).await;
            }
            assert_eq!(actor.signal(completed).await, expected);
            assert_eq!(actor.ask(Get).await.unwrap(), 15);
            actor.end().await.unwrap();
            gone(&persistence, "a").await;
        }
    }
}

#[tokio::test]
async fn an_unreadable_snapshot_whose_events_are_deleted_is_an_error_that_says_why() {
    let (journal, snapshots) = (Controlled::open(), Snapshots::new());
    let persistence = with_snapshots(&journal, &snapshots);
    five_events(&persistence, &[2, 4]).await;
    journal.delete(&pid("a"), 4, false).await;
    snapshots.fault(Call::Load, Fault::Skips);
    let failed = fails(&persistence).await;
    let RecoveryError::SnapshotMissing {
        deleted_to,
        snapshot,
        unreadable,
        ..
    } = &failed
    else {
        panic!("{failed}")
    };
    assert_eq!((deleted_to.get(), snapshot.get()), (4, 2));
    assert_eq!(unreadable.as_deref(), Some("half-written"));
    assert!(failed.to_string().contains("restore the snapshot"), "{failed}");
    // It loses nothing.
    let actor = Mini::spawn(&persistence, "a").await.unwrap();
    assert_eq!(actor.ask(Get).await.unwrap(), 15);
}

#[tokio::test]
async fn a_lost_snapshot_whose_events_are_deleted_is_an_error() {
    let journal = Controlled::open();
    let persistence = persistence(&journal);
    five_events(&persistence, &[]).await;
    journal.delete(&pid("a"), 2, false).await;
    let failed = fails(&persistence).await;
    assert!(
        matches!(failed, RecoveryError::SnapshotMissing { .. }),
        "{failed}"
    );
}

#[tokio::test]
async fn snapshots_of_another_life_ahead_of_the_journal_or_before_a_fresh_start_are_ignored_and_reported() {
    let (journal, snapshots) = (Controlled::open(), Snapshots::new());
    let persistence = with_snapshots(&journal, &snapshots);
    five_events(&persistence, &[]).await;
    let incarnation = journal.bounds_of("a").await.incarnation.unwrap();
    let wrong = state_of(Sum { total: 777, notes: 0 }).await;
    for (number, life, reason) in [
        (3, Incarnation::random(), "another life"),
        (6, incarnation, "ahead of the journal"),
    ] {
        snapshots.plant("a", number, life, wrong.clone()).await;
        let mut actor = Mini::spawn(&persistence, "a").await.unwrap();
        let skipped = actor.signal(ignored).await;
        assert!(skipped.reason.contains(reason), "{skipped:?}");
        assert_eq!(actor.signal(completed).await, (5, 0, 5));
        assert_eq!(actor.ask(Get).await.unwrap(), 15);
        actor.end().await.unwrap();
        gone(&persistence, "a").await;
    }
    journal.delete(&pid("a"), 5, true).await;
    snapshots
        .plant("a", 6, Incarnation::random(), wrong.clone())
        .await;
    snapshots.plant("a", 5, incarnation, wrong).await;
    let actor = Mini::spawn(&persistence, "a").await.unwrap();
    assert_eq!(actor.ask(Get).await.unwrap(), 0);
}

/// The storage cases of kafka-journal, as another program leaves them.
#[tokio::test]
async fn events_3_to_5_after_a_delete_to_2_are_replayed_on_the_initial_state_where_that_is_accepted() {
    let journal = Controlled::open();
    let persistence = persistence(&journal);
    five_events(&persistence, &[]).await;
    journal.delete(&pid("a"), 2, false).await;
    let mut actor = Mini::spawn_with(&persistence, "a", |options| options.accept_deleted_prefix())
        .await
        .unwrap();
    assert_eq!(actor.signal(completed).await, (5, 0, 3));
    assert_eq!(actor.ask(Get).await.unwrap(), 3 + 4 + 5);
}

#[tokio::test]
async fn a_zero_state_at_5_goes_on_with_6_where_that_is_accepted() {
    let journal = Controlled::open();
    let persistence = persistence(&journal);
    five_events(&persistence, &[]).await;
    journal.delete(&pid("a"), 5, false).await;
    let mut actor = Mini::spawn_with(&persistence, "a", |options| options.accept_deleted_prefix())
        .await
        .unwrap();
    assert_eq!(actor.signal(completed).await, (5, 0, 0));
    assert_eq!(actor.ask(Add(6)).await.unwrap(), 6);
    assert_eq!(journal.stored("a").await, [(6, Happened::Added(6))]);
}

#[tokio::test]
async fn an_accepted_deleted_prefix_does_not_beat_a_snapshot_that_covers_it() {
    let (journal, snapshots) = (Controlled::open(), Snapshots::new());
    let persistence = with_snapshots(&journal, &snapshots);
    five_events(&persistence, &[3]).await;
    journal.delete(&pid("a"), 3, false).await;
    let mut actor = Mini::spawn_with(&persistence, "a", |options| options.accept_deleted_prefix())
        .await
        .unwrap();
    assert_eq!(actor.signal(completed).await, (5, 3, 2));
    assert_eq!(actor.ask(Get).await.unwrap(), 15);
}

#[tokio::test]
async fn a_deletion_that_overtakes_a_recovery_makes_it_start_again() {
    let (journal, snapshots) = (Controlled::open(), Snapshots::new());
    let persistence = with_snapshots(&journal, &snapshots);
    five_events(&persistence, &[]).await;
    let incarnation = journal.bounds_of("a").await.incarnation.unwrap();
    snapshots.fault(Call::Load, Fault::WaitsLoaded);
    let recovering = {
        let persistence = persistence.clone();
        Handle::current().spawn(async move { Mini::spawn(&persistence, "a").await })
    };
    others_run().await;
    // The retention of an actor in another process, whose last round this is.
    let payload = state_of(Sum { total: 10, notes: 0 }).await;
    snapshots.plant("a", 4, incarnation, payload).await;
    journal.delete(&pid("a"), 4, false).await;
    snapshots.gate.add_permits(1);
    let mut actor = recovering.await.unwrap().unwrap();
    assert_eq!(actor.signal(completed).await, (5, 4, 1));
    assert_eq!(actor.ask(Get).await.unwrap(), 15);
}

#[tokio::test]
async fn a_replay_that_ends_early_is_an_error() {
    let journal = Controlled::open();
    let persistence = persistence(&journal);
    five_events(&persistence, &[]).await;
    journal.trouble(Operation::Replay, Trouble::Ends);
    let failed = fails(&persistence).await;
    let RecoveryError::Incomplete { reached, highest, .. } = failed else {
        panic!("{failed}")
    };
    assert_eq!((reached.get(), highest.get()), (1, 5));
}

#[tokio::test]
async fn a_store_or_journal_that_fails_fails_the_recovery_and_loses_nothing() {
    let (journal, snapshots) = (Controlled::open(), Snapshots::new());
    let persistence = with_snapshots(&journal, &snapshots);
    five_events(&persistence, &[3]).await;
    snapshots.fault(Call::Load, Fault::Fails);
    assert!(matches!(fails(&persistence).await, RecoveryError::Snapshots(_)));
    for operation in [Operation::Claim, Operation::Replay] {
        journal.trouble(operation, Trouble::Fails);
        let RecoveryError::Journal(error) = fails(&persistence).await else {
            panic!("{operation}")
        };
        assert_eq!(error.operation(), operation);
        assert!(error.elapsed().is_some(), "{error}");
    }
    let actor = Mini::spawn(&persistence, "a").await.unwrap();
    assert_eq!(actor.ask(Get).await.unwrap(), 15);
}

const SECOND: Duration = Duration::from_secs(1);
const IDLE: Describe = |options| options.recovery_idle_timeout(Duration::from_secs(3));

#[tokio::test(start_paused = true)]
async fn a_slow_but_steady_replay_passes() {
    let journal = Controlled::open();
    let persistence = on_this_runtime(Persistence::builder(journal.clone()));
    five_events(&persistence, &[]).await;
    journal.trouble(Operation::Replay, Trouble::Slow(2 * SECOND));
    let started = Instant::now();
    let actor = Mini::spawn_with(&persistence, "a", IDLE).await.unwrap();
    assert_eq!(started.elapsed().as_secs(), 8);
    assert_eq!(actor.ask(Get).await.unwrap(), 15);
}

#[tokio::test(start_paused = true)]
async fn a_silent_claim_snapshot_or_replay_fails_and_names_itself() {
    let (journal, snapshots) = (Controlled::open(), Snapshots::new());
    let persistence = on_this_runtime(builder_with(&journal, &snapshots));
    five_events(&persistence, &[3]).await;
    for silent in [
        "the journal's claim",
        "the snapshot store",
        "the journal's replay",
    ] {
        match silent {
            "the journal's claim" => journal.trouble(Operation::Claim, Trouble::Hangs),
            "the snapshot store" => snapshots.fault(Call::Load, Fault::Hangs),
            _ => journal.trouble(Operation::Replay, Trouble::Hangs),
        }
        // A journal that has gone silent does not say its bounds either; that must not hide the cause.
        if silent != "the journal's claim" {
            journal.trouble(Operation::Bounds, Trouble::Hangs);
        }
        let started = Instant::now();
        let failed = Mini::spawn_with(&persistence, "a", IDLE).await.err().unwrap();
        let RecoveryError::TimedOut { from, idle, .. } = failed else {
            panic!("{failed}")
        };
        assert_eq!((from, idle), (silent, 3 * SECOND));
        assert!(started.elapsed() <= 6 * SECOND);
        gone(&persistence, "a").await;
        assert_eq!(persistence.available_permits(), Persistence::DEFAULT_PERMITS);
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_journal_fails_a_recovery_in_place_too() {
    let journal = Controlled::open();
    let persistence = on_this_runtime(Persistence::builder(journal.clone()));
    let actor = Mini::spawn_with(&persistence, "a", IDLE).await.unwrap();
    journal.trouble(Operation::Claim, Trouble::Hangs);
    assert!(actor.ask(PanicInHandle).await.is_err());
    let halted = actor.task.await.unwrap();
    assert!(matches!(&halted, Err(Halt::RecoveryFailed(_))), "{halted:?}");
}

#[tokio::test]
async fn an_unknown_manifest_is_an_error_that_names_id_number_and_manifest() {
    let journal = Controlled::open();
    let persistence = persistence(&journal);
    five_events(&persistence, &[]).await;
    let mut claim = Journal::claim(&journal.inner, &pid("a"), WriterId::random())
        .await
        .unwrap();
    let mut event = encoded(&Happened::Added(1));
    event.manifest = "from-the-future".into();
    Journal::append(
        &journal.inner,
        &mut claim,
        SequenceNr::new(5),
        Arc::new([AtomicWrite::from(event)]),
    )
    .await
    .unwrap();
    let failed = fails(&persistence).await;
    let RecoveryError::Journal(error) = &failed else {
        panic!("{failed}")
    };
    assert_eq!(error.kind(), ErrorKind::Undecodable);
    assert_eq!(error.persistence_id(), Some(&pid("a")));
    assert_eq!(error.sequence_nr(), Some(SequenceNr::new(6)));
    assert!(failed.to_string().contains("from-the-future"), "{failed}");
}

#[tokio::test]
async fn an_apply_that_panics_is_an_error_that_names_the_event() {
    let journal = Controlled::open();
    let persistence = persistence(&journal);
    five_events(&persistence, &[]).await;
    journal.another_writes(&pid("a"), Happened::ApplyPanics).await;
    let failed = fails(&persistence).await;
    let RecoveryError::Panicked {
        sequence_nr, message, ..
    } = failed
    else {
        panic!("{failed}")
    };
    assert_eq!((sequence_nr.get(), &*message), (6, "apply panics"));
}

#[tokio::test]
async fn permits_bound_how_many_recover_at_once_and_all_get_their_turn() {
    let journal = Controlled::open();
    let persistence = Persistence::builder(journal.clone())
        .recovery_permits(2)
        .build()
        .unwrap();
    for number in 0..6 {
        journal.trouble(
            Operation::Claim,
            match number % 3 {
                0 => Trouble::Slow(Duration::from_millis(5)),
                1 => Trouble::Fails,
                _ => Trouble::Panics,
            },
        );
    }
    let spawned: Vec<_> = (0..9)
        .map(|number| {
            let persistence = persistence.clone();
            Handle::current().spawn(async move {
                let spawned = Mini::spawn(&persistence, &format!("a{number}")).await;
                spawned.map(drop)
            })
        })
        .collect();
    let (mut recovered, mut failed, mut panicked) = (0, 0, 0);
    for spawned in spawned {
        match spawned.await {
            Ok(Ok(())) => recovered += 1,
            Ok(Err(_)) => failed += 1,
            Err(_) => panicked += 1,
        }
        assert!(persistence.available_permits() <= 2);
    }
    assert_eq!((recovered, failed, panicked), (5, 2, 2));
    for number in 0..9 {
        gone(&persistence, &format!("a{number}")).await;
    }
    assert_eq!(persistence.available_permits(), 2);
}

#[tokio::test]
async fn what_does_not_fit_together_is_refused_before_anything_is_taken() {
    let journal = Controlled::open();
    let persistence = persistence(&journal);
    let cases: [(&str, Describe, &str); 4] = [
        ("", |options| options, "must not be empty"),
        ("a", |options| options.snapshot_every(1), "needs a snapshot store"),
        ("a", |options| options.delete_events(), "set `snapshot_every` too"),
        (
            "a",
            |options| options.snapshot_every(1).delete_events(),
            "needs a snapshot store",
        ),
    ];
    for (id, describe, text) in cases {
        let refused = Mini::spawn_with(&persistence, id, describe).await.err().unwrap();
        assert!(refused.to_string().contains(text), "{refused}");
    }
    let too_long = "x".repeat(1_025);
    let refused = Mini::spawn(&persistence, &too_long).await.err().unwrap();
    assert!(matches!(refused, RecoveryError::InvalidId(_)), "{refused}");
    assert_eq!(*journal.claims.lock().unwrap(), 0);
    Mini::spawn(&persistence, "a").await.unwrap();
}

/// Another version of the model: its state has a field more.
struct Later;

#[derive(Debug, Default, Serialize, Deserialize)]
struct LaterSum {
    total: i64,
    added_later: u64,
}

impl EventSourced for Later {
    type Event = Happened;
    type State = LaterSum;
    const STATE_VERSION: u32 = 1;
    fn apply(state: &mut LaterSum, event: &Happened) {
        if let Happened::Added(amount) = event {
            state.total += amount;
        }
        state.added_later += 1;
    }
}

#[tokio::test]
async fn a_snapshot_that_lacks_a_field_of_the_changed_state_is_ignored_while_events_can_rebuild_it() {
    let (journal, snapshots) = (Controlled::open(), Snapshots::new());
    let persistence = with_snapshots(&journal, &snapshots);
    five_events(&persistence, &[3]).await;
    let later = |persistence: Persistence| async move {
        let persistent = persistent(Later, "a");
        let admission = persistent.options().admission();
        persistent.recover(&persistence, admission, || ()).await
    };
    let engine = later(persistence.clone()).await.unwrap();
    assert_eq!((engine.state().total, engine.state().added_later), (15, 5));
    drop(engine);
    gone(&persistence, "a").await;
    journal.delete(&pid("a"), 3, false).await;
    let failed = later(persistence.clone()).await.err().unwrap();
    let RecoveryError::SnapshotMissing { unreadable, .. } = &failed else {
        panic!("{failed}")
    };
    let reason = unreadable.as_deref().unwrap();
    assert!(reason.contains("LaterSum"), "{reason}");
}

#[tokio::test]
async fn a_snapshot_with_a_field_that_the_changed_state_dropped_is_used() {
    let (journal, snapshots) = (Controlled::open(), Snapshots::new());
    let persistence = with_snapshots(&journal, &snapshots);
    five_events(&persistence, &[]).await;
    #[derive(Serialize)]
    struct Earlier {
        total: i64,
        notes: u64,
        dropped: String,
    }
    let earlier = Earlier {
        total: 100,
        notes: 0,
        dropped: "old".to_owned(),
    };
    let mut payload = state_of(Sum::default()).await.to_vec();
    let state = payload.len() - rmp_length(&Sum::default());
    payload.truncate(state);
    payload.extend(rmp(&earlier));
    let incarnation = journal.bounds_of("a").await.incarnation.unwrap();
    snapshots.plant("a", 4, incarnation, Bytes::from(payload)).await;
    let actor = Mini::spawn(&persistence, "a").await.unwrap();
    assert_eq!(actor.ask(Get).await.unwrap(), 105);
}

fn rmp(value: &impl Serialize) -> Vec<u8> {
    let mut bytes = Vec::new();
    value
        .serialize(&mut rmp_serde::Serializer::new(&mut bytes).with_struct_map())
        .unwrap();
    bytes
}

fn rmp_length(value: &impl Serialize) -> usize {
    rmp(value).len()
}

#[cfg(feature = "bincode")]
mod bincode {
    use journal_core::Bincode;

    use super::*;

    #[tokio::test]
    async fn a_snapshot_of_another_version_is_a_typed_error_not_wrong_data() {
        let (journal, snapshots) = (Controlled::open(), Snapshots::new());
        let persistence = with_snapshots(&journal, &snapshots);
        let mut actor = Mini::spawn_with(&persistence, "a", |options| options.state_codec(Bincode))
            .await
            .unwrap();
        actor.ask(Add(1)).await.unwrap();
        actor.ask(TakeSnapshot).await.unwrap();
        actor.signal(round_over).await;
        actor.end().await.unwrap();
        gone(&persistence, "a").await;
        journal.delete(&pid("a"), 1, false).await;
        let next = persistent(Versioned, "a").state_codec(Bincode);
        let admission = next.options().admission();
        let failed = next.recover(&persistence, admission, || ()).await.err().unwrap();
        assert!(
            failed.to_string().contains("is older than this program's 2"),
            "{failed}"
        );
    }

    struct Versioned;

    impl EventSourced for Versioned {
        type Event = Happened;
        type State = Sum;
        const STATE_VERSION: u32 = 2;
        fn apply(_: &mut Sum, _: &Happened) {}
    }

    struct Unversioned;

    impl EventSourced for Unversioned {
        type Event = Happened;
        type State = Sum;
        fn apply(_: &mut Sum, _: &Happened) {}
    }

    #[tokio::test]
    async fn without_a_declared_version_it_is_refused() {
        let journal = Controlled::open();
        let persistence = persistence(&journal);
        let unversioned = persistent(Unversioned, "a").state_codec(Bincode);
        let admission = unversioned.options().admission();
        let refused = unversioned.recover(&persistence, admission, || ()).await;
        let refused = refused.err().unwrap();
        assert!(matches!(refused, RecoveryError::Config(_)), "{refused}");
        assert!(refused.to_string().contains("STATE_VERSION"), "{refused}");
    }
}
