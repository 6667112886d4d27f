//! Persistent [actix] actors: a state that is the fold of its events, recovered after every crash.
//!
//! ```
//! use actix::prelude::*;
//! use journal_actix::Durable;
//! use journal_core::{Command, Effect, Effects, EventSourced, Handles, MemoryJournal, PersistError, Persistence};
//! use journal_derive::{Event, PersistentActor};
//! use serde::{Deserialize, Serialize};
//! use snapshot_store::MemorySnapshotStore;
//!
//! #[derive(PersistentActor)]
//! #[persistent(snapshot_every = 100, keep = 2, delete_events)]
//! # #[persistent(crate = journal_actix)]
//! struct Account {
//!     #[persistent(id)]
//!     id: String,
//!     #[persistent(state)]
//!     balance: Durable<Self>,
//!     pings: u64,
//! }
//!
//! #[derive(Serialize, Deserialize, Event)]
//! #[event(manifest = "account-event", version = 1)]
//! # #[event(crate = journal_core)]
//! struct Deposited { cents: u64 }
//!
//! #[derive(Default, Serialize, Deserialize)]
//! struct Balance { cents: u64 }
//!
//! impl EventSourced for Account {
//!     type Event = Deposited;
//!     type State = Balance;
//!     fn apply(balance: &mut Balance, event: &Deposited) { balance.cents += event.cents; }
//! }
//!
//! #[derive(Message)]
//! #[rtype(result = "Result<u64, PersistError>")]
//! struct Deposit { cents: u64 }
//! impl Command for Deposit { type Reply = Result<u64, PersistError>; }
//! impl Handles<Deposit> for Account {
//!     fn handle(&self, _: &Balance, command: Deposit) -> Effect<Self, Result<u64, PersistError>> {
//!         self.persist(Deposited { cents: command.cents }).then_reply(|balance| Ok(balance.cents))
//!     }
//! }
//!
//! #[derive(Message)]
//! #[rtype(result = "u64")]
//! struct Ping;
//! // Persists nothing: an ordinary handler.
//! impl Handler<Ping> for Account {
//!     type Result = u64;
//!     fn handle(&mut self, _: Ping, _: &mut Context<Self>) -> u64 { self.pings += 1; self.pings }
//! }
//!
//! #[actix::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let persistence = Persistence::builder(MemoryJournal::new()).snapshots(MemorySnapshotStore::new()).build()?;
//!     let account = Account { id: "account|42".into(), balance: Durable::new(&persistence), pings: 0 }.start();
//!     assert_eq!(account.send(Deposit { cents: 5 }).await??, 5);
//!     assert_eq!(account.send(Ping).await?, 1);
//!     Ok(())
//! }
//! ```
//!
//! The first `?` is actix's [`MailboxError`](actix::MailboxError), the second the command's own failure. A command that
//! is no actix message, as those of a model that knows nothing of actix, is sent in an [`Ask`]; such a model is given to
//! the actor by [`Durable::of`]. Both kinds of commands have all that messages have: `Recipient`s, `notify`, streams,
//! timers.
//!
//! # Starts
//!
//! | by | after a failure | after `ctx.stop()` | after a handled `then_stop` |
//! |---|---|---|---|
//! | `start` | it ends | it ends | it ends |
//! | `Supervisor::start`, a service | recovers again, after a wait that doubles from failure to failure and starts anew once a life was healthy for the longest wait | recovers again, at once | takes plain messages only; commands get `MailboxError::Closed` |
//! | [`spawn`](SpawnPersistent::spawn), [`spawn_instant`](SpawnPersistent::spawn_instant) | as under `Supervisor` | as under `Supervisor` | it ends |
//!
//! `spawn` returns once the actor is recovered, or with the [`RecoveryError`](journal_core::RecoveryError), and gives a
//! [`PersistentAddr`] that can `stop`, `drain`, `kill` and wait for the end. The actor may start on any `Arbiter`, also
//! by `start_in_arbiter`, and its addresses are good everywhere.
//!
//! # Lives
//!
//! | what happens | what follows |
//! |---|---|
//! | a write fails, a command's handler panics | recovery in place: same life, same mailbox, same stash, same timers |
//! | that recovery fails, or the first one | the end of the life: the hook [`recovery_failed`](PersistentHooks::recovery_failed), [`RecoveryFailed`](journal_core::PersistError::RecoveryFailed) for the commands that wait, then as the table above says |
//! | another writer, or another actor of this process, has the id | the life ends; a supervised actor rests until the next command, which claims the id again |
//! | a panic in a plain handler, a hook, a timer | the end of the actor, as always in actix, supervised or not |
//! | it was idle for as long as [`passivate_after`](journal_core::Options::passivate_after) says | the state leaves the memory and the id is free, until the next command; the actor, its timers and its addresses stay |
//! | `ctx.stop()`, no address is left | the end of the life once what is handled is durable or has failed; what is queued gets `MailboxError::Closed`, or waits for the next life |
//! | `ctx.terminate()`, a kill, the end of the arbiter or the system | the end at once |
//!
//! What was handled is written and answered in each case, also after a panic or a kill. actix keeps the value of an actor
//! that it restarts; the state in it is not kept: each life begins at the initial state and applies each event once. An
//! actor's other fields are as the last life left them.
//!
//! While it recovers, which is one `ctx.wait`, an actor takes no message, and its timers and spawned futures stand
//! still, as in any wait; they go on afterwards, in their order. A restart cancels them: start them in the hook
//! [`recovered`](PersistentHooks::recovered), which comes before the first command. actix's own `started`, `stopping`
//! and `stopped` belong to the adapter; [`PersistentHooks`] stand for them.
//!
//! # The state
//!
//! A [`Durable`] derefs to the *newest* state, which may not be durable yet. Replies of commands are withheld until it is;
//! what a plain handler reads there is not, so it awaits [`settled`](Durable::settled) before it lets that out.
//!
//! # Bounds
//!
//! | sent by | bounded by |
//! |---|---|
//! | `send`, `try_send` | the mailbox's capacity, also while the actor recovers; handled, by `max_waiting` |
//! | `do_send`, `notify` | nothing while it is in the mailbox, as always in actix; once the actor is recovered, what is more than [`max_waiting`](journal_core::Options::max_waiting) gets [`Overloaded`](journal_core::PersistError::Overloaded) |
//! | [`PersistentAddr::ask`], [`tell`](PersistentAddr::tell) | `max_waiting`, before the mailbox |
//!
//! A `send` whose future is dropped is not handled any more if it still is in the mailbox (actix skips it); an `ask` is.
//!
//! # Threads
//!
//! Handlers and `apply` of new events run on the arbiter. The journal, the snapshot store, replay and everything that
//! writes run on the [runtime of the persistence](journal_core::Persistence::runtime), which is no arbiter's unless one
//! was given to it: `then_run` closures too. Signals reach an actor that is its own model on its own thread, a model of
//! [`Durable::of`] on that runtime. One that comes after the actor has ended, as of a snapshot that is still being saved,
//! is heard by the latter only.

mod actor;
mod durable;
mod life;
mod message;
mod off_thread;
mod reference;
mod shared;
mod spawn;
mod told;

pub use actix;
pub use journal_core::{AskError, TellError};

pub use crate::{
    actor::{PersistentActor, PersistentHooks},
    durable::{Durable, OwnModel},
    message::{Ask, DurableResponse, PersistentHandler},
    reference::PersistentAddr,
    spawn::SpawnPersistent,
};

#[doc(hidden)]
pub mod derived {
    //! What `#[derive(PersistentActor)]` expands to.
    pub use journal_core::{Backoff, FromFailure, Options, RecoveryError};

    pub use crate::{
        life::{restarting, started, stopped, stopping},
        message::Internal,
    };
}
