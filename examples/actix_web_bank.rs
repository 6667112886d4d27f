//! The accounts of `bank/account.rs` behind actix-web.
//!
//! `cargo run --release --example actix_web_bank`, then
//!
//! ```sh
//! curl -X PUT localhost:8080/accounts/7
//! curl --json '{"by": {"client": 1, "number": 1}, "cents": 500}' localhost:8080/accounts/7/deposits
//! curl --json '{"by": {"client": 1, "number": 2}, "cents": 200}' localhost:8080/accounts/7/withdrawals
//! curl -X PUT localhost:8080/accounts/8
//! curl --json '{"by": {"client": 1, "number": 3}, "to": 8, "cents": 100}' localhost:8080/accounts/7/transfers
//! curl localhost:8080/accounts/8
//! ```
//!
//! A client numbers its commands, ascending: repeated under the same number, one is answered again and done once. So after
//! a lost connection, and after a 503, a client sends it again.
//!
//! Environment: `BANK_DATA`, the folder of the journal; `BANK_LISTEN`, an address and a port; `BANK_MAX_WAITING`, how
//! many commands may wait at one account.

#![allow(
    unreachable_pub,
    reason = "a program has no outside; `pub` is what a file offers to the others"
)]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "an example talks to whoever runs it"
)]

#[path = "bank/account.rs"]
mod account;
#[path = "bank/arbiters.rs"]
mod arbiters;

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    path::PathBuf,
    process::ExitCode,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use actix_web::{
    App, HttpResponse, HttpServer, Responder, ResponseError,
    http::{StatusCode, header},
    rt::signal::unix::{SignalKind, signal},
    web,
};
use actor_journal::{
    AskError, Command, Effect, Effects, Event, EventSourced, Handles, PersistError, Persistence,
    RecoveryError, Signal,
    actix::{Durable, PersistentActor, PersistentAddr},
};
use serde::{Deserialize, Serialize};
use tokio::{runtime::Handle, sync::Mutex, task::JoinSet};

use self::{
    account::{
        Account, AccountError, AccountId, Action, Bank, Cents, Complete, Credit, Inspect, Order,
        RecoveryCheck, Refusal, Request, Transfer,
    },
    arbiters::Arbiters,
};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// What one command may move.
const MOST_CENTS: Cents = 100_000_000;
/// A transfer goes on after this wait where an account could not take it.
const REPEAT_AFTER: Duration = Duration::from_millis(100);
/// How long a stopping server waits for requests that have begun, in seconds.
const FINISH_WITHIN: u64 = 30;

/// Serves until it is told to stop.
#[actix::main]
pub async fn main() -> ExitCode {
    match serve().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("actix_web_bank: {failure}");
            ExitCode::FAILURE
        }
    }
}

async fn serve() -> Result<(), Failure> {
    let data = env::var_os("BANK_DATA").map_or_else(
        || env::temp_dir().join("actor-journal-actix-web-bank"),
        PathBuf::from,
    );
    let listen = env::var("BANK_LISTEN").unwrap_or_else(|_| "127.0.0.1:8080".to_owned());
    let max_waiting = match env::var("BANK_MAX_WAITING") {
        Ok(commands) => commands.parse()?,
        Err(_) => 256,
    };
    let persistence = actor_journal::embedded(&data).await?;
    let bank = WebBank::open(persistence, max_waiting).await?;
    let state = web::Data::from(bank.clone());
    let server = HttpServer::new(move || App::new().app_data(state.clone()).configure(routes))
        .disable_signals()
        .shutdown_timeout(FINISH_WITHIN)
        .bind(listen)?;
    for address in server.addrs() {
        println!("listening on http://{address}, data in {}", data.display());
    }

    // Both end it the same way; actix-web's own handling would cut requests off at SIGINT.
    let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let server = server.run();
    let handle = server.handle();
    actix::spawn(async move {
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
        }
        handle.stop(true).await;
    });
    // In this order: answer requests, then settle the actors they need, then close the journal that those need.
    server.await?;
    bank.close().await
}

// HTTP ---------------------------------------------------------------------------------------------------------------

fn routes(config: &mut web::ServiceConfig) {
    config.service(
        web::scope("/accounts/{account}")
            .route("", web::put().to(open))
            .route("", web::get().to(read))
            .route("/deposits", web::post().to(deposit))
            .route("/withdrawals", web::post().to(withdraw))
            .route("/transfers", web::post().to(transfer)),
    );
}

#[derive(Deserialize)]
struct Amount {
    by: Request,
    cents: Cents,
}

#[derive(Deserialize)]
struct TransferTo {
    by: Request,
    to: AccountId,
    cents: Cents,
}

#[derive(Serialize)]
struct Balance {
    balance: Cents,
}

#[derive(Serialize)]
struct View {
    balance: Cents,
    transfers_under_way: usize,
}

type Answer<T> = Result<web::Json<T>, WebError>;

async fn open(bank: web::Data<WebBank>, account: web::Path<AccountId>) -> Result<impl Responder, WebError> {
    let bank = bank.into_inner();
    let is_new = bank.clone().open_account(*account).await?;
    let status = if is_new {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    Ok((bank.view(*account).await?, status))
}

async fn read(bank: web::Data<WebBank>, account: web::Path<AccountId>) -> Answer<View> {
    bank.view(*account).await
}

async fn deposit(
    bank: web::Data<WebBank>,
    account: web::Path<AccountId>,
    amount: web::Json<Amount>,
) -> Answer<Balance> {
    let action = Action::Deposit(movable(amount.cents)?);
    bank.order(*account, amount.by, action).await
}

async fn withdraw(
    bank: web::Data<WebBank>,
    account: web::Path<AccountId>,
    amount: web::Json<Amount>,
) -> Answer<Balance> {
    let action = Action::Withdraw(movable(amount.cents)?);
    bank.order(*account, amount.by, action).await
}

async fn transfer(
    bank: web::Data<WebBank>,
    account: web::Path<AccountId>,
    transfer: web::Json<TransferTo>,
) -> Answer<Balance> {
    let to = transfer.to;
    bank.account(to)?;
    let cents = movable(transfer.cents)?;
    bank.order(*account, transfer.by, Action::Transfer { to, cents })
        .await
}

fn movable(cents: Cents) -> Result<Cents, WebError> {
    match cents {
        1..=MOST_CENTS => Ok(cents),
        _ => Err(WebError::Amount),
    }
}

#[derive(Debug, thiserror::Error)]
enum WebError {
    #[error("account {0} is not open")]
    NotOpen(AccountId),
    #[error("cents must be 1 to {MOST_CENTS}")]
    Amount,
    #[error(transparent)]
    Account(#[from] AccountError),
    /// The account is starting again, or stopping.
    #[error(transparent)]
    NoReply(#[from] AskError),
    #[error(transparent)]
    NotRecovered(#[from] RecoveryError),
}

impl From<PersistError> for WebError {
    fn from(failure: PersistError) -> Self {
        Self::Account(failure.into())
    }
}

impl ResponseError for WebError {
    fn status_code(&self) -> StatusCode {
        match self {
            Self::NotOpen(_) => StatusCode::NOT_FOUND,
            Self::Amount | Self::Account(AccountError::Refused(Refusal::ToItself)) => {
                StatusCode::UNPROCESSABLE_ENTITY
            }
            Self::Account(AccountError::Refused(_)) => StatusCode::CONFLICT,
            // Repeating these ends the same way.
            Self::Account(AccountError::Failed(PersistError::Rejected(_) | PersistError::Panicked(_))) => {
                StatusCode::INTERNAL_SERVER_ERROR
            }
            // Overloaded, stopped, not stored, or nobody knows: numbered commands may be sent again.
            Self::Account(AccountError::Failed(_)) | Self::NoReply(_) | Self::NotRecovered(_) => {
                StatusCode::SERVICE_UNAVAILABLE
            }
        }
    }

    fn error_response(&self) -> HttpResponse {
        let status = self.status_code();
        let mut response = HttpResponse::build(status);
        if status == StatusCode::SERVICE_UNAVAILABLE {
            response.insert_header((header::RETRY_AFTER, "1"));
        }
        response.json(serde_json::json!({ "error": self.to_string() }))
    }
}

// Live accounts ------------------------------------------------------------------------------------------------------

#[derive(PersistentActor)]
#[persistent(snapshot_every = 50, keep = 2, delete_events)]
struct AccountActor {
    #[persistent(id)]
    id: String,
    #[persistent(state)]
    account: Durable<Account>,
}

struct WebBank {
    persistence: Persistence,
    max_waiting: usize,
    /// Not those of actix-web's workers, which end before the accounts may.
    arbiters: Arbiters,
    runtime: Handle,
    register: PersistentAddr<Register>,
    accounts: RwLock<BTreeMap<AccountId, PersistentAddr<AccountActor>>>,
    /// Held while an account comes to life.
    opening: Mutex<()>,
}

impl WebBank {
    /// Recovers all accounts there are.
    async fn open(persistence: Persistence, max_waiting: usize) -> Result<Arc<Self>, Failure> {
        let arbiters = Arbiters::start();
        let opened = Durable::new(&persistence);
        let register = arbiters.spawn(0, Register { opened }).await?;
        let bank = Arc::new(Self {
            persistence,
            max_waiting,
            arbiters,
            runtime: Handle::current(),
            register,
            accounts: RwLock::default(),
            opening: Mutex::default(),
        });
        for account in bank.register.ask(Opened).await?? {
            bank.bring_to_life(account).await?;
        }
        Ok(bank)
    }

    /// Stops all actors once they have handled what they have, and closes the journal. Transfers that are under way go on
    /// when the bank is opened again.
    async fn close(&self) -> Result<(), Failure> {
        let accounts = self
            .accounts
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let draining = accounts
            .into_values()
            .map(|account| async move { account.drain().await });
        draining.collect::<JoinSet<_>>().join_all().await;
        self.register.drain().await;
        Ok(self.persistence.shutdown().await?)
    }

    /// Opens an account; false if it is open.
    async fn open_account(self: Arc<Self>, account: AccountId) -> Result<bool, WebError> {
        let is_new = self.register.ask(Open(account)).await??;
        self.bring_to_life(account).await?;
        Ok(is_new)
    }

    async fn bring_to_life(self: &Arc<Self>, id: AccountId) -> Result<(), RecoveryError> {
        let _one_at_a_time = self.opening.lock().await;
        if self.account(id).is_ok() {
            return Ok(());
        }
        let bank = self.clone();
        let account = Account { id, bank };
        let max_waiting = self.max_waiting;
        let actor = AccountActor {
            id: account.persistence_id(),
            account: Durable::of(Arc::new(account), &self.persistence)
                .options(move |options| options.max_waiting(max_waiting)),
        };
        let account = self.arbiters.spawn(id, actor).await?;
        let mut accounts = self.accounts.write().unwrap_or_else(PoisonError::into_inner);
        accounts.insert(id, account);
        Ok(())
    }

    fn account(&self, id: AccountId) -> Result<PersistentAddr<AccountActor>, WebError> {
        let accounts = self.accounts.read().unwrap_or_else(PoisonError::into_inner);
        accounts.get(&id).cloned().ok_or(WebError::NotOpen(id))
    }

    async fn view(&self, account: AccountId) -> Answer<View> {
        let state = self.account(account)?.ask(Inspect).await??;
        Ok(web::Json(View {
            balance: state.balance,
            transfers_under_way: state.under_way.len(),
        }))
    }

    async fn order(&self, account: AccountId, by: Request, action: Action) -> Answer<Balance> {
        let balance = self.account(account)?.ask(Order { by, action }).await??;
        Ok(web::Json(Balance { balance }))
    }

    /// Asks until it is done. An account that recovers before the other is there waits here for it.
    async fn ask_until_done<C>(&self, account: AccountId, command: C)
    where
        Account: Handles<C>,
        C: Command<Reply = Result<(), PersistError>> + Copy,
    {
        loop {
            if let Ok(account) = self.account(account)
                && let Ok(Ok(())) = account.ask(command).await
            {
                return;
            }
            tokio::time::sleep(REPEAT_AFTER).await;
        }
    }
}

impl Bank for WebBank {
    fn carry(self: Arc<Self>, transfer: Transfer) {
        self.runtime.clone().spawn(async move {
            let Transfer { from, number, to, .. } = transfer;
            self.ask_until_done(to, Credit(transfer)).await;
            self.ask_until_done(from, Complete { number }).await;
        });
    }

    fn recovered(&self, account: AccountId, check: RecoveryCheck) {
        let RecoveryCheck {
            events,
            adds_up,
            under_way,
        } = check;
        if !adds_up {
            eprintln!("account {account} does not add up after {events} events");
        }
        if under_way > 0 {
            println!("account {account} takes up {under_way} transfers");
        }
    }

    fn signal(&self, account: AccountId, signal: &Signal) {
        if signal.is_failure() {
            eprintln!("account {account}: {signal:?}");
        }
    }
}

// Which accounts there are -------------------------------------------------------------------------------------------

/// One for the whole bank: an actor that is its own model.
#[derive(PersistentActor)]
#[persistent(id = "register", snapshot_every = 1_000)]
struct Register {
    #[persistent(state)]
    opened: Durable<Self>,
}

#[derive(Serialize, Deserialize, Event)]
#[event(manifest = "account-opened", version = 1)]
struct AccountOpened {
    account: AccountId,
}

impl EventSourced for Register {
    type Event = AccountOpened;
    type State = BTreeSet<AccountId>;
    const STATE_MANIFEST: &'static str = "register";
    const STATE_VERSION: u32 = 1;

    fn apply(opened: &mut BTreeSet<AccountId>, event: &AccountOpened) {
        opened.insert(event.account);
    }
}

/// Opens an account; false if it is open.
struct Open(AccountId);
/// Asks for all open accounts.
struct Opened;

impl Command for Open {
    type Reply = Result<bool, PersistError>;
}
impl Command for Opened {
    type Reply = Result<BTreeSet<AccountId>, PersistError>;
}

impl Handles<Open> for Register {
    fn handle(
        &self,
        opened: &BTreeSet<AccountId>,
        Open(account): Open,
    ) -> Effect<Self, Result<bool, PersistError>> {
        if opened.contains(&account) {
            return self.reply(Ok(false));
        }
        self.persist(AccountOpened { account }).then_reply(|_| Ok(true))
    }
}

impl Handles<Opened> for Register {
    fn handle(
        &self,
        opened: &BTreeSet<AccountId>,
        Opened: Opened,
    ) -> Effect<Self, Result<BTreeSet<AccountId>, PersistError>> {
        self.reply(Ok(opened.clone()))
    }
}
