//! The model whose events and states the fixtures hold; to be kept as it is.

use actor_journal::{
    Command, Effect, Effects, Event, EventSourced, Handles, PersistError, Persistent, Tag, persistent,
};
use serde::{Deserialize, Serialize};

#[derive(Clone, Serialize, Deserialize, Event)]
#[event(manifest = "account-event", version = 1, tags("money"), tags_with = AccountEvent::more_tags)]
pub(crate) enum AccountEvent {
    Deposited { cents: i64 },
    Withdrawn { cents: i64, to: String },
    Noted(Vec<Option<f64>>),
}

impl AccountEvent {
    fn more_tags(&self) -> Vec<Tag> {
        match self {
            Self::Withdrawn { .. } => vec![Tag::from("größer\0")],
            _ => Vec::new(),
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Balance {
    pub(crate) cents: i64,
    pub(crate) events: u64,
}

pub(crate) struct Account;

impl EventSourced for Account {
    type Event = AccountEvent;
    type State = Balance;
    const STATE_MANIFEST: &'static str = "balance";
    const STATE_VERSION: u32 = 1;

    fn apply(state: &mut Balance, event: &AccountEvent) {
        state.events += 1;
        match event {
            AccountEvent::Deposited { cents } => state.cents += cents,
            AccountEvent::Withdrawn { cents, .. } => state.cents -= cents,
            AccountEvent::Noted(_) => {}
        }
    }
}

pub(crate) fn account(id: &str) -> Persistent<Account> {
    persistent(Account, id)
}

#[derive(Debug)]
pub(crate) struct Failed(
    #[expect(dead_code, reason = "printed by the panic of whoever sees it")] PersistError,
);

impl From<PersistError> for Failed {
    fn from(error: PersistError) -> Self {
        Self(error)
    }
}

pub(crate) struct Look;

impl Command for Look {
    type Reply = Result<Balance, Failed>;
}

impl Handles<Look> for Account {
    fn handle(&self, state: &Balance, Look: Look) -> Effect<Self, Result<Balance, Failed>> {
        self.reply(Ok(state.clone()))
    }
}

/// Persists the events as one write.
pub(crate) struct Persist(pub(crate) Vec<AccountEvent>);

impl Command for Persist {
    type Reply = Result<(), Failed>;
}

impl Handles<Persist> for Account {
    fn handle(&self, _: &Balance, Persist(events): Persist) -> Effect<Self, Result<(), Failed>> {
        self.persist_all(events).then_reply(|_| Ok(()))
    }
}
