//! Types that do not survive their codecs are found when they are used.

use std::sync::atomic::{AtomicU32, Ordering};

use journal_core::{Command, Effect, Effects, Event, EventSourced, Handles, PersistError, testing::TestKit};
use serde::{Deserialize, Serialize, Serializer};

struct Set(u32);

impl Command for Set {
    type Reply = Result<(), PersistError>;
}

/// A model of these event and state types.
macro_rules! model {
    ($model:ident, $event:ident, $state:ident, |$new:ident| $set:expr, |$fold:ident, $from:ident| $apply:expr) => {
        impl Event for $event {
            const MANIFEST: &'static str = "set";
            const VERSION: u32 = 1;
        }
        struct $model;
        impl EventSourced for $model {
            type Event = $event;
            type State = $state;
            fn apply($fold: &mut $state, $from: &$event) {
                $apply
            }
        }
        impl Handles<Set> for $model {
            fn handle(&self, _: &$state, Set($new): Set) -> Effect<Self, Result<(), PersistError>> {
                self.persist($set).then_reply(|_| Ok(()))
            }
        }
    };
}

#[derive(PartialEq, Serialize, Deserialize)]
struct Skipping {
    #[serde(skip)]
    value: u32,
}

#[derive(Default, PartialEq, Serialize, Deserialize)]
struct Value(u32);

model!(
    SkipsInEvent,
    Skipping,
    Value,
    |value| Skipping { value },
    |state, event| state.0 = event.value
);

#[test]
#[should_panic(expected = "an event \"set\" comes back from MessagePack as another one")]
fn a_skipped_field_of_an_event_is_found_by_comparing() {
    let _ = TestKit::new(SkipsInEvent).compare_events().run(Set(1));
}

#[test]
#[should_panic(expected = "recovered from all its events, the actor has another state")]
fn a_skipped_field_of_an_event_that_matters_is_found_at_the_restart() {
    let mut kit = TestKit::new(SkipsInEvent);
    let _ = kit.run(Set(1));
    kit.restart();
}

#[derive(Default, PartialEq, Serialize, Deserialize)]
struct Forgetful {
    #[serde(skip)]
    value: u32,
}

#[derive(PartialEq, Serialize, Deserialize)]
struct Fine(u32);

model!(
    SkipsInState,
    Fine,
    Forgetful,
    |value| Fine(value),
    |state, event| state.value = event.0
);

#[test]
#[should_panic(expected = "the state comes back from MessagePack as another one")]
fn a_skipped_field_of_a_state_is_found_by_comparing() {
    let _ = TestKit::new(SkipsInState).compare_states().run(Set(1));
}

#[derive(Deserialize)]
struct Doubled(u32);

impl Serialize for Doubled {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_newtype_struct("Doubled", &(self.0 * 2))
    }
}

#[derive(Default, Serialize, Deserialize)]
struct Plain(u32);

model!(
    WritesAnother,
    Doubled,
    Plain,
    |value| Doubled(value),
    |state, event| state.0 = event.0
);

#[test]
#[should_panic(expected = "an event \"set\" comes back from MessagePack as another one")]
fn an_event_that_is_written_as_another_is_found_without_comparing() {
    let _ = TestKit::new(WritesAnother).run(Set(1));
}

#[derive(Deserialize)]
struct Strange(#[expect(dead_code, reason = "it is never read back")] u32);

impl Serialize for Strange {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("no number")
    }
}

#[derive(Default, Serialize, Deserialize)]
struct Nothing;

model!(
    CannotBeRead,
    Strange,
    Nothing,
    |value| Strange(value),
    |_state, _event| ()
);

#[test]
#[should_panic(expected = "an event \"set\" cannot be read back from MessagePack")]
fn an_event_that_cannot_be_read_back_is_found() {
    let _ = TestKit::new(CannotBeRead).run(Set(1));
}

#[derive(Default, Deserialize)]
struct Growing(u32);

impl Serialize for Growing {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_newtype_struct("Growing", &(self.0 + 1))
    }
}

#[derive(Serialize, Deserialize)]
struct Ok32(u32);

model!(
    GrowsInSnapshots,
    Ok32,
    Growing,
    |value| Ok32(value),
    |state, event| state.0 = event.0
);

#[test]
#[should_panic(expected = "the state comes back from MessagePack as another one")]
fn a_state_that_is_written_as_another_is_found_without_comparing() {
    let _ = TestKit::new(GrowsInSnapshots).run(Set(1));
}

#[derive(Serialize, Deserialize)]
struct Drawn(u32);

#[derive(Default, Serialize, Deserialize)]
struct Draws(u32);

static DRAWN: AtomicU32 = AtomicU32::new(0);

model!(Draw, Drawn, Draws, |value| Drawn(value), |state, _event| state
    .0 =
    DRAWN.fetch_add(1, Ordering::Relaxed) + 1);

#[test]
#[should_panic(expected = "`apply` must depend on nothing but state and event")]
fn an_apply_that_depends_on_more_than_the_event_is_found_at_the_restart() {
    let mut kit = TestKit::new(Draw);
    let _ = kit.run(Set(1));
    kit.restart();
}
