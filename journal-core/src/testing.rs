//! What applications test their actors with.
//!
//! [`TestKit`] runs commands against a model, without an actor, a journal or a runtime, through the same code as the engine:
//!
//! ```
//! use journal_core::{Command, Effect, Effects, Event, EventSourced, Handles, PersistError, testing::TestKit};
//! # use serde::{Deserialize, Serialize};
//! # #[derive(Debug, PartialEq, Serialize, Deserialize)]
//! # struct Deposited { cents: u64 }
//! # impl Event for Deposited { const MANIFEST: &'static str = "deposited"; const VERSION: u32 = 1; }
//! # struct Account;
//! # impl EventSourced for Account {
//! #     type Event = Deposited;
//! #     type State = u64;
//! #     fn apply(balance: &mut u64, event: &Deposited) { *balance += event.cents; }
//! # }
//! # struct Deposit { cents: u64 }
//! # impl Command for Deposit { type Reply = Result<u64, PersistError>; }
//! # impl Handles<Deposit> for Account {
//! #     fn handle(&self, _: &u64, deposit: Deposit) -> Effect<Self, Result<u64, PersistError>> {
//! #         self.persist(Deposited { cents: deposit.cents }).then_reply(|balance| Ok(*balance))
//! #     }
//! # }
//! let mut account = TestKit::new(Account).given([Deposited { cents: 2 }]);
//! let mut deposited = account.run(Deposit { cents: 5 });
//! assert_eq!(deposited.events(), [Deposited { cents: 5 }]);
//! assert_eq!(deposited.reply().unwrap(), 7);
//! assert_eq!(*account.restart(), 7);
//! ```
//!
//! [`FaultyJournal`] wraps any journal, and fails, delays or holds back the calls that a test names:
//!
//! ```
//! use std::sync::Arc;
//!
//! use journal_core::{ErrorKind, MemoryJournal, Operation, Persistence, testing::{Fault, FaultyJournal}};
//!
//! let journal = Arc::new(FaultyJournal::new(MemoryJournal::new()));
//! let persistence = Persistence::builder(journal.clone()).build()?;
//! // Spawn actors on `persistence`. The next three appends of this one fail, and then one is stored unanswered:
//! journal.next(Fault::not_stored(Operation::Append, ErrorKind::Unavailable).of("account|42").times(3));
//! journal.next(Fault::stored_but_unknown().of("account|42"));
//! assert_eq!(journal.faults_left(), 4);
//! # Ok::<(), journal_core::JournalError>(())
//! ```
//!
//! [`FaultySnapshots`] does the same to a snapshot store:
//!
//! ```
//! # use journal_core::{*, testing::{FaultySnapshots, SnapshotFault}};
//! # fn around(store: impl SnapshotStore) {
//! let snapshots = FaultySnapshots::new(store);
//! snapshots.next(SnapshotFault::save_fails().of("account|42").times(2));
//! # }
//! ```

mod command_result;
mod fault;
mod faulty_journal;
mod faulty_snapshots;
mod gate;
mod kit;
mod round_trip;

pub use self::{
    command_result::CommandResult,
    fault::Fault,
    faulty_journal::{Call, FaultyJournal},
    faulty_snapshots::{FaultySnapshots, SnapshotFault},
    gate::Gate,
    kit::TestKit,
};
