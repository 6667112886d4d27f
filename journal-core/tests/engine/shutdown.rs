//! A shutdown waits for whoever still lives, and says for whom.

use std::{
    fmt::{Debug, Write},
    sync::{Arc, Mutex},
};

use journal_core::Persistence;
use tokio::{runtime::Handle, time::sleep};
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};

use crate::common::*;

/// What is logged on this thread.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, "{field}={value:?} ").unwrap();
    }
}

impl Subscriber for Log {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

impl Log {
    fn taken(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_names_the_actors_it_waits_for_at_once_and_again() {
    let log = Log::default();
    let _logged = tracing::subscriber::set_default(log.clone());
    let persistence = on_this_runtime(Persistence::builder(Controlled::open()));
    let mut actors = Vec::new();
    for id in ["a", "b"] {
        actors.push(Mini::spawn(&persistence, id).await.unwrap());
    }
    let shutdown = {
        let persistence = persistence.clone();
        Handle::current().spawn(async move { persistence.shutdown().await })
    };
    others_run().await;
    let [at_once] = &*log.taken() else {
        panic!("it says it once")
    };
    assert!(
        at_once.contains("actors=a, b ") && at_once.contains("stop them"),
        "{at_once}"
    );
    actors.remove(0).end().await.unwrap();
    sleep(Persistence::SHUTDOWN_REMINDER * 5 / 2).await;
    let reminders = log.taken();
    assert_eq!(reminders.len(), 2, "{reminders:?}");
    assert!(reminders[1].contains("actors=b "), "{reminders:?}");
    assert_eq!(persistence.live_ids(), [pid("b")]);
    // It lives on until it is stopped.
    assert_eq!(actors[0].ask(Add(5)).await.unwrap(), 5);
    actors.remove(0).end().await.unwrap();
    shutdown.await.unwrap().unwrap();
    sleep(Persistence::SHUTDOWN_REMINDER * 2).await;
    assert!(log.taken().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_that_is_dropped_loses_nothing() {
    let log = Log::default();
    let _logged = tracing::subscriber::set_default(log.clone());
    let persistence = on_this_runtime(Persistence::builder(Controlled::open()));
    let actor = Mini::spawn(&persistence, "a").await.unwrap();
    let given_up = tokio::time::timeout(Persistence::SHUTDOWN_REMINDER / 2, persistence.shutdown());
    assert!(given_up.await.is_err());
    log.taken();
    sleep(Persistence::SHUTDOWN_REMINDER * 2).await;
    assert!(log.taken().is_empty(), "nobody waits any more");
    assert_eq!(actor.ask(Add(5)).await.unwrap(), 5);
    actor.end().await.unwrap();
    persistence.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_shutdown_after_the_last_actor_says_nothing() {
    let log = Log::default();
    let _logged = tracing::subscriber::set_default(log.clone());
    let persistence = on_this_runtime(Persistence::builder(Controlled::open()));
    let actor = Mini::spawn(&persistence, "a").await.unwrap();
    actor.ask(Add(5)).await.unwrap();
    actor.end().await.unwrap();
    persistence.shutdown().await.unwrap();
    assert!(log.taken().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_names_a_few_of_many() {
    let log = Log::default();
    let _logged = tracing::subscriber::set_default(log.clone());
    let persistence = on_this_runtime(Persistence::builder(Controlled::open()));
    let mut actors = Vec::new();
    for number in 10..22 {
        actors.push(Mini::spawn(&persistence, &number.to_string()).await.unwrap());
    }
    let given_up = tokio::time::timeout(Persistence::SHUTDOWN_REMINDER / 2, persistence.shutdown());
    assert!(given_up.await.is_err());
    let [named] = &*log.taken() else {
        panic!("it says it once")
    };
    assert!(
        named.contains("actors=10, 11,") && named.contains("19 and 2 more"),
        "{named}"
    );
}
