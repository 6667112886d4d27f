//! What users write: one model for every actor framework.

use serde::{Serialize, de::DeserializeOwned};

use crate::{Effect, Event, FromFailure, Signal};

/// A state that is the fold of its events.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no events and no state",
    note = "implement them: `impl EventSourced for {Self} {{ type Event = ..; type State = ..; fn apply(..) .. }}`"
)]
pub trait EventSourced: Sized + 'static {
    /// What happened.
    type Event: Event;

    /// What it adds up to. `Default` is the state before the first event.
    type State: Default + Serialize + DeserializeOwned + Send + 'static;

    /// The state's name in snapshots; never changed once there are some.
    const STATE_MANIFEST: &'static str = "state";

    /// The version of the state's schema, raised when old snapshots no longer decode to what they meant. 0 =
    /// undeclared, which codecs that do not tolerate changes refuse.
    const STATE_VERSION: u32 = 0;

    /// Adds one event to the state. Runs when a command persists it and again at every recovery: no side effects, no
    /// clock, no randomness.
    fn apply(state: &mut Self::State, event: &Self::Event);

    /// Runs after each recovery, before the next command, under the rules of a command: the place to resume what was
    /// under way.
    fn recovered(&self, state: &Self::State) -> Effect<Self> {
        let _ = state;
        Effect::none()
    }

    /// Told of what happens beside commands, in order: on the actor's effect task, in order with `then_run` closures too,
    /// or, where the model is the actor itself, on the actor's own thread.
    fn signal(&self, signal: &Signal) {
        let _ = signal;
    }
}

/// A request to an actor.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a command",
    note = "implement it: `impl Command for {Self} {{ type Reply = Result<.., ..>; }}`"
)]
pub trait Command: Send + 'static {
    /// What the caller gets: a `Result` whose error is `From<PersistError>`, or `()` where nobody waits.
    type Reply: FromFailure + Send + 'static;
}

/// Handles one type of command.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not handle the command `{C}`",
    note = "implement it: `impl Handles<{C}> for {Self} {{ fn handle(..) .. }}`"
)]
pub trait Handles<C: Command>: EventSourced {
    /// Decides what the command does, on the newest state, which may not be durable yet; what the caller sees is
    /// withheld until it is. No side effects here: put them into `then_run`.
    fn handle(&self, state: &Self::State, command: C) -> Effect<Self, C::Reply>;
}
