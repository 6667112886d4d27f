//! The child: accounts with a few clients each, as busy as they can be, with retention, until it is killed.

use std::{
    collections::{BTreeMap, VecDeque},
    path::Path,
};

use actor_journal::{
    Command, Effect, Effects, Event, EventSourced, Handles, PersistError, Persistence, Persistent, Signal,
    persistent,
    ractor::{PersistentRef, SpawnPersistent},
};
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;

use crate::line::{Line, Position, Reply};

pub(crate) const ACCOUNTS: u64 = 24;
pub(crate) const CLIENTS: u64 = 4;
/// What each command adds, in one event or split over three.
pub(crate) const STEP: u64 = 1_000;
const SNAPSHOT_EVERY: u64 = 25;
const KEEP: usize = 2;
/// Positions that a state remembers; more than can be unacknowledged at a kill.
const RECENT: usize = 16;

#[derive(Serialize, Deserialize, Event)]
#[event(manifest = "paid", version = 1)]
pub(crate) struct Paid {
    client: u64,
    command: u64,
    part: u8,
    parts: u8,
    cents: u64,
}

/// A state that remembers enough to be checked against the acknowledgements, and what its events did wrong.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(crate) struct Balance {
    pub(crate) events: u64,
    pub(crate) digest: u64,
    pub(crate) cents: u64,
    /// The last command of each client.
    pub(crate) clients: BTreeMap<u64, u64>,
    /// After the newest commands.
    pub(crate) recent: VecDeque<(u64, u64)>,
    /// The part that comes next; not 0 in the middle of a write.
    pub(crate) next_part: u8,
    pub(crate) faults: Vec<String>,
}

impl Balance {
    pub(crate) fn position(&self) -> Position {
        Position {
            events: self.events,
            digest: self.digest,
        }
    }

    fn apply(&mut self, event: &Paid) {
        let last = self.clients.get(&event.client).copied().unwrap_or_default();
        let expected = if event.part == 0 { last + 1 } else { last };
        if event.command != expected {
            self.faults.push(format!(
                "command {} of client {} after {last}",
                event.command, event.client
            ));
        }
        if event.part != self.next_part {
            self.faults.push(format!(
                "part {} of command {} of client {} instead of {}",
                event.part, event.command, event.client, self.next_part
            ));
        }
        self.clients.insert(event.client, event.command);
        self.events += 1;
        self.cents += event.cents;
        for number in [event.client, event.command, u64::from(event.part), event.cents] {
            self.digest = (self.digest ^ number)
                .wrapping_mul(0x0000_0100_0000_01b3)
                .rotate_left(29);
        }
        self.next_part = (event.part + 1) % event.parts;
        if self.next_part == 0 {
            self.recent.push_back((self.events, self.digest));
            if self.recent.len() > RECENT {
                self.recent.pop_front();
            }
        }
    }
}

/// An account, and who is told of its signals.
pub(crate) struct Account(Box<dyn Fn(&Signal) + Send + Sync>);

impl EventSourced for Account {
    type Event = Paid;
    type State = Balance;
    const STATE_VERSION: u32 = 1;

    fn apply(state: &mut Balance, event: &Paid) {
        state.apply(event);
    }

    fn signal(&self, signal: &Signal) {
        (self.0)(signal);
    }
}

pub(crate) fn account(number: u64, told: impl Fn(&Signal) + Send + Sync + 'static) -> Persistent<Account> {
    persistent(Account(Box::new(told)), id(number))
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

struct Pay {
    client: u64,
    command: u64,
}

impl Command for Pay {
    type Reply = Result<Position, Failed>;
}

impl Handles<Pay> for Account {
    fn handle(&self, _: &Balance, Pay { client, command }: Pay) -> Effect<Self, Result<Position, Failed>> {
        // Every third command in three events, of amounts that only together make a step.
        let amounts: &[u64] = if command % 3 == 0 {
            &[STEP - 3, 1, 2]
        } else {
            &[STEP]
        };
        let parts = u8::try_from(amounts.len()).unwrap();
        let events = (0..parts).zip(amounts).map(|(part, cents)| Paid {
            client,
            command,
            part,
            parts,
            cents: *cents,
        });
        self.persist_all(events).then_reply(|state| Ok(state.position()))
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

pub(crate) fn id(account: u64) -> String {
    format!("account|{account}")
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
pub(crate) async fn run(directory: &Path) {
    Line::Opening.tell();
    let persistence = actor_journal::embedded(directory).await.unwrap();
    Line::Opened.tell();
    let accounts: JoinSet<()> = (0..ACCOUNTS)
        .map(|account| work(persistence.clone(), account))
        .collect();
    accounts.join_all().await;
}

async fn work(persistence: Persistence, number: u64) {
    let account = account(number, move |signal| tell(number, signal))
        .snapshot_every(SNAPSHOT_EVERY)
        .keep(KEEP)
        .delete_events()
        .spawn(&persistence)
        .await
        .unwrap();
    let state = account.ask(Look).await.unwrap().unwrap();
    Line::Recovered {
        account: number,
        position: state.position(),
    }
    .tell();
    let clients: JoinSet<()> = (0..CLIENTS)
        .map(|client| {
            let last = state.clients.get(&client).copied().unwrap_or_default();
            pay(account.clone(), number, client, last)
        })
        .collect();
    clients.join_all().await;
}

fn tell(account: u64, signal: &Signal) {
    match signal {
        Signal::RecoveryCompleted { .. } => {}
        Signal::SnapshotSaved(_) => Line::SnapshotSaved { account }.tell(),
        Signal::EventsDeleted(_) => Line::EventsDeleted { account }.tell(),
        Signal::SnapshotsDeleted => Line::SnapshotRoundEnded { account }.tell(),
        // Nothing fails here but by the kill; the parent takes any complaint for a failure.
        failure => panic!("{failure:?}"),
    }
}

async fn pay(to: PersistentRef<Account>, account: u64, client: u64, last: u64) {
    for command in last + 1.. {
        let position = to.ask(Pay { client, command }).await.unwrap().unwrap();
        Line::Replied(Reply {
            account,
            client,
            command,
            position,
        })
        .tell();
    }
}
