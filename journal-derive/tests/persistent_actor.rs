//! `#[derive(PersistentActor)]`: what it expands to, and what it says where it cannot.

use std::{
    fmt,
    rc::Rc,
    sync::{Arc, Mutex},
    time::Duration,
};

use actix::prelude::*;
use journal_actix::{Durable, PersistentActor as _, PersistentHooks, SpawnPersistent as _};
use journal_core::{
    Backoff, Command, Delivers, DeliveryId, Effect, Effects, EventSourced, Handles, MemoryJournal, Options,
    PersistError, Persistence, RecoveryError,
};
use journal_derive::{Event, PersistentActor};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Event)]
#[event(manifest = "added", version = 1, crate = journal_core)]
struct Added(u64);

#[derive(Message)]
#[rtype(result = "Result<u64, PersistError>")]
struct Add(u64);

impl Command for Add {
    type Reply = Result<u64, PersistError>;
}

/// Makes a type count.
macro_rules! counts {
    ($name:ident $(<$parameter:ident: $bound:path>)?) => {
        impl $(<$parameter: $bound>)? EventSourced for $name $(<$parameter>)? {
            type Event = Added;
            type State = u64;
            fn apply(total: &mut u64, event: &Added) {
                *total += event.0;
            }
        }
        impl $(<$parameter: $bound>)? Handles<Add> for $name $(<$parameter>)? {
            fn handle(&self, _: &u64, add: Add) -> Effect<Self, Result<u64, PersistError>> {
                self.persist(Added(add.0)).then_reply(|total| Ok(*total))
            }
        }
    };
}

fn persistence() -> Persistence {
    Persistence::builder(MemoryJournal::new())
        .build()
        .expect("the hub starts")
}

#[derive(PersistentActor)]
#[persistent(crate = journal_actix)]
struct Named {
    #[persistent(id)]
    name: &'static str,
    #[persistent(state)]
    total: Durable<Self>,
    /// Needs to be neither `Send` nor `Sync`.
    pings: Rc<()>,
}
counts!(Named);

#[derive(Message)]
#[rtype(result = "u64")]
struct Ping;

impl Handler<Ping> for Named {
    type Result = u64;
    fn handle(&mut self, _: Ping, _: &mut Context<Self>) -> u64 {
        *self.total + Rc::strong_count(&self.pings) as u64
    }
}

#[actix::test]
async fn an_actor_that_is_its_own_model_takes_commands_and_plain_messages() {
    let named = Named {
        name: "a",
        total: Durable::new(&persistence()),
        pings: Rc::new(()),
    }
    .start();
    assert_eq!(named.send(Add(5)).await.unwrap().unwrap(), 5);
    assert_eq!(named.send(Ping).await.unwrap(), 6);
}

struct Model;
counts!(Model);

#[derive(PersistentActor)]
#[persistent(crate = journal_actix)]
struct Tuple(#[persistent(id)] u32, #[persistent(state)] Durable<Model>);

#[actix::test]
async fn the_model_may_be_a_type_of_its_own_and_the_id_anything_that_is_display() {
    let actor = Tuple(7, Durable::of(Arc::new(Model), &persistence()));
    assert_eq!(actor.persistence_id(), "7");
    assert_eq!(actor.start().send(Add(5)).await.unwrap().unwrap(), 5);
}

#[derive(PersistentActor)]
#[persistent(id_with = Of::id, crate = journal_actix)]
struct Of<T: Kind>
where
    T: Clone,
{
    kind: T,
    #[persistent(state)]
    total: Durable<Self>,
}

trait Kind: fmt::Display + Unpin + Clone + 'static {}
impl Kind for String {}
counts!(Of<T: Kind>);

impl<T: Kind> Of<T> {
    fn id(&self) -> String {
        format!("of|{}", self.kind)
    }
}

#[actix::test]
async fn a_generic_actor_with_a_computed_id() {
    let actor = Of {
        kind: "b".to_owned(),
        total: Durable::new(&persistence()),
    };
    assert_eq!(actor.persistence_id(), "of|b");
    assert_eq!(actor.start().send(Add(5)).await.unwrap().unwrap(), 5);
}

#[derive(PersistentActor)]
#[persistent(id = "the-only-one", mailbox = 3, hooks, crate = journal_actix)]
struct Single {
    #[persistent(state)]
    total: Durable<Self>,
    turns: Arc<Mutex<Vec<&'static str>>>,
}
counts!(Single);

impl Single {
    fn turn(&self, turn: &'static str) {
        self.turns.lock().expect("nothing panics").push(turn);
    }
}

impl PersistentHooks for Single {
    fn starting(&mut self, _: &mut Context<Self>) {
        self.turn("starting");
    }
    fn recovered(&mut self, _: &mut Context<Self>) {
        self.turn("recovered");
    }
    fn recovery_failed(&mut self, _: &RecoveryError, _: &mut Context<Self>) {
        self.turn("failed");
    }
    fn stopped(&mut self, _: &mut Context<Self>) {
        self.turn("stopped");
    }
}

/// Never done.
#[derive(Message)]
#[rtype(result = "()")]
struct Block;

impl Handler<Block> for Single {
    type Result = ();
    fn handle(&mut self, _: Block, context: &mut Context<Self>) {
        context.wait(std::future::pending::<()>().into_actor(self));
    }
}

#[actix::test]
async fn hooks_are_called_at_the_turns_of_its_life() {
    let (persistence, turns) = (persistence(), Arc::<Mutex<_>>::default());
    let single = || Single {
        total: Durable::new(&persistence),
        turns: turns.clone(),
    };
    assert_eq!(single().persistence_id(), "the-only-one");
    let first = single().spawn().await.unwrap();
    assert!(single().spawn().await.is_err());
    first.stop().await;
    let turns = turns.lock().unwrap().clone();
    assert_eq!(
        turns,
        [
            "starting",
            "recovered",
            "starting",
            "failed",
            "stopped",
            "stopped"
        ]
    );
}

#[actix::test]
async fn the_mailbox_has_the_capacity_that_was_asked_for() {
    let single = Single {
        total: Durable::new(&persistence()),
        turns: Arc::default(),
    }
    .start();
    single.send(Add(1)).await.unwrap().unwrap();
    single.send(Block).await.unwrap();
    let accepted = (0..16).filter(|_| single.try_send(Add(1)).is_ok()).count();
    // actix lets each sender have one more.
    assert!((3..=4).contains(&accepted), "{accepted}");
}

#[derive(PersistentActor)]
#[persistent(
    snapshot_every = 100,
    keep = 3,
    delete_events,
    strict,
    max_waiting = 10,
    max_waiting_bytes = 1_000,
    append_limits(5, 500),
    recovery_idle_timeout = "1500ms",
    unknown_wait = "2s",
    backoff("10ms", "1m"),
    accept_deleted_prefix,
    passivate_after = "5m",
    delivers,
    crate = journal_actix
)]
struct Described {
    #[persistent(id)]
    id: String,
    #[persistent(state)]
    total: Durable<Self>,
}
counts!(Described);

impl Delivers for Described {
    type Delivery = Added;
    fn send(&self, _: DeliveryId, _: Added) {}
}

#[test]
fn each_attribute_is_the_builder_method_of_its_name() {
    let built = Options::<Described>::default()
        .snapshot_every(100)
        .keep(3)
        .delete_events()
        .strict()
        .max_waiting(10)
        .max_waiting_bytes(1_000)
        .append_limits(5, 500)
        .recovery_idle_timeout(Duration::from_millis(1_500))
        .unknown_wait(Duration::from_secs(2))
        .backoff(Backoff {
            shortest: Duration::from_millis(10),
            longest: Duration::from_secs(60),
        })
        .accept_deleted_prefix()
        .passivate_after(Duration::from_secs(300))
        .delivers();
    let derived = Described::options(Options::default());
    assert_eq!(format!("{derived:?}"), format!("{built:?}"));
    assert_ne!(
        format!("{derived:?}"),
        format!("{:?}", Options::<Described>::default())
    );
}

#[test]
fn misuse_is_an_error_that_says_what_to_write() {
    trybuild::TestCases::new().compile_fail("tests/ui_persistent/*.rs");
}
