//! Deliveries as an application sees them: a message that an actor owes to somebody until it is confirmed.

use std::{any::Any, collections::BTreeSet, fmt, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    Backoff, CodecError, Event, EventSerializer, EventSourced, JournalError, PersistError, PersistenceId,
    SequenceNr, SharedCodec, Timestamp,
    deliveries::{Deliveries, DeliveryEvent, Recorded},
    effect::DeliveryEffect,
};

/// A model that delivers at least once: [`Effect::then_deliver`](crate::Effect::then_deliver) records a delivery with
/// the command's events, and it is sent once they are durable, and again, until
/// [`Effect::then_confirm`](crate::Effect::then_confirm).
///
/// An actor of it is described with `.delivers()`, or such a command is refused.
///
/// ```
/// # use journal_core::{Command, Delivers, DeliveryId, Effect, Effects, Event, EventSourced, Handles, PersistError};
/// # use serde::{Deserialize, Serialize};
/// # #[derive(Serialize, Deserialize)]
/// # enum Happened { Ordered, Arrived }
/// # impl Event for Happened {
/// #     const MANIFEST: &'static str = "happened";
/// #     const VERSION: u32 = 1;
/// # }
/// # #[derive(Serialize, Deserialize)]
/// # struct Ship { article: String }
/// # impl Event for Ship {
/// #     const MANIFEST: &'static str = "ship";
/// #     const VERSION: u32 = 1;
/// # }
/// # struct Shop { warehouse: std::sync::mpsc::Sender<(DeliveryId, Ship)> }
/// # impl EventSourced for Shop {
/// #     type Event = Happened;
/// #     type State = ();
/// #     fn apply(_: &mut (), _: &Happened) {}
/// # }
/// # struct Order { article: String }
/// # impl Command for Order { type Reply = Result<(), PersistError>; }
/// # struct Arrived { delivery: DeliveryId }
/// # impl Command for Arrived { type Reply = Result<(), PersistError>; }
/// impl Delivers for Shop {
///     type Delivery = Ship;
///     fn send(&self, id: DeliveryId, ship: Ship) {
///         let _ = self.warehouse.send((id, ship));
///     }
/// }
///
/// impl Handles<Order> for Shop {
///     fn handle(&self, _: &(), order: Order) -> Effect<Self, Result<(), PersistError>> {
///         // The order is stored together with the debt to have it shipped.
///         let ship = Ship { article: order.article };
///         self.persist(Happened::Ordered).then_deliver(ship).then_reply(|_| Ok(()))
///     }
/// }
///
/// impl Handles<Arrived> for Shop {
///     fn handle(&self, _: &(), arrived: Arrived) -> Effect<Self, Result<(), PersistError>> {
///         // The warehouse's answer ends it.
///         self.persist(Happened::Arrived).then_confirm(arrived.delivery).then_reply(|_| Ok(()))
///     }
/// }
/// # fn described(shop: Shop) -> journal_core::Persistent<Shop> {
/// journal_core::persistent(shop, "shop|1").delivers()
/// # }
/// ```
pub trait Delivers: EventSourced {
    /// What is delivered. It is stored until it is confirmed, hence an event type, with all that this means for its
    /// changes; only its tags have no meaning.
    type Delivery: Event;

    /// Sends one delivery, the first time or again.
    ///
    /// # Obligations
    /// - It must not block. A failure, and a panic, is no more than a delivery that nobody confirms.
    /// - The receiver may get a delivery more than once, also after it was confirmed, and after a restart older ones
    ///   behind newer ones. It tells them apart by the persistence id and `id`.
    fn send(&self, id: DeliveryId, delivery: Self::Delivery);
}

/// Names a delivery of one actor: the sequence number under which it was recorded. The same over all restarts, and used
/// once in a life of the persistence id. A purge starts a new life, in which a confirmation that was meant for the former
/// one would hit another delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DeliveryId(u64);

impl DeliveryId {
    /// One that has travelled as a plain number.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The plain number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl From<SequenceNr> for DeliveryId {
    fn from(recorded_at: SequenceNr) -> Self {
        Self(recorded_at.get())
    }
}

impl fmt::Display for DeliveryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// How deliveries are repeated, and how many may be unconfirmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Redelivery {
    /// The waits for a confirmation, after the first sending and after each further one.
    pub backoff: Backoff,
    /// How often a delivery is sent between two recoveries. After the last time the model gets a
    /// [`Signal::DeliveryGivenUp`](crate::Signal); the delivery is kept, and the next recovery starts again.
    pub attempts: u32,
    /// How many deliveries may be unconfirmed; a command that would record more is refused.
    pub max_unconfirmed: usize,
}

impl Redelivery {
    /// The default: again after 5 s, then after waits that double up to 5 min, 10 times in all; 1 000 unconfirmed.
    pub const DEFAULT: Self = Self {
        backoff: Backoff {
            shortest: Duration::from_secs(5),
            longest: Duration::from_secs(300),
        },
        attempts: 10,
        max_unconfirmed: 1_000,
    };
}

impl Default for Redelivery {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// A model's [`Delivers`] behind its [`EventSourced`], which is all that the engine knows of it.
pub(crate) trait Deliverer<A>: Send + Sync {
    /// `delivery` is the model's [`Delivers::Delivery`].
    fn record(&self, delivery: &dyn Any) -> Result<Recorded, CodecError>;

    /// That a stored delivery can be sent.
    fn check(&self, of: &PersistenceId, id: DeliveryId, delivery: &Recorded) -> Result<(), JournalError>;

    /// Runs user code.
    fn send(
        &self,
        model: &A,
        of: &PersistenceId,
        id: DeliveryId,
        delivery: &Recorded,
    ) -> Result<(), JournalError>;
}

pub(crate) fn deliverer<A: Delivers>(
    codec: SharedCodec<A::Delivery>,
) -> Result<Arc<dyn Deliverer<A>>, JournalError> {
    Ok(Arc::new(EventSerializer::new(codec)?))
}

impl<A: Delivers> Deliverer<A> for EventSerializer<A::Delivery> {
    fn record(&self, delivery: &dyn Any) -> Result<Recorded, CodecError> {
        // No other effect of this model can hold another type.
        let delivery = delivery
            .downcast_ref::<A::Delivery>()
            .ok_or_else(|| CodecError::encode::<A::Delivery>("the delivery is of another type"))?;
        Recorded::new(self.encode(delivery, Timestamp::default())?)
    }

    fn check(&self, of: &PersistenceId, id: DeliveryId, delivery: &Recorded) -> Result<(), JournalError> {
        self.decode_delivery(of, id, delivery).map(drop)
    }

    fn send(
        &self,
        model: &A,
        of: &PersistenceId,
        id: DeliveryId,
        delivery: &Recorded,
    ) -> Result<(), JournalError> {
        let delivery = self.decode_delivery(of, id, delivery)?;
        model.send(id, delivery);
        Ok(())
    }
}

/// What a command's effects mean for the deliveries of its actor.
pub(crate) struct Recording<'a, A> {
    pub(crate) of: &'a PersistenceId,
    pub(crate) deliverer: Option<&'a dyn Deliverer<A>>,
    pub(crate) unconfirmed: &'a Deliveries,
    pub(crate) limit: usize,
}

impl<A> Recording<'_, A> {
    /// The events to store, with their numbers, after the command's own, the last of which is `after`.
    pub(crate) fn events(
        &self,
        effects: &[DeliveryEffect],
        mut after: SequenceNr,
    ) -> Result<Vec<(SequenceNr, DeliveryEvent)>, PersistError> {
        let mut confirmed = BTreeSet::new();
        let mut delivered = 0;
        let mut events = Vec::new();
        for effect in effects {
            let event = match effect {
                DeliveryEffect::Confirm(id) => {
                    if !self.unconfirmed.contains(*id) || !confirmed.insert(*id) {
                        continue;
                    }
                    DeliveryEvent::Confirm(*id)
                }
                DeliveryEffect::Deliver(delivery) => {
                    delivered += 1;
                    DeliveryEvent::Deliver(self.record(&**delivery, after.next().into())?)
                }
            };
            after = after.next();
            events.push((after, event));
        }
        let unconfirmed = self.unconfirmed.len();
        if delivered > 0 && unconfirmed + delivered - confirmed.len() > self.limit {
            return Err(PersistError::TooManyUnconfirmed {
                unconfirmed,
                limit: self.limit,
            });
        }
        Ok(events)
    }

    fn record(&self, delivery: &dyn Any, id: DeliveryId) -> Result<Recorded, PersistError> {
        let deliverer = self.deliverer.ok_or(PersistError::NotDelivering)?;
        let rejected = |error: JournalError| PersistError::Rejected(Arc::new(error.with_id(self.of)));
        let recorded = deliverer
            .record(delivery)
            .map_err(|error| rejected(JournalError::rejected(None, error.to_string()).with_source(error)))?;
        // One that cannot be read again would never arrive, and would end every recovery.
        deliverer
            .check(self.of, id, &recorded)
            .map_err(|error| rejected(JournalError::rejected(None, error.to_string()).with_source(error)))?;
        Ok(recorded)
    }
}
