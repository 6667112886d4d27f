//! Persistent [ractor] actors: a state that is the fold of its events, recovered after every crash.
//!
//! ```
//! use journal_core::{Command, Effect, Effects, EventSourced, Handles, MemoryJournal, PersistError, Persistence, persistent};
//! use journal_derive::Event;
//! use journal_ractor::SpawnPersistent;
//! use serde::{Deserialize, Serialize};
//! use snapshot_store::MemorySnapshotStore;
//!
//! #[derive(Serialize, Deserialize, Event)]
//! #[event(manifest = "account-event", version = 1)]
//! # #[event(crate = journal_core)]
//! struct Deposited { cents: u64 }
//!
//! #[derive(Default, Serialize, Deserialize)]
//! struct Balance { cents: u64 }
//!
//! struct Account;
//!
//! impl EventSourced for Account {
//!     type Event = Deposited;
//!     type State = Balance;
//!     fn apply(balance: &mut Balance, event: &Deposited) { balance.cents += event.cents; }
//! }
//!
//! struct Deposit { cents: u64 }
//! impl Command for Deposit { type Reply = Result<u64, PersistError>; }
//! impl Handles<Deposit> for Account {
//!     fn handle(&self, _: &Balance, command: Deposit) -> Effect<Self, Result<u64, PersistError>> {
//!         self.persist(Deposited { cents: command.cents }).then_reply(|balance| Ok(balance.cents))
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let persistence = Persistence::builder(MemoryJournal::new()).snapshots(MemorySnapshotStore::new()).build()?;
//! let account = persistent(Account, "account|42").snapshot_every(100).keep(2).delete_events().spawn(&persistence).await?;
//! assert_eq!(account.ask(Deposit { cents: 5 }).await??, 5);
//! account.stop().await;
//! # Ok(())
//! # }
//! ```
//!
//! # Lives
//!
//! A [`PersistentRef`] stands for the actor over all its lives. Each life is a ractor actor of its own, which recovers in
//! its `post_start`; its mailbox takes commands meanwhile. One more ractor actor supervises them:
//!
//! | what happens | what follows |
//! |---|---|
//! | a write fails, a handler panics | recovery in place: same life, same mailbox, same stash |
//! | that recovery fails, or the life panics otherwise | the next life, after a wait that doubles from failure to failure and starts anew once a life was healthy for the longest wait |
//! | another writer, or another actor of this process, has the id | no further life, until the next command through the reference starts one, which claims the id again |
//! | it was idle for as long as [`passivate_after`](journal_core::Persistent::passivate_after) says | no further life, until the next command through the reference starts one; none is lost in between |
//! | a stop, a drain, a kill, a handled `then_stop`, options that can never work | the end |
//!
//! What sits in the mailbox when a life fails gets [`AskError::Closed`]; what is sent after that waits for the next one.
//! What was handled is written and answered in each case, also after a kill.
//!
//! # Bounds
//!
//! ractor's mailboxes are unbounded. A reference counts a command in before it sends it, and answers
//! [`Overloaded`](journal_core::PersistError::Overloaded) once as many wait as
//! [`max_waiting`](journal_core::Persistent::max_waiting) allows: in the mailbox, stashed, or for the journal.
//!
//! # Code that knows only ractor
//!
//! [`PersistentRef::actor_ref`] is an ordinary `ActorRef`: of an [`Envelope`] for any command, or, after
//! [`accepting`](SpawnPersistent::accepting), of an enum whose variants carry their own `RpcReplyPort`s, answered by
//! [`then_reply_to`](ThenReplyTo::then_reply_to). It is the supervisor, which forwards what it gets, under the same
//! bound: so it survives restarts, and costs one mailbox more than `ask`.
//!
//! # Features
//!
//! `async-trait` and `cluster` turn on ractor's features of the same name. `cluster` must be on here wherever anything
//! in the build turns ractor's on; commands travel only within the process.

mod life;
mod message;
mod model;
mod reference;
mod slot;
mod spawn;
mod supervisor;

pub use journal_core::{AskError, TellError};
pub use ractor;

pub use crate::{
    message::{Envelope, ThenReplyTo},
    model::Model,
    reference::PersistentRef,
    spawn::{Accepting, SpawnError, SpawnPersistent},
};
