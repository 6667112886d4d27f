//! The model: one account. It knows no journal, no actor framework and no clock.
//!
//! A transfer is three events, each the durable ground for the next step: `TransferStarted` takes the money from the
//! sender, `TransferReceived` gives it to the receiver, `TransferCompleted` lets the sender forget it. Whatever dies in
//! between, the sender goes on from its last event when it recovers, and the receiver recognises what it already has.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use actor_journal::{Command, Effect, Effects, Event, EventSourced, Handles, PersistError, Signal};
use serde::{Deserialize, Serialize};

pub type AccountId = u32;
pub type Cents = u64;

pub struct Account {
    pub id: AccountId,
    pub bank: Arc<dyn Bank>,
}

/// What an account needs from outside. Called when everything that led to the call is durable.
pub trait Bank: Send + Sync {
    /// Takes the transfer to its receiver as a [`Credit`] and then back to its sender as a [`Complete`], each repeated
    /// until it is answered. Called again after a recovery for every transfer that is still under way.
    fn carry(self: Arc<Self>, transfer: Transfer);

    /// The account has recovered to this state.
    fn recovered(&self, account: AccountId, check: RecoveryCheck);

    fn signal(&self, account: AccountId, signal: &Signal);
}

// What happened ---------------------------------------------------------------------------------------------------

#[derive(Clone, Debug, Serialize, Deserialize, Event)]
#[event(manifest = "account-event", version = 1)]
pub enum AccountEvent {
    Deposited {
        by: Request,
        cents: Cents,
    },
    Withdrawn {
        by: Request,
        cents: Cents,
    },
    TransferStarted {
        by: Request,
        number: u64,
        to: AccountId,
        cents: Cents,
    },
    TransferReceived {
        transfer: Transfer,
    },
    TransferCompleted {
        number: u64,
    },
}

/// A client numbers its commands, and repeats one under the same number until it is answered.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Request {
    pub client: u32,
    pub number: u64,
}

/// Money on its way. `from` and `number` are its id: a sender numbers its transfers 1, 2, 3, ..
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Transfer {
    pub from: AccountId,
    pub number: u64,
    pub to: AccountId,
    pub cents: Cents,
    /// The sender's transfers up to this number are completed, so that receivers need not remember them.
    pub completed_to: u64,
}

// What it adds up to ----------------------------------------------------------------------------------------------

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct State {
    pub events: u64,
    pub balance: Cents,
    pub deposited: Cents,
    pub withdrawn: Cents,
    pub sent: Cents,
    pub received: Cents,
    pub clients: BTreeMap<u32, Done>,
    /// The number of the newest transfer from here.
    pub newest_transfer: u64,
    /// Transfers from here that are not completed: receiver and amount by number.
    pub under_way: BTreeMap<u64, (AccountId, Cents)>,
    /// Transfers from others, by sender.
    pub received_from: BTreeMap<AccountId, Received>,
}

/// The commands of one client that changed this account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Done {
    pub count: u64,
    pub last: u64,
}

/// Which transfers of one sender have arrived: all of them up to a number, and some of the
/// [`Account::MOST_UNDER_WAY`] after it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Received {
    pub completed_to: u64,
    pub later: BTreeSet<u64>,
}

impl State {
    /// True if this transfer has arrived here already.
    pub fn has_received(&self, from: AccountId, number: u64) -> bool {
        self.received_from
            .get(&from)
            .is_some_and(|received| number <= received.completed_to || received.later.contains(&number))
    }

    fn has_done(&self, by: Request) -> bool {
        self.clients
            .get(&by.client)
            .is_some_and(|done| by.number <= done.last)
    }

    fn done(&mut self, by: Request) {
        let done = self.clients.entry(by.client).or_default();
        done.count += 1;
        done.last = by.number;
    }

    /// All transfers from here up to this number are completed.
    fn completed_to(&self) -> u64 {
        let oldest = self.under_way.keys().next();
        oldest.map_or(self.newest_transfer, |oldest| oldest - 1)
    }

    /// The transfers that are under way from account `from`, whose state this is, beginning with number `first`.
    fn transfers(&self, from: AccountId, first: u64) -> Vec<Transfer> {
        let completed_to = self.completed_to();
        let transfer = |(&number, &(to, cents))| Transfer {
            from,
            number,
            to,
            cents,
            completed_to,
        };
        self.under_way.range(first..).map(transfer).collect()
    }

    /// True if the balance is what came in less what went out.
    fn adds_up(&self) -> bool {
        self.deposited + self.received == self.balance + self.withdrawn + self.sent
    }
}

/// What a recovered account can say about itself.
pub struct RecoveryCheck {
    pub events: u64,
    pub adds_up: bool,
    pub under_way: usize,
}

impl EventSourced for Account {
    type Event = AccountEvent;
    type State = State;
    const STATE_MANIFEST: &'static str = "account";
    const STATE_VERSION: u32 = 1;

    fn apply(state: &mut State, event: &AccountEvent) {
        state.events += 1;
        match event {
            AccountEvent::Deposited { by, cents } => {
                state.done(*by);
                state.balance += cents;
                state.deposited += cents;
            }
            AccountEvent::Withdrawn { by, cents } => {
                state.done(*by);
                state.balance -= cents;
                state.withdrawn += cents;
            }
            AccountEvent::TransferStarted {
                by,
                number,
                to,
                cents,
            } => {
                state.done(*by);
                state.balance -= cents;
                state.sent += cents;
                state.newest_transfer = *number;
                state.under_way.insert(*number, (*to, *cents));
            }
            AccountEvent::TransferReceived { transfer } => {
                state.balance += transfer.cents;
                state.received += transfer.cents;
                let received = state.received_from.entry(transfer.from).or_default();
                received.completed_to = received.completed_to.max(transfer.completed_to);
                received.later.insert(transfer.number);
                received.later = received.later.split_off(&(received.completed_to + 1));
            }
            AccountEvent::TransferCompleted { number } => {
                state.under_way.remove(number);
            }
        }
    }

    fn recovered(&self, state: &State) -> Effect<Self> {
        let (bank, id) = (self.bank.clone(), self.id);
        let check = RecoveryCheck {
            events: state.events,
            adds_up: state.adds_up(),
            under_way: state.under_way.len(),
        };
        let told = self.none().then_run(move |_| move || bank.recovered(id, check));
        self.carry_from(0, told)
    }

    fn signal(&self, signal: &Signal) {
        self.bank.signal(self.id, signal);
    }
}

// What can be asked of it -----------------------------------------------------------------------------------------

/// A command of a client. A repeated one is answered again and done once.
#[derive(Clone, Copy, Debug)]
pub struct Order {
    pub by: Request,
    pub action: Action,
}

#[derive(Clone, Copy, Debug)]
pub enum Action {
    Deposit(Cents),
    Withdraw(Cents),
    Transfer { to: AccountId, cents: Cents },
}

/// A transfer arrives.
#[derive(Clone, Copy, Debug)]
pub struct Credit(pub Transfer);

/// A transfer from here has arrived.
#[derive(Clone, Copy, Debug)]
pub struct Complete {
    pub number: u64,
}

/// Asks for the state, once it is durable.
#[derive(Clone, Copy, Debug)]
pub struct Inspect;

#[derive(Debug, thiserror::Error)]
pub enum AccountError {
    /// Nothing was changed.
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error(transparent)]
    Failed(#[from] PersistError),
}

#[derive(Clone, Copy, Debug, thiserror::Error)]
pub enum Refusal {
    #[error("the balance is {balance} cents")]
    InsufficientFunds { balance: Cents },
    #[error("too many transfers are under way; try again later")]
    TooManyTransfers,
    #[error("an account does not transfer to itself")]
    ToItself,
}

impl Command for Order {
    type Reply = Result<Cents, AccountError>;
}

impl Command for Credit {
    type Reply = Result<(), PersistError>;
}

impl Command for Complete {
    type Reply = Result<(), PersistError>;
}

impl Command for Inspect {
    type Reply = Result<State, PersistError>;
}

impl Account {
    pub fn persistence_id(&self) -> String {
        format!("account|{}", self.id)
    }

    /// The newest transfer's number less that of the oldest under way: bounds what sender and receivers remember.
    pub const MOST_UNDER_WAY: u64 = 32;

    /// The effect, and then the transfers from number `first` on are handed to the bank.
    fn carry_from(&self, first: u64, effect: Effect<Self>) -> Effect<Self> {
        let (bank, id) = (self.bank.clone(), self.id);
        effect.then_run(move |state| {
            let transfers = state.transfers(id, first);
            move || {
                transfers
                    .into_iter()
                    .for_each(|transfer| bank.clone().carry(transfer))
            }
        })
    }
}

impl Handles<Order> for Account {
    fn handle(
        &self,
        state: &State,
        Order { by, action }: Order,
    ) -> Effect<Self, Result<Cents, AccountError>> {
        let balance = state.balance;
        if state.has_done(by) {
            return self.reply(Ok(balance));
        }
        let refuse = |refusal: Refusal| self.reply(Err(refusal.into()));
        let effect = match action {
            Action::Deposit(cents) => self.persist(AccountEvent::Deposited { by, cents }),
            Action::Withdraw(cents) | Action::Transfer { cents, .. } if cents > balance => {
                return refuse(Refusal::InsufficientFunds { balance });
            }
            Action::Withdraw(cents) => self.persist(AccountEvent::Withdrawn { by, cents }),
            Action::Transfer { to, .. } if to == self.id => return refuse(Refusal::ToItself),
            Action::Transfer { .. }
                if state.newest_transfer - state.completed_to() >= Self::MOST_UNDER_WAY =>
            {
                return refuse(Refusal::TooManyTransfers);
            }
            Action::Transfer { to, cents } => {
                let number = state.newest_transfer + 1;
                let started = AccountEvent::TransferStarted {
                    by,
                    number,
                    to,
                    cents,
                };
                self.carry_from(number, self.persist(started))
            }
        };
        effect.then_reply(|state| Ok(state.balance))
    }
}

impl Handles<Credit> for Account {
    fn handle(&self, state: &State, Credit(transfer): Credit) -> Effect<Self, Result<(), PersistError>> {
        if state.has_received(transfer.from, transfer.number) {
            return self.reply(Ok(()));
        }
        self.persist(AccountEvent::TransferReceived { transfer })
            .then_reply(|_| Ok(()))
    }
}

impl Handles<Complete> for Account {
    fn handle(&self, state: &State, Complete { number }: Complete) -> Effect<Self, Result<(), PersistError>> {
        if !state.under_way.contains_key(&number) {
            return self.reply(Ok(()));
        }
        self.persist(AccountEvent::TransferCompleted { number })
            .then_reply(|_| Ok(()))
    }
}

impl Handles<Inspect> for Account {
    fn handle(&self, state: &State, Inspect: Inspect) -> Effect<Self, Result<State, PersistError>> {
        self.reply(Ok(state.clone()))
    }
}
