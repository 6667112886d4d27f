//! What a command does, as a value.

use std::{any::Any, fmt};

use crate::{Command, Delivers, DeliveryId, EventSourced, Handles, SequenceNr};

pub(crate) type Inner = Box<dyn FnOnce() + Send>;
pub(crate) type Outer<S> = Box<dyn FnOnce(&S) -> Inner + Send>;
pub(crate) type Compute<S, R> = Box<dyn FnOnce(&S) -> R + Send>;

/// The decision of a handler: events to persist, then a reply and what else follows. Everything that can be seen from
/// outside is withheld until all events it depends on are durable, then released in the order of the commands.
#[must_use = "an effect does nothing unless the handler returns it"]
pub struct Effect<A: EventSourced, R = ()> {
    pub(crate) events: Vec<A::Event>,
    pub(crate) answer: Answer<A, R>,
    pub(crate) runs: Vec<Outer<A::State>>,
    pub(crate) deliveries: Vec<DeliveryEffect>,
    pub(crate) also: Also,
}

pub(crate) enum DeliveryEffect {
    /// The model's [`Delivers::Delivery`].
    Deliver(Box<dyn Any + Send>),
    Confirm(DeliveryId),
}

/// What has no type parameters of the effect's.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Also {
    pub(crate) unstash: bool,
    pub(crate) stop: bool,
    pub(crate) snapshot: bool,
    pub(crate) delete_to: Option<SequenceNr>,
    pub(crate) restart_from_here: bool,
    pub(crate) unhandled: bool,
}

pub(crate) enum Answer<A: EventSourced, R> {
    Value(R),
    Compute(Compute<A::State, R>),
    Stash(Box<dyn Deferred<A, R>>),
}

/// A command put aside, with whatever is to be done with its effect.
pub(crate) trait Deferred<A: EventSourced, R>: Send {
    fn handle(self: Box<Self>, behavior: &A, state: &A::State) -> Effect<A, R>;
}

struct Again<C>(C);

impl<A: Handles<C>, C: Command> Deferred<A, C::Reply> for Again<C> {
    fn handle(self: Box<Self>, behavior: &A, state: &A::State) -> Effect<A, C::Reply> {
        behavior.handle(state, self.0)
    }
}

struct ThenReply<A: EventSourced, F> {
    first: Box<dyn Deferred<A, ()>>,
    reply: F,
}

impl<A, R, F> Deferred<A, R> for ThenReply<A, F>
where
    A: EventSourced,
    F: FnOnce(&A::State) -> R + Send + 'static,
    R: 'static,
{
    fn handle(self: Box<Self>, behavior: &A, state: &A::State) -> Effect<A, R> {
        self.first.handle(behavior, state).then_reply(self.reply)
    }
}

impl<A: EventSourced> Effect<A> {
    /// Nothing to persist, nothing to say.
    pub fn none() -> Self {
        Effect::answer(Answer::Value(()))
    }

    /// Replies with what `reply` makes of the state right after this command's own events.
    pub fn then_reply<R: 'static>(self, reply: impl FnOnce(&A::State) -> R + Send + 'static) -> Effect<A, R> {
        let Self {
            events,
            answer,
            runs,
            deliveries,
            also,
        } = self;
        let answer = match answer {
            Answer::Stash(first) => Answer::Stash(Box::new(ThenReply { first, reply })),
            Answer::Value(()) => Answer::Compute(Box::new(reply)),
            Answer::Compute(unit) => Answer::Compute(Box::new(move |state| {
                unit(state);
                reply(state)
            })),
        };
        Effect {
            events,
            answer,
            runs,
            deliveries,
            also,
        }
    }
}

impl<A: EventSourced, R> Effect<A, R> {
    fn answer(answer: Answer<A, R>) -> Self {
        Self {
            events: Vec::new(),
            answer,
            runs: Vec::new(),
            deliveries: Vec::new(),
            also: Also::default(),
        }
    }

    /// After the events: `prepare` sees the state right after this command's own events; what it returns runs once
    /// those events are durable, on the actor's effect task, and not at all if they fail.
    ///
    /// ```text
    /// .then_run(|state| { let balance = state.cents; move || notify(balance) })
    /// ```
    pub fn then_run<F: FnOnce() + Send + 'static>(
        mut self,
        prepare: impl FnOnce(&A::State) -> F + Send + 'static,
    ) -> Self {
        self.runs.push(Box::new(move |state| Box::new(prepare(state))));
        self
    }

    /// Records a delivery together with the events, to be [sent](Delivers::send) once they are durable, and again until
    /// it is confirmed. May be called several times.
    pub fn then_deliver(mut self, delivery: A::Delivery) -> Self
    where
        A: Delivers,
    {
        self.deliveries.push(DeliveryEffect::Deliver(Box::new(delivery)));
        self
    }

    /// Records with the events that a delivery has arrived: it is not sent again. One that is unknown, or confirmed
    /// already, changes nothing. May be called several times.
    pub fn then_confirm(mut self, id: DeliveryId) -> Self {
        self.deliveries.push(DeliveryEffect::Confirm(id));
        self
    }

    /// Returns all stashed commands to the head of the queue, in order.
    pub fn then_unstash_all(mut self) -> Self {
        self.also.unstash = true;
        self
    }

    /// Stops the actor once everything handled so far is durable. Later commands get
    /// [`PersistError::Stopped`](crate::PersistError::Stopped).
    pub fn then_stop(mut self) -> Self {
        self.also.stop = true;
        self
    }

    /// Takes a snapshot of the state after this command's events; skipped while one is under way.
    pub fn then_snapshot(mut self) -> Self {
        self.also.snapshot = true;
        self
    }

    /// Deletes the events up to `sequence_nr`, if a snapshot covers them; otherwise a
    /// [`Signal::EventsNotDeleted`](crate::Signal) says why not.
    pub fn then_delete_to(mut self, sequence_nr: SequenceNr) -> Self {
        self.also.delete_to = Some(sequence_nr);
        self
    }

    /// Declares that the state after this command's events is the initial one, and deletes all events. Refused
    /// ([`PersistError::NotInitialState`](crate::PersistError::NotInitialState)) if it is not, or if deliveries are not
    /// confirmed.
    pub fn then_restart_from_here(mut self) -> Self {
        self.also.restart_from_here = true;
        self
    }
}

/// The effects a handler starts from, as methods of the model, so that types are inferred.
pub trait Effects: EventSourced {
    /// Persists one event.
    fn persist(&self, event: impl Into<Self::Event>) -> Effect<Self> {
        self.persist_all([event.into()])
    }

    /// Persists several events, all or none. None at all is legal and only runs what follows.
    fn persist_all(&self, events: impl IntoIterator<Item = Self::Event>) -> Effect<Self> {
        Effect {
            events: events.into_iter().collect(),
            ..Effect::none()
        }
    }

    /// Persists nothing.
    fn none(&self) -> Effect<Self> {
        Effect::none()
    }

    /// Replies without persisting anything.
    fn reply<R>(&self, reply: R) -> Effect<Self, R> {
        Effect::answer(Answer::Value(reply))
    }

    /// Puts the command aside, with its caller, until [`Effect::then_unstash_all`].
    fn stash<C: Command>(&self, command: C) -> Effect<Self, C::Reply>
    where
        Self: Handles<C>,
    {
        Effect::answer(Answer::Stash(Box::new(Again(command))))
    }

    /// The command means nothing in this state; becomes a [`Signal::Unhandled`](crate::Signal).
    fn unhandled(&self) -> Effect<Self> {
        let mut effect = Effect::none();
        effect.also.unhandled = true;
        effect
    }
}

impl<A: EventSourced> Effects for A {}

impl<A: EventSourced, R> fmt::Debug for Effect<A, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Effect")
            .field("events", &self.events.len())
            .field("runs", &self.runs.len())
            .field("deliveries", &self.deliveries.len())
            .field("also", &self.also)
            .finish_non_exhaustive()
    }
}
