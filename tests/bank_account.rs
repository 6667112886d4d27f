//! The model of the bank_account example: transfers under loss of actors, repetition and reordering.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a failing test panics"
)]

#[path = "../examples/bank/account.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "a file of the example, which uses more of it"
)]
mod account;

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
};

use account::{
    Account, AccountError, Action, Bank, Complete, Credit, Inspect, Order, RecoveryCheck, Refusal, Request,
    State, Transfer,
};
use actor_journal::{
    MemoryJournal, MemorySnapshotStore, Persistence, Signal, persistent,
    ractor::{PersistentRef, SpawnPersistent},
};
use fastrand::Rng;

/// Keeps what it is given, to be carried when the test says so.
#[derive(Default)]
struct Held(Mutex<Vec<Transfer>>);

impl Bank for Held {
    fn carry(self: Arc<Self>, transfer: Transfer) {
        self.0.lock().unwrap().push(transfer);
    }
    fn recovered(&self, _: u32, check: RecoveryCheck) {
        assert!(check.adds_up);
    }
    fn signal(&self, _: u32, _: &Signal) {}
}

struct Accounts {
    persistence: Persistence,
    bank: Arc<Held>,
    live: Vec<PersistentRef<Account>>,
}

impl Accounts {
    async fn new(count: u32) -> Self {
        let journal = Persistence::builder(MemoryJournal::new());
        let persistence = journal.snapshots(MemorySnapshotStore::new()).build().unwrap();
        let mut accounts = Self {
            persistence,
            bank: Arc::default(),
            live: Vec::new(),
        };
        for id in 0..count {
            let account = accounts.spawn(id).await;
            accounts.live.push(account);
        }
        accounts
    }

    async fn spawn(&self, id: u32) -> PersistentRef<Account> {
        let account = Account {
            id,
            bank: self.bank.clone(),
        };
        let id = account.persistence_id();
        persistent(account, id)
            .snapshot_every(7)
            .delete_events()
            .spawn(&self.persistence)
            .await
            .unwrap()
    }

    async fn kill(&mut self, id: u32) {
        self.live[id as usize].kill().await;
        self.live[id as usize] = self.spawn(id).await;
    }

    async fn order(&self, number: u64, action: Action) -> Result<u64, AccountError> {
        let by = Request { client: 1, number };
        self.live[0].ask(Order { by, action }).await.unwrap()
    }

    async fn credit(&self, transfer: Transfer) {
        self.live[transfer.to as usize]
            .ask(Credit(transfer))
            .await
            .unwrap()
            .unwrap();
    }

    async fn complete(&self, transfer: Transfer) {
        let number = transfer.number;
        self.live[transfer.from as usize]
            .ask(Complete { number })
            .await
            .unwrap()
            .unwrap();
    }

    async fn state(&self, id: u32) -> State {
        self.live[id as usize].ask(Inspect).await.unwrap().unwrap()
    }

    fn held(&self) -> Vec<Transfer> {
        self.bank.0.lock().unwrap().clone()
    }
}

/// Repeat a failure with `SEED=n cargo test --test bank_account`.
#[tokio::test]
async fn a_transfer_is_received_once_whatever_is_lost_repeated_or_late() {
    let seed = std::env::var("SEED").map_or_else(|_| fastrand::u64(..), |seed| seed.parse().unwrap());
    println!("seed {seed}");
    let mut random = Rng::with_seed(seed);
    let mut accounts = Accounts::new(3).await;
    accounts.order(1, Action::Deposit(1_000_000)).await.unwrap();

    let mut number = 1;
    let mut accepted = BTreeSet::new();
    for _ in 0..600 {
        let held = accounts.held();
        let any = random.choice(&held).copied();
        match (random.u8(0..10), any) {
            (0..5, _) => {
                number += 1;
                let action = Action::Transfer {
                    to: random.u32(1..3),
                    cents: random.u64(1..100),
                };
                // A client that got no answer asks again, perhaps after the account was killed.
                for _ in 0..random.u8(1..3) {
                    match accounts.order(number, action).await {
                        Ok(_) => drop(accepted.insert(number)),
                        Err(AccountError::Refused(Refusal::TooManyTransfers)) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            }
            (5..7, Some(transfer)) => accounts.credit(transfer).await,
            (7..9, Some(transfer)) => {
                accounts.credit(transfer).await;
                accounts.complete(transfer).await;
            }
            _ => accounts.kill(random.u32(0..3)).await,
        }
        for receiver in 1..3 {
            for received in accounts.state(receiver).await.received_from.values() {
                assert!(received.later.len() as u64 <= Account::MOST_UNDER_WAY);
            }
        }
    }
    // Whatever is still under way is carried after one more recovery.
    accounts.bank.0.lock().unwrap().clear();
    accounts.kill(0).await;
    accounts.state(0).await;
    for transfer in accounts.held() {
        accounts.credit(transfer).await;
        accounts.complete(transfer).await;
    }

    let sender = accounts.state(0).await;
    assert!(sender.under_way.is_empty());
    assert_eq!(sender.newest_transfer, accepted.len() as u64);
    let received = accounts.state(1).await.balance + accounts.state(2).await.balance;
    assert_eq!(sender.sent, received);
    assert_eq!(sender.balance + received, sender.deposited);
}

#[tokio::test]
async fn a_transfer_that_cannot_be_delivered_bounds_those_behind_it() {
    let accounts = Accounts::new(3).await;
    accounts.order(1, Action::Deposit(1_000)).await.unwrap();
    for number in 2..Account::MOST_UNDER_WAY + 2 {
        accounts
            .order(number, Action::Transfer { to: 1, cents: 1 })
            .await
            .unwrap();
        if let [_, .., transfer] = accounts.held()[..] {
            accounts.credit(transfer).await;
            accounts.complete(transfer).await;
        }
    }
    let one_more = Action::Transfer { to: 2, cents: 1 };
    let refused = accounts.order(100, one_more).await;
    assert!(matches!(
        refused,
        Err(AccountError::Refused(Refusal::TooManyTransfers))
    ));

    let first = accounts.held()[0];
    accounts.credit(first).await;
    accounts.complete(first).await;
    accounts.order(101, one_more).await.unwrap();
}
