//! A shop that owes shipments.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use journal_core::{
    Command, Delivers, DeliveryId, Effect, Effects, Event, EventSourced, Handles, PersistError, SequenceNr,
    Signal,
};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Happened {
    Ordered(String, u32),
    Shipped,
    Cleared,
}

impl Event for Happened {
    const MANIFEST: &'static str = "happened";
    const VERSION: u32 = 1;
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Ship(pub(crate) String);

impl Event for Ship {
    const MANIFEST: &'static str = "ship";
    const VERSION: u32 = 1;
}

/// In a hash map, whose encoding has no order.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Orders(pub(crate) HashMap<String, u32>);

impl Orders {
    pub(crate) fn total(&self) -> u32 {
        self.0.values().sum()
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Shop {
    pub(crate) did: Arc<Mutex<Vec<String>>>,
}

impl Shop {
    pub(crate) fn did(&self) -> Vec<String> {
        std::mem::take(&mut self.did.lock().unwrap())
    }

    fn note(&self, what: impl Into<String>) {
        self.did.lock().unwrap().push(what.into());
    }
}

impl EventSourced for Shop {
    type Event = Happened;
    type State = Orders;

    fn apply(orders: &mut Orders, event: &Happened) {
        match event {
            Happened::Ordered(article, count) => *orders.0.entry(article.clone()).or_default() += count,
            Happened::Shipped => {}
            Happened::Cleared => orders.0.clear(),
        }
    }

    fn recovered(&self, orders: &Orders) -> Effect<Self> {
        if orders.total() == 0 {
            self.none()
        } else {
            self.persist(Happened::Cleared)
        }
    }

    fn signal(&self, signal: &Signal) {
        self.note(match signal {
            Signal::RecoveryCompleted {
                highest,
                snapshot,
                replayed,
                ..
            } => format!("recovered {highest} from {snapshot}, {replayed} replayed"),
            Signal::Unhandled => "unhandled".to_owned(),
            Signal::CommandFailed(error) => format!("failed: {error}"),
            other => format!("{other:?}"),
        });
    }
}

impl Delivers for Shop {
    type Delivery = Ship;

    fn send(&self, id: DeliveryId, ship: Ship) {
        self.note(format!("ship {id} {}", ship.0));
    }
}

pub(crate) type Reply<T> = Result<T, PersistError>;

macro_rules! commands {
    ($($name:ident $(($($field:ty),*))? -> $reply:ty = |$model:ident, $state:ident, $command:pat_param| $effect:expr;)*) => {
        $(
            pub(crate) struct $name $(($(pub(crate) $field),*))?;
            impl Command for $name { type Reply = $reply; }
            impl Handles<$name> for Shop {
                fn handle(&self, $state: &Orders, $command: $name) -> Effect<Self, $reply> {
                    let $model = self;
                    $effect
                }
            }
        )*
    };
}

commands! {
    Order(&'static str, u32) -> Reply<u32> = |model, _s, Order(article, count)| {
        let noting = model.clone();
        model.persist(Happened::Ordered(article.to_owned(), count))
            .then_run(move |s| { let total = s.total(); move || noting.note(format!("total {total}")) })
            .then_reply(|s| Ok(s.total()))
    };
    Deliver(&'static str) -> Reply<()> = |model, _s, Deliver(article)|
        model.persist(Happened::Ordered(article.to_owned(), 1)).then_deliver(Ship(article.to_owned())).then_reply(|_| Ok(()));
    Shipped(DeliveryId) -> Reply<()> = |model, _s, Shipped(id)|
        model.persist(Happened::Shipped).then_confirm(id).then_reply(|_| Ok(()));
    OnceThereAre(u32) -> Reply<u32> = |model, state, OnceThereAre(total)|
        if state.total() < total { model.stash(OnceThereAre(total)) } else { model.reply(Ok(state.total())) };
    OrderAndCall(u32) -> Reply<()> = |model, _s, OrderAndCall(count)|
        model.persist(Happened::Ordered("x".to_owned(), count)).then_unstash_all().then_reply(|_| Ok(()));
    Stop -> Reply<()> = |model, _s, Stop| model.none().then_stop().then_reply(|_| Ok(()));
    TakeSnapshot -> Reply<()> = |model, _s, TakeSnapshot| model.none().then_snapshot().then_reply(|_| Ok(()));
    DeleteTo(u64) -> Reply<()> = |model, _s, DeleteTo(to)| model.none().then_delete_to(SequenceNr::new(to)).then_reply(|_| Ok(()));
    StartAgain(bool) -> Reply<()> = |model, _s, StartAgain(clear)|
        model.persist_all(clear.then_some(Happened::Cleared)).then_restart_from_here().then_reply(|_| Ok(()));
    Odd -> () = |model, _s, Odd| model.unhandled();
    Huge -> () = |model, _s, Huge| model.persist(Happened::Ordered("h".repeat(100 << 20), 1));
    Panics -> Reply<()> = |_model, _s, Panics| panic!("oh dear");
}
