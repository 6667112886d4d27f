//! The parent's memory of everything acknowledged, over all rounds, and its comparison with what recovers.

use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
};

use actor_journal::{
    Persistence, PersistenceId, ReplayRange, SelectionCriteria, Signal, ractor::SpawnPersistent,
};
use tokio::sync::mpsc;

use crate::{
    bank::{ACCOUNTS, Balance, CLIENTS, Look, STEP, account, id},
    killed::Killed,
    line::{Line, Position, Reply},
};

#[derive(Default)]
struct Account {
    /// What recovered after the last round.
    recovered: Option<Position>,
    /// The last acknowledged command of each client.
    clients: BTreeMap<u64, u64>,
    /// Of this round: each acknowledged position with its digest.
    acknowledged: BTreeMap<u64, u64>,
    /// Of all rounds: who was told that a position is his.
    owners: HashMap<u64, (u64, u64)>,
}

#[derive(Default)]
pub(crate) struct Witness {
    accounts: BTreeMap<u64, Account>,
}

impl Witness {
    /// Takes down what a child told.
    pub(crate) fn hear(&mut self, round: u32, killed: &Killed) {
        for line in &killed.told {
            match *line {
                Line::Recovered { account, position } => {
                    let known = self.accounts.entry(account).or_default();
                    let before = known.recovered.unwrap_or(Position { events: 0, digest: 0 });
                    assert_eq!(
                        position, before,
                        "round {round}: two recoveries of account {account} without a write between them differ"
                    );
                }
                Line::Replied(reply) => self.take_down(round, reply),
                _ => {}
            }
        }
    }

    fn take_down(&mut self, round: u32, reply: Reply) {
        let account = self.accounts.entry(reply.account).or_default();
        let owner = (reply.client, reply.command);
        let former = account.owners.insert(reply.position.events, owner);
        assert_eq!(
            former, None,
            "round {round}: {reply:?} claims a position that another command has"
        );
        account
            .acknowledged
            .insert(reply.position.events, reply.position.digest);
        let last = account.clients.entry(reply.client).or_default();
        assert!(
            *last < reply.command,
            "round {round}: {reply:?} after command {last}"
        );
        *last = reply.command;
    }

    /// Opens the directory that a killed process left and compares each account with what was acknowledged.
    #[tokio::main(flavor = "current_thread")]
    pub(crate) async fn inspect(&mut self, round: u32, directory: &Path) {
        let persistence = actor_journal::embedded(directory).await.unwrap();
        for number in 0..ACCOUNTS {
            let state = recover(&persistence, number).await;
            let stored = stored_events(&persistence, number).await;
            let at = format!("round {round}, account {number}: {state:?}");
            assert_eq!(stored, state.events, "{at}");
            self.accounts.entry(number).or_default().compare(&state, &at);
        }
        persistence.shutdown().await.unwrap();
    }
}

impl Account {
    fn compare(&mut self, state: &Balance, at: &str) {
        assert!(
            state.faults.is_empty(),
            "the events do not follow each other; {at}"
        );
        // Only whole commands are there.
        assert_eq!(state.next_part, 0, "a write is torn; {at}");
        let commands: u64 = state.clients.values().sum();
        assert_eq!(state.cents, commands * STEP, "a write is torn; {at}");

        for client in 0..CLIENTS {
            let acknowledged = self.clients.get(&client).copied().unwrap_or_default();
            let recovered = state.clients.get(&client).copied().unwrap_or_default();
            // A client has one command under way, which may be stored without its reply having arrived.
            assert!(
                recovered == acknowledged || recovered == acknowledged + 1,
                "client {client} was acknowledged {acknowledged} commands, {recovered} recovered; {at}"
            );
            self.clients.insert(client, recovered);
        }

        // A digest covers all events before it: where the newest acknowledged one recovers, all replies of this child
        // told of the history that recovers, and the first of its positions is checked against the recovery before it.
        let history: BTreeMap<u64, u64> = state.recent.iter().copied().collect();
        let oldest = history.first_key_value().map_or(0, |(oldest, _)| *oldest);
        let acknowledged = std::mem::take(&mut self.acknowledged);
        let newest = acknowledged.last_key_value().map(|(newest, _)| *newest);
        for (events, digest) in acknowledged {
            if events >= oldest || Some(events) == newest {
                assert_eq!(
                    history.get(&events),
                    Some(&digest),
                    "the reply at {events} tells of another history; {at}"
                );
            }
        }
        self.recovered = Some(state.position());
    }
}

async fn recover(persistence: &Persistence, number: u64) -> Balance {
    let (told, mut signals) = mpsc::unbounded_channel();
    let account = account(number, move |signal| drop(told.send(signal.clone())));
    let account = account.spawn(persistence).await.unwrap();
    let state = account.ask(Look).await.unwrap().unwrap();
    account.stop().await;
    drop(account);
    while let Some(signal) = signals.recv().await {
        let expected = matches!(signal, Signal::RecoveryCompleted { .. });
        assert!(expected, "account {number}: {signal:?}");
    }
    state
}

/// The highest number of an account whose stored events are contiguous up to it, and covered by a snapshot below.
async fn stored_events(persistence: &Persistence, number: u64) -> u64 {
    let id = PersistenceId::new(id(number)).unwrap();
    let journal = persistence.journal();
    let bounds = journal.bounds(&id).await.unwrap();
    let mut last = bounds.deleted_to;
    let mut events = journal.replay(&id, ReplayRange::ALL);
    while let Some(chunk) = events.next_chunk().await {
        for record in chunk.unwrap() {
            assert_eq!(record.sequence_nr, last.next());
            last = record.sequence_nr;
        }
    }
    assert_eq!(last, bounds.highest);
    if bounds.deleted_to.get() > 0 {
        let covering = SelectionCriteria::ALL.down_to(bounds.deleted_to);
        let snapshots = persistence
            .snapshots()
            .unwrap()
            .list(&id, covering)
            .await
            .unwrap();
        assert!(
            !snapshots.is_empty(),
            "events up to {} are deleted, no snapshot covers them",
            bounds.deleted_to
        );
    }
    bounds.highest.get()
}
