//! The checks: does the money add up, and is everything there that was acknowledged?

use std::fmt;

use indicatif::HumanCount;
use serde::Serialize;

use super::{
    account::{AccountId, Cents, State},
    acknowledgements::Acknowledged,
};

/// The states of all accounts while no client and no transfer is at work; the index is the account's id.
#[derive(PartialEq)]
pub struct Books(pub Vec<State>);

/// What the accounts say of themselves, added up.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Money {
    pub balances: Cents,
    pub in_flight: Cents,
    pub deposits: Cents,
    pub withdrawals: Cents,
}

impl Books {
    /// The money of the whole bank.
    ///
    /// # Errors
    /// Balances and transfers in flight are not what was deposited and not withdrawn.
    pub fn check_money(&self) -> Result<Money, String> {
        let sum = |cents: fn(&State) -> Cents| self.0.iter().map(cents).sum();
        let money = Money {
            balances: sum(|state| state.balance),
            in_flight: self.in_flight(),
            deposits: sum(|state| state.deposited),
            withdrawals: sum(|state| state.withdrawn),
        };
        if money.balances + money.in_flight + money.withdrawals == money.deposits {
            Ok(money)
        } else {
            Err(format!("the money does not add up: {money:?}"))
        }
    }

    /// What has left its sender and not reached its receiver.
    fn in_flight(&self) -> Cents {
        let mut cents = 0;
        for (from, state) in (0..).zip(&self.0) {
            for (number, (to, amount)) in &state.under_way {
                if !self
                    .account(*to)
                    .is_some_and(|receiver| receiver.has_received(from, *number))
                {
                    cents += amount;
                }
            }
        }
        cents
    }

    /// # Errors
    /// Acknowledged commands are missing: a line about each account and client that lack some.
    pub fn check_acknowledged(&self, acknowledged: &Acknowledged) -> Result<(), String> {
        let mut missing = Vec::new();
        for ((account, client), told) in &acknowledged.done {
            let found = self.account(*account).and_then(|state| state.clients.get(client));
            let found = found.copied().unwrap_or_default();
            if found.count < told.count || found.last < told.last {
                missing.push(format!(
                    "\n  account {account}, client {client}: acknowledged {} up to number {}, found {} up to number {}",
                    told.count, told.last, found.count, found.last
                ));
            }
        }
        if missing.is_empty() {
            Ok(())
        } else {
            Err(format!("acknowledged commands are missing:{}", missing.concat()))
        }
    }

    /// Events persisted over all time.
    pub fn events(&self) -> u64 {
        self.0.iter().map(|state| state.events).sum()
    }

    /// Commands of clients that were persisted over all time.
    pub fn commands(&self) -> u64 {
        let done = self.0.iter().flat_map(|state| state.clients.values());
        done.map(|done| done.count).sum()
    }

    /// The highest number that any client has given to a command that was persisted.
    pub fn newest_command(&self) -> u64 {
        let done = self.0.iter().flat_map(|state| state.clients.values());
        done.map(|done| done.last).max().unwrap_or(0)
    }

    fn account(&self, id: AccountId) -> Option<&State> {
        self.0.get(id as usize)
    }
}

impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [balances, in_flight, deposits, withdrawals] =
            [self.balances, self.in_flight, self.deposits, self.withdrawals].map(HumanCount);
        write!(
            f,
            "balances {balances} + in flight {in_flight} = deposits {deposits} - withdrawals {withdrawals} cents"
        )
    }
}
