use std::{sync::Arc, time::Duration};

use actix::prelude::*;
use journal_actix::{Durable, SpawnPersistent};
use journal_conformance::controlled::Fate;
use journal_core::{ErrorKind, PersistError, RecoveryError, Signal};

use crate::common::*;

#[actix::test]
async fn commands_and_plain_messages_wait_until_it_is_recovered() {
    let store = Store::open();
    let first = account(&store.persistence).0.spawn().await.unwrap();
    first.ask(Deposit(5)).await.unwrap().unwrap();
    first.stop().await;
    store.journal.claims.close();
    let (account, mut hears) = account(&store.persistence);
    let account = account.start();
    let read = actix::spawn(account.send(Read));
    let ping = actix::spawn(account.send(Ping));
    store.journal.claims.arrival().await;
    a_while().await;
    assert!(!read.is_finished() && !ping.is_finished());
    store.journal.claims.open();
    assert_eq!(read.await.unwrap().unwrap().unwrap(), 5);
    assert_eq!(ping.await.unwrap().unwrap(), 1);
    hears.note("starting at 0").await;
    hears.note("recovered at 5").await;
}

#[actix::test]
async fn what_the_starting_hook_begins_goes_on_after_the_recovery_in_the_order_of_actix() {
    let store = Store::open();
    store.journal.claims.close();
    let (account, mut hears) = account(&store.persistence);
    let later = |note: &'static str| {
        move |(), account: &mut Account, context: &mut Context<Account>| {
            account.note(format!("{note}, waiting: {}", context.waiting()));
        }
    };
    let account = account
        .at_start(move |account, context| {
            context.wait(async {}.into_actor(account).map(later("first wait")));
            context.wait(async {}.into_actor(account).map(later("second wait")));
            context.spawn(async {}.into_actor(account).map(later("spawned")));
            context.run_later(Duration::from_millis(1), |account, _| account.note("timer"));
            context.notify(Deposit(5));
        })
        .start();
    store.journal.claims.arrival().await;
    a_while().await;
    hears.note("starting at 0").await;
    assert!(hears.0.try_recv().is_err(), "nothing goes on while it recovers");
    store.journal.claims.open();
    let mut order = Vec::new();
    while order.last().is_none_or(|last| last != "timer") {
        let next = |told| match told {
            Told::Note(note) => Some(note),
            _ => None,
        };
        order.push(hears.until(next).await);
    }
    let expected = [
        "recovered at 0",
        "second wait, waiting: false",
        "first wait, waiting: false",
        "spawned, waiting: false",
        "timer",
    ];
    assert_eq!(order, expected);
    assert_eq!(account.send(Read).await.unwrap().unwrap(), 5);
}

#[actix::test]
async fn its_recovery_is_one_wait() {
    let store = Store::open();
    let (account, hears) = account(&store.persistence);
    let account = account
        .at_start(|account, context| {
            context.wait(
                async {}
                    .into_actor(account)
                    .map(|(), account, _| account.note("own wait")),
            );
        })
        .when_recovered(|account, context| account.note(format!("waiting: {}", context.waiting())))
        .start();
    account
        .send(act(|account, context| {
            account.note(format!("waiting: {}", context.waiting()));
        }))
        .await
        .unwrap();
    drop(account);
    let told = hears.rest().await;
    let expected = [
        "starting at 0",
        "recovered at 0",
        "waiting: false",
        "own wait",
        "waiting: false",
        "stopped at 0",
    ];
    assert_eq!(notes(&told), expected);
}

#[actix::test]
async fn waits_of_the_actor_and_of_the_adapter_do_not_harm_each_other() {
    let store = Store::open();
    let (account, mut hears) = account(&store.persistence);
    let account = account.with(|options| options.strict()).start();
    account.send(Read).await.unwrap().unwrap();
    store.journal.appends.close();
    // Handled from within, so that the adapter's waits lie below and above the actor's.
    account.do_send(act(|account, context| {
        drop(Handler::<Deposit>::handle(account, Deposit(1), context));
        let nap = async { actix::clock::sleep(Duration::from_millis(5)).await };
        context.wait(nap.into_actor(account).map(|(), account, context| {
            account.note("woke up");
            drop(Handler::<Deposit>::handle(account, Deposit(2), context));
            drop(Handler::<Deposit>::handle(account, Deposit(4), context));
        }));
    }));
    hears.note("woke up").await;
    store.journal.appends.open();
    assert_eq!(account.send(Read).await.unwrap().unwrap(), 7);
    assert_eq!(store.journal.sizes(), [1, 1, 1]);
}

#[actix::test]
async fn one_recovery_in_place_runs_at_a_time_whatever_the_actor_handles_from_within() {
    let store = Store::open();
    let (account, mut hears) = account(&store.persistence);
    let account = account.start();
    account.send(Deposit(5)).await.unwrap().unwrap();
    assert_eq!(store.journal.claims_made(), 1);
    store.journal.claims.close();
    account.do_send(act(|account, context| {
        drop(Handler::<PanicInHandle>::handle(
            account,
            PanicInHandle("on purpose"),
            context,
        ));
        drop(Handler::<Deposit>::handle(account, Deposit(1), context));
        drop(Handler::<Deposit>::handle(account, Deposit(2), context));
    }));
    store.journal.claims.arrival().await;
    a_while().await;
    store.journal.claims.open();
    assert_eq!(account.send(Read).await.unwrap().unwrap(), 8);
    assert_eq!(store.journal.claims_made(), 2);
    hears.note("recovered at 0").await;
    let told: Vec<_> = std::iter::from_fn(|| hears.0.try_recv().ok()).collect();
    assert_eq!(notes(&told), [""; 0], "the same life");
}

#[actix::test]
async fn a_failed_write_is_followed_by_a_recovery_in_place_in_the_same_life() {
    let store = Store::open();
    let (account, hears) = account(&store.persistence);
    let account = account.start();
    account.send(Deposit(5)).await.unwrap().unwrap();
    store.journal.fate(Fate::NotStored(ErrorKind::Poisoned));
    let lost = account.send(Deposit(2)).await.unwrap().unwrap_err();
    assert!(matches!(lost, PersistError::NotStored(_)), "{lost:?}");
    assert_eq!(account.send(Deposit(1)).await.unwrap().unwrap(), 6);
    let panicked = account
        .send(PanicInHandle("on purpose"))
        .await
        .unwrap()
        .unwrap_err();
    assert!(matches!(panicked, PersistError::Panicked(_)), "{panicked:?}");
    assert_eq!(account.send(Read).await.unwrap().unwrap(), 6);
    drop(account);
    let told = hears.rest().await;
    assert_eq!(notes(&told), ["starting at 0", "recovered at 0", "stopped at 6"]);
}

#[actix::test]
async fn the_state_is_the_newest_and_settled_waits_for_it_to_be_durable() {
    let store = Store::open();
    let (account, mut hears) = account(&store.persistence);
    let account = account.start();
    account.send(Read).await.unwrap().unwrap();
    store.journal.appends.close();
    account.do_send(Deposit(5));
    account.do_send(act(|account, context| {
        account.note(format!("newest {}", *account.balance));
        let settled = account.balance.settled();
        context.spawn(
            settled
                .into_actor(account)
                .map(|(), account, _| account.note("settled")),
        );
    }));
    hears.note("newest 5").await;
    store.journal.appends.arrival().await;
    a_while().await;
    assert!(hears.0.try_recv().is_err(), "it is not durable yet");
    store.journal.appends.open();
    hears.note("settled").await;
    assert_eq!(store.claimed_elsewhere().await, 1);
}

#[actix::test]
async fn what_waits_for_a_recovery_that_fails_is_told_why_and_then_it_ends() {
    let store = Store::open();
    store.journal.set_down(true);
    let (account, hears) = account(&store.persistence);
    let account = account.start();
    let deposits: Vec<_> = (0..10).map(|_| account.send(Deposit(5))).collect();
    for deposit in deposits {
        let refused = deposit.await.unwrap().unwrap_err();
        assert!(matches!(refused, PersistError::RecoveryFailed(_)), "{refused:?}");
    }
    hears.dropped().await;
    assert_eq!(account.send(Deposit(5)).await.unwrap_err(), MailboxError::Closed);
    assert_eq!(store.journal.claims_made(), 1);
}

#[actix::test]
async fn a_second_actor_of_its_id_is_refused_and_the_first_goes_on() {
    let store = Store::open();
    let first = account(&store.persistence).0.start();
    first.send(Deposit(5)).await.unwrap().unwrap();
    let (second, mut hears) = account(&store.persistence);
    let second = second.start();
    let refused = second.send(Deposit(1)).await.unwrap().unwrap_err();
    assert!(matches!(refused, PersistError::RecoveryFailed(_)), "{refused:?}");
    assert_eq!(second.send(Deposit(1)).await.unwrap_err(), MailboxError::Closed);
    let error = hears.failed_recovery().await;
    assert!(matches!(error, RecoveryError::AlreadyLive { .. }), "{error:?}");
    assert_eq!(first.send(Deposit(2)).await.unwrap().unwrap(), 7);
    assert_eq!(store.journal.claims_made(), 1);
    let third = account(&store.persistence).0.spawn().await.unwrap_err();
    assert!(matches!(third, RecoveryError::AlreadyLive { .. }), "{third:?}");
}

#[actix::test]
async fn without_an_installed_persistence_a_default_one_fails_and_says_so() {
    let (account, mut hears) = account_in(Durable::default());
    let account = Supervisor::start(|_| account);
    let refused = within(account.send(Deposit(1))).await.unwrap().unwrap_err();
    assert!(matches!(refused, PersistError::RecoveryFailed(_)), "{refused:?}");
    let closed = within(account.send(Deposit(1))).await.unwrap_err();
    assert_eq!(closed, MailboxError::Closed);
    let error = hears.failed_recovery().await;
    let RecoveryError::Config(message) = &error else {
        panic!("{error:?}");
    };
    assert!(message.contains("Persistence::install"), "{message}");
}

#[actix::test]
async fn a_snapshot_is_where_the_next_recovery_begins() {
    let store = Store::open();
    let every_three = || {
        let (account, hears) = account(&store.persistence);
        (account.with(|options| options.snapshot_every(3)), hears)
    };
    let (first, mut hears) = every_three();
    let first = first.spawn().await.unwrap();
    for _ in 0..4 {
        first.ask(Deposit(1)).await.unwrap().unwrap();
    }
    hears
        .signal(|signal| matches!(signal, Signal::SnapshotSaved(_)).then_some(()))
        .await;
    first.stop().await;
    let (second, mut hears) = every_three();
    let second = second.start();
    assert_eq!(second.send(Read).await.unwrap().unwrap(), 4);
    let recovered = hears.signal(|signal| match signal {
        Signal::RecoveryCompleted {
            snapshot, replayed, ..
        } => Some((snapshot.get(), *replayed)),
        _ => None,
    });
    assert_eq!(recovered.await, (3, 1));
}

#[actix::test]
async fn a_model_shared_by_actors_outlives_them() {
    let store = Store::open();
    let model = Arc::new(Counter { step: 2 });
    for counted in [2, 4] {
        let actor = CounterActor::new("shared", &model, &store.persistence);
        let actor = actor.spawn().await.unwrap();
        assert_eq!(count(actor.addr()).await, counted);
        actor.stop().await;
    }
}

/// Its first load panics.
#[derive(Debug, Default)]
struct PanicsOnce {
    has_panicked: std::sync::atomic::AtomicBool,
    inner: snapshot_store::MemorySnapshotStore,
}

#[async_trait::async_trait]
impl journal_core::SnapshotStore for PanicsOnce {
    async fn save(&self, snapshot: journal_core::Snapshot) -> Result<(), journal_core::SnapshotError> {
        self.inner.save(snapshot).await
    }
    async fn load(
        &self,
        id: &journal_core::PersistenceId,
        criteria: journal_core::SelectionCriteria,
    ) -> Result<journal_core::Loaded, journal_core::SnapshotError> {
        let had = self.has_panicked.swap(true, std::sync::atomic::Ordering::SeqCst);
        assert!(had, "the store panics");
        self.inner.load(id, criteria).await
    }
    async fn list(
        &self,
        id: &journal_core::PersistenceId,
        criteria: journal_core::SelectionCriteria,
    ) -> Result<Vec<journal_core::SnapshotMetadata>, journal_core::SnapshotError> {
        self.inner.list(id, criteria).await
    }
    async fn delete(
        &self,
        snapshot: &journal_core::SnapshotMetadata,
    ) -> Result<(), journal_core::SnapshotError> {
        self.inner.delete(snapshot).await
    }
    async fn delete_matching(
        &self,
        id: &journal_core::PersistenceId,
        criteria: journal_core::SelectionCriteria,
    ) -> Result<(), journal_core::SnapshotError> {
        self.inner.delete_matching(id, criteria).await
    }
}

#[actix::test]
async fn a_store_that_panics_at_a_recovery_ends_that_recovery_and_not_the_actor() {
    let persistence = journal_core::Persistence::builder(journal_core::MemoryJournal::new())
        .snapshots(PanicsOnce::default())
        .build()
        .unwrap();
    let (account, _hears) = account(&persistence);
    let account = account.with(quick).spawn_instant();
    let refused = within(account.ask(Deposit(5))).await.unwrap().unwrap_err();
    let PersistError::RecoveryFailed(error) = refused else {
        panic!("{refused:?}");
    };
    assert!(error.to_string().contains("the store panics"), "{error}");
    assert_eq!(within(account.ask(Deposit(5))).await.unwrap().unwrap(), 5);
}
