//! smoke
use actix::prelude::*;
use journal_actix::*;
use journal_core::*;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Deposited(u64);
impl journal_core::Event for Deposited {
    const MANIFEST: &'static str = "d";
    const VERSION: u32 = 1;
}

struct Account {
    id: String,
    balance: Durable<Self>,
    pings: u64,
}
impl EventSourced for Account {
    type Event = Deposited;
    type State = u64;
    fn apply(b: &mut u64, e: &Deposited) {
        *b += e.0;
    }
}
#[derive(Message)]
#[rtype(result = "Result<u64, PersistError>")]
struct Deposit(u64);
impl Command for Deposit {
    type Reply = Result<u64, PersistError>;
}
impl Handles<Deposit> for Account {
    fn handle(&self, _: &u64, d: Deposit) -> Effect<Self, Result<u64, PersistError>> {
        self.persist(Deposited(d.0)).then_reply(|b| Ok(*b))
    }
}
struct Foreign(u64);
impl Command for Foreign {
    type Reply = Result<u64, PersistError>;
}
impl Handles<Foreign> for Account {
    fn handle(&self, _: &u64, d: Foreign) -> Effect<Self, Result<u64, PersistError>> {
        self.persist(Deposited(d.0)).then_reply(|b| Ok(*b))
    }
}
impl PersistentActor for Account {
    type Model = Self;
    fn persistence_id(&self) -> String {
        self.id.clone()
    }
    fn durable(&self) -> &Durable<Self> {
        &self.balance
    }
    fn durable_mut(&mut self) -> &mut Durable<Self> {
        &mut self.balance
    }
    fn model(&self) -> &Self {
        self
    }
}
impl Actor for Account {
    type Context = Context<Self>;
    fn started(&mut self, c: &mut Self::Context) {
        derived::started(self, c)
    }
    fn stopping(&mut self, c: &mut Self::Context) -> Running {
        derived::stopping(self, c)
    }
    fn stopped(&mut self, c: &mut Self::Context) {
        derived::stopped(self, c)
    }
}
impl Supervised for Account {
    fn restarting(&mut self, c: &mut Self::Context) {
        derived::restarting(self, c)
    }
}
impl<M> Handler<M> for Account
where
    Account: PersistentHandler<M>,
    M: Message + 'static,
    M::Result: FromFailure + Send,
{
    type Result = DurableResponse<M::Result>;
    fn handle(&mut self, m: M, c: &mut Self::Context) -> Self::Result {
        PersistentHandler::handle(self, m, c)
    }
}
#[derive(Message)]
#[rtype(result = "u64")]
struct Ping;
impl Handler<Ping> for Account {
    type Result = u64;
    fn handle(&mut self, _: Ping, _: &mut Self::Context) -> u64 {
        self.pings += 1;
        *self.balance
    }
}
impl StreamHandler<u32> for Account {
    fn handle(&mut self, _: u32, _: &mut Self::Context) {
        self.pings += 100;
    }
}

#[actix::test]
async fn smoke() {
    let journal = MemoryJournal::new();
    let persistence = Persistence::builder(journal).build().unwrap();
    let new = || Account {
        id: "a".into(),
        balance: Durable::new(&persistence),
        pings: 0,
    };
    let addr = new().start();
    assert_eq!(addr.send(Deposit(5)).await.unwrap().unwrap(), 5);
    assert_eq!(addr.send(Ask(Foreign(5))).await.unwrap().unwrap(), 10);
    assert_eq!(addr.send(Ping).await.unwrap(), 10);
    drop(addr);
    let addr = new().spawn().await.unwrap();
    assert_eq!(addr.ask(Foreign(1)).await.unwrap().unwrap(), 11);
    addr.stop().await;
    assert_eq!(addr.ask(Foreign(1)).await.unwrap_err(), AskError::Closed);
}
