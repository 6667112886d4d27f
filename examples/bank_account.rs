//! A bank of persistent actors: load, kills in the middle, recovery, and the proof that nothing is missing. The accounts
//! are ractor actors, on the embedded journal.
//!
//! `cargo run --release --example bank_account -- --help`. Read `bank/account.rs` first: it is the application. This
//! file makes ractor actors of accounts, `bank_account_actix.rs` actix actors of the same; the rest of `bank/` sends
//! commands, counts and checks.

#[path = "bank/run.rs"]
mod run;

use std::process::ExitCode;

use actor_journal::{
    AskError, Command, Handles, Persistence, persistent,
    ractor::{PersistentRef, SpawnPersistent},
};

use crate::run::{
    Failure,
    account::Account,
    bank::{Framework, Live},
};

#[tokio::main]
async fn main() -> ExitCode {
    run::main(Ractor).await
}

#[derive(Clone)]
struct Ractor;

impl Framework for Ractor {
    type Live = PersistentRef<Account>;

    async fn spawn(&self, account: Account, persistence: &Persistence) -> Result<Self::Live, Failure> {
        let id = account.persistence_id();
        // A snapshot every 50 events; those that the older of the two kept snapshots covers are deleted.
        let account = persistent(account, id).snapshot_every(50).keep(2).delete_events();
        Ok(account.spawn(persistence).await?)
    }
}

impl Live for PersistentRef<Account> {
    async fn ask<C: Command>(&self, command: C) -> Result<C::Reply, AskError>
    where
        Account: Handles<C>,
    {
        PersistentRef::ask(self, command).await
    }

    async fn kill(&self) {
        PersistentRef::kill(self).await;
    }

    async fn stop(&self) {
        PersistentRef::stop(self).await;
    }
}
