//! The bank of `bank_account.rs` with the adapter swapped: the accounts are actix actors. Each of the two continues on the
//! other's `--data`.
//!
//! `cargo run --release --example bank_account_actix -- --help`. Read `bank/account.rs` first: it is the application.

#[path = "bank/run.rs"]
mod run;

use std::{process::ExitCode, sync::Arc, thread::available_parallelism};

use actor_journal::{
    AskError, Command, Handles, Persistence,
    actix::{Durable, PersistentActor, PersistentAddr, SpawnPersistent, actix::Arbiter},
};
use tokio::sync::oneshot;

use crate::run::{
    Failure,
    account::Account,
    bank::{Framework, Live},
};

#[actix::main]
async fn main() -> ExitCode {
    run::main(Actix::start()).await
}

/// An account with its model. A snapshot every 50 events; those that the older of the two kept snapshots covers are
/// deleted.
#[derive(PersistentActor)]
#[persistent(snapshot_every = 50, keep = 2, delete_events)]
struct AccountActor {
    #[persistent(id)]
    id: String,
    #[persistent(state)]
    account: Durable<Account>,
}

/// The accounts live on all of these, each on one.
#[derive(Clone)]
struct Actix(Arc<[Arbiter]>);

impl Actix {
    fn start() -> Self {
        let threads = available_parallelism().map_or(1, usize::from);
        Self((0..threads).map(|_| Arbiter::new()).collect())
    }
}

impl Framework for Actix {
    type Live = PersistentAddr<AccountActor>;

    async fn spawn(&self, account: Account, persistence: &Persistence) -> Result<Self::Live, Failure> {
        let place = account.id as usize % self.0.len();
        let actor = AccountActor {
            id: account.persistence_id(),
            account: Durable::of(Arc::new(account), persistence),
        };
        let (spawned, live) = oneshot::channel();
        let arbiter = self.0.get(place).ok_or("no arbiter")?;
        arbiter.spawn(async move {
            // Whoever no longer waits does not get it, and so it ends.
            drop(spawned.send(actor.spawn().await));
        });
        Ok(live.await??)
    }
}

impl Live for PersistentAddr<AccountActor> {
    async fn ask<C: Command>(&self, command: C) -> Result<C::Reply, AskError>
    where
        Account: Handles<C>,
    {
        PersistentAddr::ask(self, command).await
    }

    async fn kill(&self) {
        PersistentAddr::kill(self).await;
    }

    async fn stop(&self) {
        PersistentAddr::stop(self).await;
    }
}
