//! A persistent system service, and the persistence of the process that it is created with.
#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

use actix::prelude::*;
use journal_actix::Durable;
use journal_core::{
    Command, Effect, Effects, EventSourced, Handles, MemoryJournal, PersistError, Persistence,
};
use journal_derive::{Event, PersistentActor};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Event)]
#[event(manifest = "counted", version = 1, crate = journal_core)]
struct Counted;

#[derive(Default, PersistentActor)]
#[persistent(id = "visitors", crate = journal_actix)]
struct Visitors {
    #[persistent(state)]
    count: Durable<Self>,
}

impl SystemService for Visitors {}

impl EventSourced for Visitors {
    type Event = Counted;
    type State = u64;
    fn apply(count: &mut u64, _: &Counted) {
        *count += 1;
    }
}

#[derive(Message)]
#[rtype(result = "Result<u64, PersistError>")]
struct Visit;

impl Command for Visit {
    type Reply = Result<u64, PersistError>;
}

impl Handles<Visit> for Visitors {
    fn handle(&self, _: &u64, _: Visit) -> Effect<Self, Result<u64, PersistError>> {
        self.persist(Counted).then_reply(|count| Ok(*count))
    }
}

#[test]
fn a_system_service_goes_on_in_the_next_system_of_the_process() {
    let journal = MemoryJournal::new();
    Persistence::builder(journal.clone())
        .build()
        .unwrap()
        .install()
        .unwrap();
    let refused = Persistence::builder(journal).build().unwrap().install();
    assert!(refused.is_err(), "one is installed already");
    for visits in [1, 3] {
        System::new().block_on(async move {
            assert_eq!(
                Visitors::from_registry().send(Visit).await.unwrap().unwrap(),
                visits
            );
            let again = Visitors::from_registry();
            assert_eq!(again.send(Visit).await.unwrap().unwrap(), visits + 1);
        });
    }
}
