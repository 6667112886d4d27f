//! The bank of `bank_account.rs` with the adapter swapped: the accounts are actix actors. Each of the two continues on the
//! other's `--data`.
//!
//! `cargo run --release --example bank_account_actix -- --help`. Read `bank/account.rs` first: it is the application.

#[path = "bank/arbiters.rs"]
mod arbiters;
#[path = "bank/run.rs"]
mod run;

use std::{process::ExitCode, sync::Arc};

use actor_journal::{
    AskError, Command, Handles, Persistence,
    actix::{Durable, PersistentActor, PersistentAddr},
};

use crate::{
    arbiters::Arbiters,
    run::{
        Failure,
        account::Account,
        bank::{Framework, Live},
    },
};

#[actix::main]
async fn main() -> ExitCode {
    run::main(Arbiters::start()).await
}

/// An account with its model. A snapshot every 50 events; those that the older of the two kept snapshots covers are
/// deleted.
#[derive(PersistentActor)]
#[persistent(snapshot_every = 50, keep = 2, delete_events)]
pub(crate) struct AccountActor {
    #[persistent(id)]
    id: String,
    #[persistent(state)]
    account: Durable<Account>,
}

impl Framework for Arbiters {
    type Live = PersistentAddr<AccountActor>;

    async fn spawn(&self, account: Account, persistence: &Persistence) -> Result<Self::Live, Failure> {
        let number = account.id;
        let actor = AccountActor {
            id: account.persistence_id(),
            account: Durable::of(Arc::new(account), persistence),
        };
        Ok(self.spawn(number, actor).await?)
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
