//! The live accounts, whichever framework's actors they are.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use actor_journal::{AskError, Command, Handles, PersistError, Persistence, Signal};
use tokio::{runtime::Handle, sync::watch, task::JoinSet};

use super::{
    Failure,
    account::{Account, AccountError, AccountId, Bank, Complete, Credit, Inspect, RecoveryCheck, Transfer},
    audit::Books,
};

/// How long a command is repeated before its account counts as broken.
const PATIENCE: Duration = Duration::from_secs(30);
const REPEAT_AFTER: Duration = Duration::from_millis(10);

/// What the bank needs of an actor framework.
pub trait Framework: Send + Sync + 'static {
    /// A reference to a live account.
    type Live: Live;

    /// Recovers an account from its newest snapshot and the events behind it.
    fn spawn(
        &self,
        account: Account,
        persistence: &Persistence,
    ) -> impl Future<Output = Result<Self::Live, Failure>> + Send;
}

/// What the bank needs of a live account.
pub trait Live: Clone + Send + Sync + 'static {
    fn ask<C: Command>(&self, command: C) -> impl Future<Output = Result<C::Reply, AskError>> + Send
    where
        Account: Handles<C>;

    fn kill(&self) -> impl Future<Output = ()> + Send;

    fn stop(&self) -> impl Future<Output = ()> + Send;
}

pub struct LiveBank<F: Framework> {
    framework: F,
    persistence: Persistence,
    /// The live accounts; `None` while one is not there, and whoever wants it waits.
    accounts: Vec<watch::Sender<Option<F::Live>>>,
    /// Transfers that are being carried.
    carried: watch::Sender<usize>,
    recoveries: Mutex<Recoveries>,
    runtime: Handle,
}

#[derive(Default)]
struct Recoveries {
    /// Where an account's latest recovery ended, until the account says what it recovered to.
    latest: HashMap<AccountId, Recovery>,
    done: Vec<Recovery>,
    faults: Vec<String>,
}

/// One recovery of an account that had events.
#[derive(Clone, Copy)]
pub struct Recovery {
    pub highest: u64,
    /// The number of the snapshot it began with; 0 without one.
    pub snapshot: u64,
    /// Events replayed after that.
    pub tail: u64,
    pub transfers_resumed: usize,
}

impl<F: Framework> LiveBank<F> {
    /// Brings all accounts to life; `recovered` is called after each.
    pub async fn open(
        framework: F,
        persistence: Persistence,
        accounts: u32,
        recovered: impl Fn(),
    ) -> Result<Arc<Self>, Failure> {
        let bank = Arc::new(Self {
            framework,
            persistence,
            accounts: (0..accounts).map(|_| watch::Sender::new(None)).collect(),
            carried: watch::Sender::new(0),
            recoveries: Mutex::default(),
            runtime: Handle::current(),
        });
        bank.for_each(bank.ids(), Self::begin, recovered).await?;
        Ok(bank)
    }

    async fn begin(self: Arc<Self>, id: AccountId) -> Result<(), Failure> {
        let account = Account {
            id,
            bank: self.clone(),
        };
        let account = self.framework.spawn(account, &self.persistence).await?;
        self.seat(id).send_replace(Some(account));
        Ok(())
    }

    /// Kills accounts in the midst of whatever they do, and recovers them.
    pub async fn kill(self: &Arc<Self>, accounts: impl Iterator<Item = AccountId>) -> Result<(), Failure> {
        let kill_one = |bank: Arc<Self>, id| async move {
            if let Some(account) = bank.seat(id).send_replace(None) {
                account.kill().await;
            }
            bank.begin(id).await
        };
        self.for_each(accounts, kill_one, || ()).await
    }

    /// Stops all accounts and closes the journal.
    pub async fn close(self: Arc<Self>) -> Result<(), Failure> {
        let stop_one = |bank: Arc<Self>, id| async move {
            if let Some(account) = bank.seat(id).send_replace(None) {
                account.stop().await;
            }
            Ok(())
        };
        self.for_each(self.ids(), stop_one, || ()).await?;
        Ok(self.persistence.shutdown().await?)
    }

    /// Asks an account, and asks again after any failure: it may have been killed, and all commands may be repeated.
    pub async fn ask<C, T, E>(&self, account: AccountId, command: C) -> Result<T, AccountError>
    where
        Account: Handles<C>,
        C: Command<Reply = Result<T, E>> + Copy,
        E: Into<AccountError>,
    {
        let started = Instant::now();
        loop {
            let failure = match self.account(account).await.ask(command).await {
                Ok(reply) => match reply.map_err(Into::into) {
                    Err(AccountError::Failed(failure)) => failure,
                    answer => return answer,
                },
                Err(_) => PersistError::Stopped,
            };
            if started.elapsed() > PATIENCE {
                return Err(failure.into());
            }
            tokio::time::sleep(REPEAT_AFTER).await;
        }
    }

    /// Waits until no transfer is under way, then returns the states of all accounts. No client may be at work.
    ///
    /// # Errors
    /// Something went wrong that no client was told of.
    pub async fn books(&self) -> Result<Books, Failure> {
        self.carried.subscribe().wait_for(|carried| *carried == 0).await?;
        let mut states = Vec::new();
        for id in self.ids() {
            states.push(self.ask(id, Inspect).await?);
        }
        let faults = &self.recoveries().faults;
        if faults.is_empty() {
            Ok(Books(states))
        } else {
            Err(faults.join("\n").into())
        }
    }

    /// All recoveries so far.
    pub fn recovered(&self) -> Vec<Recovery> {
        self.recoveries().done.clone()
    }

    pub fn ids(&self) -> impl Iterator<Item = AccountId> + use<F> {
        (0..).take(self.accounts.len())
    }

    /// The live account, as soon as there is one.
    async fn account(&self, id: AccountId) -> F::Live {
        let mut seat = self.seat(id).subscribe();
        loop {
            if let Some(account) = &*seat.borrow_and_update() {
                return account.clone();
            }
            // The sender is in `self`: this ends only by a change.
            drop(seat.changed().await);
        }
    }

    #[expect(clippy::indexing_slicing, reason = "ids are below the number of accounts")]
    fn seat(&self, id: AccountId) -> &watch::Sender<Option<F::Live>> {
        &self.accounts[id as usize]
    }

    fn recoveries(&self) -> MutexGuard<'_, Recoveries> {
        self.recoveries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fault(&self, what: String) {
        self.recoveries().faults.push(what);
    }

    /// Does the same with many accounts at once.
    async fn for_each<T>(
        self: &Arc<Self>,
        accounts: impl Iterator<Item = AccountId>,
        task: impl Fn(Arc<Self>, AccountId) -> T,
        done: impl Fn(),
    ) -> Result<(), Failure>
    where
        T: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        let mut tasks: JoinSet<_> = accounts.map(|id| task(self.clone(), id)).collect();
        while let Some(ended) = tasks.join_next().await {
            ended??;
            done();
        }
        Ok(())
    }
}

impl<F: Framework> Bank for LiveBank<F> {
    fn carry(self: Arc<Self>, transfer: Transfer) {
        self.carried.send_modify(|carried| *carried += 1);
        self.runtime.clone().spawn(async move {
            let Transfer { from, number, to, .. } = transfer;
            let carried = async {
                self.ask(to, Credit(transfer)).await?;
                self.ask(from, Complete { number }).await
            };
            if let Err(error) = carried.await {
                self.fault(format!("transfer {number} of account {from} to {to}: {error}"));
            }
            self.carried.send_modify(|carried| *carried -= 1);
        });
    }

    fn recovered(&self, account: AccountId, check: RecoveryCheck) {
        let mut recoveries = self.recoveries();
        let Some(mut recovery) = recoveries.latest.remove(&account) else {
            return;
        };
        if check.events != recovery.highest || !check.adds_up {
            let RecoveryCheck { events, adds_up, .. } = check;
            let highest = recovery.highest;
            recoveries.faults.push(format!(
                "account {account} recovered wrongly: {events} events of {highest}, adds up: {adds_up}"
            ));
        }
        if recovery.highest > 0 {
            recovery.transfers_resumed = check.under_way;
            recoveries.done.push(recovery);
        }
    }

    fn signal(&self, account: AccountId, signal: &Signal) {
        match signal {
            Signal::RecoveryCompleted {
                highest,
                snapshot,
                replayed,
                ..
            } => {
                let recovery = Recovery {
                    highest: highest.get(),
                    snapshot: snapshot.get(),
                    tail: *replayed,
                    transfers_resumed: 0,
                };
                self.recoveries().latest.insert(account, recovery);
            }
            failure if failure.is_failure() => self.fault(format!("account {account}: {failure:?}")),
            _ => {}
        }
    }
}
