//! Sends an actor's durable deliveries, and again until they are confirmed. One task per actor keeps the time, and only
//! while confirmations are waited for.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use tokio::{
    sync::Notify,
    time::{Instant, timeout},
};

use crate::{
    DeliveryId, PersistenceId, Redelivery, SequenceNr, Signal,
    deliveries::{Deliveries, DeliveryEvent, Due, Recorded, Schedule},
    effect_task::Actor,
};

/// The durable, unconfirmed deliveries of an actor, over all its recoveries.
pub(crate) struct Redeliveries {
    /// From here the schedule's times count.
    start: Instant,
    state: Mutex<State>,
    changed: Notify,
}

struct State {
    schedule: Schedule,
    phase: Phase,
    /// The task that keeps the time is there.
    timed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Live,
    /// The actor is gone. What is still released is sent once; the next life sends it again.
    Gone,
    /// Another writer's actor delivers now.
    Fenced,
}

/// One sending of one delivery, on its way to the model.
pub(crate) struct Sending {
    pub(crate) of: PersistenceId,
    pub(crate) id: DeliveryId,
    pub(crate) delivery: Recorded,
    first: bool,
    redeliveries: Arc<Redeliveries>,
}

impl Sending {
    /// False once it is confirmed, or somebody else will send it.
    pub(crate) fn is_wanted(&self) -> bool {
        let state = self.redeliveries.lock();
        match state.phase {
            Phase::Live => state.schedule.contains(self.id),
            Phase::Gone => self.first,
            Phase::Fenced => false,
        }
    }
}

impl Redeliveries {
    pub(crate) fn new(settings: Redelivery) -> Arc<Self> {
        Arc::new(Self {
            start: Instant::now(),
            state: Mutex::new(State {
                schedule: Schedule::new(settings),
                phase: Phase::Live,
                timed: false,
            }),
            changed: Notify::new(),
        })
    }

    /// Sends what a recovery found.
    pub(crate) fn restart(&self, actor: &Arc<Actor>, unconfirmed: &Deliveries) {
        let mut state = self.lock();
        state.schedule.clear();
        for (id, delivery) in unconfirmed.iter() {
            state.schedule.add(id, delivery.clone());
        }
        drop(state);
        for (id, _) in unconfirmed.iter() {
            actor.redeliver(id);
        }
    }

    /// What is unconfirmed is in doubt until the next recovery.
    pub(crate) fn suspend(&self) {
        self.lock().schedule.clear();
        self.changed.notify_one();
    }

    /// Nothing is sent again in this life.
    pub(crate) fn end(&self) {
        self.end_as(Phase::Gone);
    }

    /// Nothing is sent any more.
    pub(crate) fn fence(&self) {
        self.end_as(Phase::Fenced);
    }

    fn end_as(&self, end: Phase) {
        let mut state = self.lock();
        if state.phase != Phase::Fenced {
            state.phase = end;
        }
        state.schedule.clear();
        drop(state);
        self.changed.notify_one();
    }

    /// True if nothing is waited for.
    pub(crate) fn are_at_rest(&self) -> bool {
        self.lock().schedule.is_at_rest()
    }

    /// On the effect task: these events are durable. Sends what they record, ends what they confirm.
    pub(crate) fn released(self: &Arc<Self>, actor: &Arc<Actor>, events: Vec<(SequenceNr, DeliveryEvent)>) {
        for (number, event) in events {
            match event {
                DeliveryEvent::Deliver(delivery) => {
                    let id = number.into();
                    let mut state = self.lock();
                    if state.phase == Phase::Live {
                        state.schedule.add(id, delivery.clone());
                        self.schedule(actor, state, id);
                    } else {
                        drop(state);
                    }
                    self.send(actor, id, delivery, true);
                }
                DeliveryEvent::Confirm(id) => self.confirmed(id),
            }
        }
    }

    /// On the effect task: its turn to be sent again has come.
    pub(crate) fn send_again(self: &Arc<Self>, actor: &Arc<Actor>, id: DeliveryId) {
        if let Some(delivery) = self.schedule(actor, self.lock(), id) {
            self.send(actor, id, delivery, false);
        }
    }

    fn send(self: &Arc<Self>, actor: &Arc<Actor>, id: DeliveryId, delivery: Recorded, first: bool) {
        actor.deliver(Sending {
            of: actor.id.clone(),
            id,
            delivery,
            first,
            redeliveries: self.clone(),
        });
    }

    /// Counts one sending, and sees to it that the wait for its confirmation ends.
    fn schedule(
        self: &Arc<Self>,
        actor: &Arc<Actor>,
        mut state: MutexGuard<'_, State>,
        id: DeliveryId,
    ) -> Option<Recorded> {
        let before = state.schedule.next();
        let delivery = state.schedule.send(id, self.start.elapsed())?;
        let sooner = before.is_none() || state.schedule.next() < before;
        let timed = std::mem::replace(&mut state.timed, true);
        drop(state);
        if !timed {
            actor.spawn(self.clone().keep_time(Arc::downgrade(actor)));
        } else if sooner {
            self.changed.notify_one();
        }
        Some(delivery)
    }

    fn confirmed(&self, id: DeliveryId) {
        let mut state = self.lock();
        state.schedule.remove(id);
        if state.schedule.next().is_none() {
            // An actor that waits for nothing has no task.
            self.changed.notify_one();
        }
    }

    /// Does not keep the actor's id taken while it waits.
    async fn keep_time(self: Arc<Self>, actor: Weak<Actor>) {
        while let Some(wait) = self.tick(&actor) {
            // Either way there may be something due.
            drop(timeout(wait, self.changed.notified()).await);
        }
    }

    /// Hands over what is due; the wait until the next.
    fn tick(&self, actor: &Weak<Actor>) -> Option<Duration> {
        let now = self.start.elapsed();
        let (Due { again, given_up }, next) = {
            let mut state = self.lock();
            let due = state.schedule.due(now);
            let next = state.schedule.next();
            state.timed = next.is_some();
            (due, next)
        };
        if !again.is_empty() || !given_up.is_empty() {
            let actor = actor.upgrade()?;
            for id in again {
                actor.redeliver(id);
            }
            for (id, attempts) in given_up {
                actor.signal(Signal::DeliveryGivenUp { id, attempts });
            }
        }
        Some(next?.saturating_sub(now))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Redeliveries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redeliveries").finish_non_exhaustive()
    }
}
