//! The load: clients that send one command after the other, each to any account.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use fastrand::Rng;
use hdrhistogram::Histogram;
use indicatif::ProgressBar;
use tokio::{sync::Notify, task::JoinSet};

use super::{
    Failure,
    account::{AccountError, AccountId, Action, Order, Request},
    acknowledgements::Acknowledgements,
    bank::{Framework, LiveBank},
};

/// Clients at work at the same time, each with one command under way.
const CLIENTS: u32 = 128;
/// An account transfers to as many others at most: the next ones.
const NEIGHBOURS: u32 = 10;

/// What the clients are to do.
pub struct Load<F: Framework> {
    pub bank: Arc<LiveBank<F>>,
    pub log: Acknowledgements,
    pub accounts: u32,
    pub commands: u64,
    /// No client has given this number to a command yet, nor a higher one.
    pub first_number: u64,
    pub seed: u64,
    pub progress: ProgressBar,
}

/// What they saw.
pub struct Seen {
    /// Microseconds from a command to its durable reply, or to its refusal.
    pub latencies: Histogram<u64>,
    pub refused: u64,
}

struct Work<F: Framework> {
    load: Load<F>,
    sent: AtomicU64,
    middle: Notify,
}

impl<F: Framework> Load<F> {
    /// Sends all commands; `in_the_middle` begins after half of them.
    pub async fn run(
        self,
        in_the_middle: impl Future<Output = Result<(), Failure>>,
    ) -> Result<Seen, Failure> {
        let work = Arc::new(Work {
            load: self,
            sent: AtomicU64::new(0),
            middle: Notify::new(),
        });
        let mut clients: JoinSet<_> = (0..CLIENTS).map(|client| work.clone().client(client)).collect();
        let all_clients = async {
            let mut all = Seen::nothing()?;
            while let Some(seen) = clients.join_next().await {
                let seen = seen??;
                all.latencies.add(seen.latencies)?;
                all.refused += seen.refused;
            }
            Ok(all)
        };
        let interruption = async {
            work.middle.notified().await;
            in_the_middle.await
        };
        let (seen, ()) = tokio::try_join!(all_clients, interruption)?;
        Ok(seen)
    }
}

impl<F: Framework> Work<F> {
    async fn client(self: Arc<Self>, client: u32) -> Result<Seen, Failure> {
        let load = &self.load;
        let mut random = Rng::with_seed(load.seed + u64::from(client));
        let mut seen = Seen::nothing()?;
        let mut number = load.first_number;
        while self.may_send() {
            let by = Request { client, number };
            let (account, action) = load.choose(&mut random);
            let asked = Instant::now();
            let answer = load.bank.ask(account, Order { by, action }).await;
            seen.latencies.record(asked.elapsed().as_micros().try_into()?)?;
            match answer {
                Ok(_) => load.log.log(account, by)?,
                Err(AccountError::Refused(_)) => seen.refused += 1,
                Err(error) => return Err(format!("client {client}, account {account}: {error}").into()),
            }
            load.progress.inc(1);
            number += 1;
        }
        Ok(seen)
    }

    fn may_send(&self) -> bool {
        let sent = self.sent.fetch_add(1, Ordering::Relaxed);
        if sent == self.load.commands / 2 {
            self.middle.notify_one();
        }
        sent < self.load.commands
    }
}

impl<F: Framework> Load<F> {
    /// A command for an account; those with low numbers are busier than others.
    fn choose(&self, random: &mut Rng) -> (AccountId, Action) {
        let busiest = random.u32(1..=self.accounts);
        let account = random.u32(0..busiest);
        let cents = random.u64(1..=10_000);
        let action = match random.u8(0..10) {
            0..4 => Action::Deposit(cents),
            4..6 => Action::Withdraw(cents),
            _ => {
                let distance = random.u32(1..=NEIGHBOURS.min(self.accounts - 1));
                let to = (account + distance) % self.accounts;
                Action::Transfer { to, cents }
            }
        };
        (account, action)
    }
}

impl Seen {
    fn nothing() -> Result<Self, Failure> {
        Ok(Self {
            latencies: Histogram::new(3)?,
            refused: 0,
        })
    }
}
