//! What runs beside the handlers: `then_run`, conversions of failures, signals, `recovered`. In order, after their
//! events are durable, never on the hub's thread nor under a lock, panics caught.

use std::{sync::Arc, thread, time::Duration};

use journal_core::{Effects, ErrorKind, Operation, PersistError, RecoveryError, Signal, adapter::Halt};
use tokio::sync::{mpsc, oneshot};

use crate::common::*;

fn panicked(signal: &Signal) -> Option<Arc<str>> {
    match signal {
        Signal::EffectPanicked(message) => Some(message.clone()),
        _ => None,
    }
}

#[tokio::test]
async fn effects_run_in_command_order_once_their_events_are_durable() {
    let journal = Controlled::gated();
    let persistence = persistence(&journal);
    let mut actor = Mini::spawn(&persistence, "a").await.unwrap();
    let replies = ["one", "two", "three"].map(|what| actor.send(Run(what)));
    journal.append_entered().await;
    handled(&actor).await;
    while let Ok(told) = actor.told.try_recv() {
        assert!(matches!(told, Told::Signal(_)), "{told:?}");
    }
    journal.let_through(10);
    for effect in ["one 1", "two 2", "three 3"] {
        assert_eq!(actor.effect().await, effect);
    }
    for reply in replies {
        reply.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_reply_does_not_overtake_effects_before_it() {
    let journal = Controlled::open();
    let persistence = persistence(&journal);
    let actor = Mini::spawn(&persistence, "a").await.unwrap();
    for _ in 0..50 {
        let (order, mut ordered) = mpsc::unbounded_channel();
        let (first, second) = (order.clone(), order);
        drop(actor.send(Do(Box::new(move || first.send(1).unwrap()))));
        let read = actor.send(Get);
        drop(actor.send(Do(Box::new(move || second.send(3).unwrap()))));
        read.await.unwrap().unwrap();
        assert_eq!(ordered.recv().await, Some(1));
        assert_eq!(ordered.recv().await, Some(3));
    }
}

#[tokio::test]
async fn effects_of_failed_events_do_not_run() {
    let journal = Controlled::open();
    let persistence = persistence(&journal);
    let mut actor = Mini::spawn(&persistence, "a").await.unwrap();
    journal.fate(Fate::NotStored(ErrorKind::Closed));
    assert!(actor.ask(Run("lost")).await.is_err());
    actor.ask(Run("kept")).await.unwrap();
    assert_eq!(actor.effect().await, "kept 1");
}

#[tokio::test]
async fn an_effect_that_panics_hurts_neither_its_reply_nor_what_follows() {
    let journal = Controlled::open();
    let persistence = persistence(&journal);
    let mut actor = Mini::spawn(&persistence, "a").await.unwrap();
    actor.ask(Do(Box::new(|| panic!("it panics")))).await.unwrap();
    assert_eq!(&*actor.signal(panicked).await, "it panics");
    actor.ask(Run("next")).await.unwrap();
    assert_eq!(actor.effect().await, "next 2");
    assert_eq!(*journal.claims.lock().unwrap(), 1);
}

#[tokio::test]
async fn a_conversion_that_panics_is_signalled_and_hurts_nothing_else() {
    let journal = Controlled::open();
    let persistence = persistence(&journal);
    let mut actor = Mini::spawn(&persistence, "a").await.unwrap();
    journal.fate(Fate::NotStored(ErrorKind::Closed));
    assert!(actor.send(Touch).await.is_err());
    assert_eq!(&*actor.signal(panicked).await, "the conversion panics");
    assert_eq!(actor.ask(Add(1)).await.unwrap(), 1);
}

#[tokio::test]
async fn a_signal_that_panics_is_told_once_and_hurts_nothing_else() {
    let journal = Controlled::open();
    let persistence = persistence(&journal);
    let hooks = Hooks {
        signal: Some(|_| panic!("the signal panics")),
        ..Hooks::default()
    };
    let mut actor = Mini::spawn_hooked(&persistence, "a", hooks, |options| options)
        .await
        .unwrap();
    assert_eq!(&*actor.signal(panicked).await, "the signal panics");
    actor.ask(Run("next")).await.unwrap();
    assert_eq!(actor.effect().await, "next 1");
}

/// Panics when it is dropped, unless that is in a panic already.
struct DropPanics;

impl Drop for DropPanics {
    fn drop(&mut self) {
        if !thread::panicking() {
            panic!("the drop panics");
        }
    }
}

#[tokio::test]
async fn an_effect_that_panics_when_it_is_dropped_hurts_nothing_else() {
    let journal = Controlled::open();
    let persistence = persistence(&journal);
    let mut actor = Mini::spawn(&persistence, "a").await.unwrap();
    journal.fate(Fate::NotStored(ErrorKind::Closed));
    let captured = DropPanics;
    let lost = actor.ask(Do(Box::new(move || drop(captured)))).await;
    assert!(lost.is_err());
    assert_eq!(&*actor.signal(panicked).await, "the drop panics");
    actor.ask(Run("next")).await.unwrap();
    assert_eq!(actor.effect().await, "next 1");
}

#[tokio::test]
async fn an_effect_may_send_to_its_own_actor() {
    let journal = Controlled::open();
    let persistence = persistence(&journal);
    let mut actor = Mini::spawn(&persistence, "a").await.unwrap();
    let myself = actor.sender();
    actor
        .ask(Do(Box::new(move || drop(myself.send(Run("sent"))))))
        .await
        .unwrap();
    assert_eq!(actor.effect().await, "sent 2");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_effect_that_blocks_delays_neither_appends_nor_other_actors() {
    let journal = Controlled::open();
    let persistence = persistence(&journal);
    let actor = Mini::spawn(&persistence, "a").await.unwrap();
    let other = Mini::spawn(&persistence, "b").await.unwrap();
    let (release, released) = std::sync::mpsc::channel::<()>();
    let (entered, has_entered) = oneshot::channel();
    let blocked = actor.send(Do(Box::new(move || {
        entered.send(()).unwrap();
        released.recv().unwrap();
    })));
    has_entered.await.unwrap();
    drop(actor.send(Add(1)));
    while journal.bounds_of("a").await.highest.get() < 2 {
        tokio::task::yield_now().await;
    }
    assert_eq!(other.ask(Add(1)).await.unwrap(), 1);
    release.send(()).unwrap();
    blocked.await.unwrap().unwrap();
}

/// On a single-threaded runtime, where the hub has a thread of its own.
#[tokio::test]
async fn no_user_code_runs_on_the_hubs_thread() {
    fn not_on_the_hub(_: &Signal) {
        assert_ne!(thread::current().name(), Some("journal-hub"));
    }
    let journal = Controlled::open();
    let persistence = persistence(&journal);
    let hooks = Hooks {
        signal: Some(not_on_the_hub),
        ..Hooks::default()
    };
    let mut actor = Mini::spawn_hooked(&persistence, "a", hooks, |options| options)
        .await
        .unwrap();
    for fate in [
        Fate::Stored,
        Fate::NotStored(ErrorKind::Closed),
        Fate::LostButUnknown,
    ] {
        journal.fate(fate);
        let effect = actor.send(Do(Box::new(|| {
            assert_ne!(thread::current().name(), Some("journal-hub"));
        })));
        let tell = actor.send(Tell(1));
        drop((effect.await, tell.await));
    }
    actor.ask(Run("done")).await.unwrap();
    loop {
        match actor.told.recv().await.unwrap() {
            Told::Effect(_) => return,
            Told::Signal(signal) => assert!(panicked(&signal).is_none(), "{signal:?}"),
            Told::Delivery(..) => {}
        }
    }
}

#[tokio::test]
async fn a_failure_that_nobody_waits_for_becomes_a_signal() {
    let journal = Controlled::open();
    let persistence = persistence(&journal);
    let mut actor = Mini::spawn(&persistence, "a").await.unwrap();
    journal.fate(Fate::NotStored(ErrorKind::Closed));
    drop(actor.send(Tell(1)));
    let failed = actor
        .signal(|signal| match signal {
            Signal::CommandFailed(error) => Some(error.clone()),
            _ => None,
        })
        .await;
    assert!(matches!(failed, PersistError::NotStored(_)), "{failed}");
}

#[tokio::test]
async fn an_unhandled_command_becomes_a_signal() {
    let journal = Controlled::open();
    let persistence = persistence(&journal);
    let mut actor = Mini::spawn(&persistence, "a").await.unwrap();
    actor.ask(Odd).await;
    actor
        .signal(|signal| matches!(signal, Signal::Unhandled).then_some(()))
        .await;
}

#[tokio::test]
async fn recovered_runs_before_the_first_command_and_after_each_recovery_in_place() {
    let journal = Controlled::open();
    let persistence = persistence(&journal);
    let hooks = Hooks {
        recovered: Some(|model, _| model.persist(Happened::Added(100))),
        ..Hooks::default()
    };
    let actor = Mini::spawn_hooked(&persistence, "a", hooks.clone(), |options| options)
        .await
        .unwrap();
    assert_eq!(actor.ask(Add(1)).await.unwrap(), 101);
    assert!(actor.ask(PanicInHandle).await.is_err());
    assert_eq!(actor.ask(Add(1)).await.unwrap(), 202);
    actor.end().await.unwrap();
    let actor = Mini::spawn_hooked(&persistence, "a", hooks, |options| options)
        .await
        .unwrap();
    assert_eq!(actor.ask(Get).await.unwrap(), 302);
}

#[tokio::test]
async fn a_recovered_that_panics_fails_the_recovery() {
    let journal = Controlled::open();
    let persistence = persistence(&journal);
    let hooks = Hooks {
        recovered: Some(|_, _| panic!("recovered panics")),
        ..Hooks::default()
    };
    let (told, mut hears) = mpsc::unbounded_channel();
    let failed = Mini::spawn_telling(&persistence, "a", hooks, |options| options, told).await;
    let Err(RecoveryError::Panicked { message, .. }) = failed else {
        panic!("it recovered")
    };
    assert_eq!(&*message, "recovered panics");
    next_signal(&mut hears, |signal| {
        matches!(signal, Signal::RecoveryFailed(_)).then_some(())
    })
    .await;
    gone(&persistence, "a").await;
}

#[tokio::test]
async fn a_recovered_that_panics_ends_a_recovery_in_place() {
    let journal = Controlled::open();
    let persistence = persistence(&journal);
    let hooks = Hooks {
        recovered: Some(|model, state| match state.total {
            0 => model.none(),
            _ => panic!("recovered panics"),
        }),
        ..Hooks::default()
    };
    let actor = Mini::spawn_hooked(&persistence, "a", hooks, |options| options)
        .await
        .unwrap();
    actor.ask(Add(1)).await.unwrap();
    assert!(actor.ask(PanicInHandle).await.is_err());
    let halted = actor.task.await.unwrap();
    let Err(Halt::RecoveryFailed(error)) = halted else {
        panic!("{halted:?}")
    };
    assert!(matches!(*error, RecoveryError::Panicked { .. }), "{error}");
}

/// To recover in place again and again would never end, and never wait either.
#[tokio::test]
async fn a_recovered_whose_events_are_not_stored_twice_in_a_row_ends_the_actor() {
    let fates: [fn() -> Fate; 3] = [
        || Fate::NotStored(ErrorKind::Corrupt),
        || Fate::Reject(None),
        || Fate::LostButUnknown,
    ];
    for fate in fates {
        let journal = Controlled::open();
        (0..50).for_each(|_| journal.fate(fate()));
        let persistence = persistence(&journal);
        let hooks = Hooks {
            recovered: Some(|model, _| model.persist(Happened::Added(100))),
            ..Hooks::default()
        };
        let actor = Mini::spawn_hooked(&persistence, "a", hooks, |options| options)
            .await
            .unwrap();
        let halted = actor.task.await.unwrap();
        let Err(Halt::RecoveryFailed(error)) = halted else {
            panic!("{halted:?}")
        };
        assert!(matches!(*error, RecoveryError::Unwritten { .. }), "{error}");
        assert_eq!(*journal.claims.lock().unwrap(), 2, "{error}");
        gone(&persistence, "a").await;
    }
}

/// A signal still being told must not make the id look live after the actor is gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_successor_of_a_recovery_that_was_dropped_waits_instead_of_being_refused() {
    fn slow(signal: &Signal) {
        if matches!(signal, Signal::SnapshotIgnored(_)) {
            thread::sleep(Duration::from_millis(100));
        }
    }
    let (journal, snapshots) = (Controlled::open(), Snapshots::new());
    let persistence = with_snapshots(&journal, &snapshots);
    let incarnation = journal_core::Incarnation::random();
    snapshots.plant("a", 1, incarnation, bytes::Bytes::new()).await;
    snapshots.fault(Call::Load, Fault::None);
    snapshots.fault(Call::Load, Fault::Hangs);
    let hooks = Hooks {
        signal: Some(slow),
        ..Hooks::default()
    };
    let recovering = {
        let persistence = persistence.clone();
        tokio::runtime::Handle::current().spawn(async move {
            Mini::spawn_hooked(&persistence, "a", hooks, |options| options)
                .await
                .err()
        })
    };
    while !snapshots.faults.lock().unwrap()[&Call::Load].is_empty() {
        tokio::task::yield_now().await;
    }
    recovering.abort();
    assert!(recovering.await.unwrap_err().is_cancelled());
    Mini::spawn(&persistence, "a").await.unwrap();
}

#[tokio::test]
async fn a_claim_that_fails_is_signalled_with_the_error_that_the_caller_gets() {
    let journal = Controlled::open();
    let persistence = persistence(&journal);
    journal.trouble(Operation::Claim, Trouble::Fails);
    let (told, mut hears) = mpsc::unbounded_channel();
    let failed = Mini::spawn_telling(&persistence, "a", Hooks::default(), |options| options, told).await;
    let Err(RecoveryError::Journal(failed)) = failed else {
        panic!("the claim succeeded");
    };
    let signalled = next_signal(&mut hears, |signal| match signal {
        Signal::RecoveryFailed(error) => Some(error.clone()),
        _ => None,
    })
    .await;
    assert!(matches!(&*signalled, RecoveryError::Journal(error) if Arc::ptr_eq(error, &failed)));
}
