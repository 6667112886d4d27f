//! Commands on their way through the engine: erased, with the port their reply goes to.

use std::{
    any::Any,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use crate::{
    Command, Effect, EventSourced, FromFailure, Handles, PersistError, Signal,
    effect::{Also, Answer, Compute, Deferred, DeliveryEffect, Outer},
    listener::Told,
    persist_error::{NoPort, ReplyPort},
};

/// A command with its reply port, whatever their types. Dropping it unhandled drops the port: the caller sees a closed
/// channel.
pub struct BoxedCommand<A: EventSourced> {
    erased: Box<dyn Erased<A>>,
    admitted: Option<Admitted>,
}

impl<A: EventSourced> BoxedCommand<A> {
    /// A command whose reply goes to `port`.
    pub fn new<C: Command>(command: C, port: impl ReplyPort<C::Reply>) -> Self
    where
        A: Handles<C>,
    {
        Self {
            erased: Box::new(Envelope { command, port }),
            admitted: None,
        }
    }

    /// Counts it against the bound of waiting commands, from now until it is answered.
    ///
    /// # Errors
    /// The command, if the bound is reached; [`refuse`](BoxedCommand::refuse) it.
    pub fn admit(mut self, admission: &Admission) -> Result<Self, (Self, PersistError)> {
        if self.admitted.is_none() {
            match admission.enter() {
                Ok(admitted) => self.admitted = Some(admitted),
                Err(error) => return Err((self, error)),
            }
        }
        Ok(self)
    }

    /// Answers it with a failure; nothing of it was done. Returns what the model is to be told where nobody waits, or
    /// where the conversion of the failure panicked.
    pub fn refuse(self, error: PersistError) -> Option<Told<A>> {
        self.refuse_with_signal(error).map(Told::signal)
    }

    pub(crate) fn refuse_with_signal(self, error: PersistError) -> Option<Signal> {
        let Self { erased, admitted } = self;
        drop(admitted);
        catch_unwind(AssertUnwindSafe(|| erased.refuse(error))).unwrap_or_else(|panic| {
            let message = panic_message(&*panic);
            tracing::error!(%message, "a refusal panicked");
            Some(Signal::EffectPanicked(message))
        })
    }

    /// `EventSourced::recovered` as a command that nobody sent.
    pub(crate) fn recovered() -> Self {
        Self {
            erased: Box::new(RecoveredHook),
            admitted: None,
        }
    }

    pub(crate) fn handle(self, behavior: &A, state: &A::State) -> Handled<A> {
        self.erased.handle(behavior, state, self.admitted)
    }
}

impl<A: EventSourced> fmt::Debug for BoxedCommand<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoxedCommand").finish_non_exhaustive()
    }
}

/// What a handler decided, or that it panicked.
pub(crate) enum Handled<A: EventSourced> {
    Effect {
        events: Vec<A::Event>,
        runs: Vec<Outer<A::State>>,
        deliveries: Vec<DeliveryEffect>,
        also: Also,
        reply: Box<dyn PendingReply<A::State>>,
    },
    Stashed {
        command: BoxedCommand<A>,
        also: Also,
    },
    Panicked {
        reply: Box<dyn HeldReply>,
        message: Arc<str>,
    },
}

/// A reply that waits for its events to become durable.
pub(crate) trait HeldReply: Send {
    /// Its events are durable.
    fn release(self: Box<Self>);
    /// They are not. Runs the user's conversion; returns a signal where nobody waits.
    fn fail(self: Box<Self>, error: PersistError) -> Option<Signal>;
}

/// A reply whose value is not computed yet.
pub(crate) trait PendingReply<S>: HeldReply {
    /// Computes the value on the state right after the command's own events.
    fn evaluate(&mut self, state: &S);
}

trait Erased<A: EventSourced>: Send {
    fn handle(self: Box<Self>, behavior: &A, state: &A::State, admitted: Option<Admitted>) -> Handled<A>;
    fn refuse(self: Box<Self>, error: PersistError) -> Option<Signal>;
}

struct Envelope<C, P> {
    command: C,
    port: P,
}

impl<A: Handles<C>, C: Command, P: ReplyPort<C::Reply>> Erased<A> for Envelope<C, P> {
    fn handle(self: Box<Self>, behavior: &A, state: &A::State, admitted: Option<Admitted>) -> Handled<A> {
        let Self { command, port } = *self;
        finish(port, admitted, || behavior.handle(state, command))
    }

    fn refuse(self: Box<Self>, error: PersistError) -> Option<Signal> {
        answer_failure(self.port, error)
    }
}

struct StashedEnvelope<A: EventSourced, R, P> {
    deferred: Box<dyn Deferred<A, R>>,
    port: P,
}

impl<A, R, P> Erased<A> for StashedEnvelope<A, R, P>
where
    A: EventSourced,
    R: FromFailure + Send + 'static,
    P: ReplyPort<R>,
{
    fn handle(self: Box<Self>, behavior: &A, state: &A::State, admitted: Option<Admitted>) -> Handled<A> {
        let Self { deferred, port } = *self;
        finish(port, admitted, || deferred.handle(behavior, state))
    }

    fn refuse(self: Box<Self>, error: PersistError) -> Option<Signal> {
        answer_failure(self.port, error)
    }
}

struct RecoveredHook;

impl<A: EventSourced> Erased<A> for RecoveredHook {
    fn handle(self: Box<Self>, behavior: &A, state: &A::State, admitted: Option<Admitted>) -> Handled<A> {
        finish(NoPort, admitted, || behavior.recovered(state))
    }

    fn refuse(self: Box<Self>, error: PersistError) -> Option<Signal> {
        answer_failure::<()>(NoPort, error)
    }
}

fn finish<A, R, P>(port: P, admitted: Option<Admitted>, handle: impl FnOnce() -> Effect<A, R>) -> Handled<A>
where
    A: EventSourced,
    R: FromFailure + Send + 'static,
    P: ReplyPort<R>,
{
    let mut slot = ReplySlot {
        value: Value::<A::State, R>::None,
        port,
        admitted,
    };
    // The model is behind `&self`, the state behind `&`: a panic leaves neither half changed.
    match catch_unwind(AssertUnwindSafe(handle)) {
        Err(panic) => Handled::Panicked {
            reply: Box::new(slot),
            message: panic_message(&*panic),
        },
        Ok(Effect {
            events,
            answer,
            runs,
            deliveries,
            also,
        }) => {
            slot.value = match answer {
                Answer::Value(value) => Value::Ready(value),
                Answer::Compute(compute) => Value::Pending(compute),
                Answer::Stash(deferred) => {
                    let erased = Box::new(StashedEnvelope {
                        deferred,
                        port: slot.port,
                    });
                    return Handled::Stashed {
                        command: BoxedCommand {
                            erased,
                            admitted: slot.admitted,
                        },
                        also,
                    };
                }
            };
            Handled::Effect {
                events,
                runs,
                deliveries,
                also,
                reply: Box::new(slot),
            }
        }
    }
}

fn answer_failure<R: FromFailure>(port: impl ReplyPort<R>, error: PersistError) -> Option<Signal> {
    match R::from_failure(error.clone()) {
        Some(reply) => {
            port.send(reply);
            None
        }
        None => Some(Signal::CommandFailed(error)),
    }
}

struct ReplySlot<S, R, P> {
    value: Value<S, R>,
    port: P,
    /// The command counts as waiting until this is dropped with its answer.
    admitted: Option<Admitted>,
}

enum Value<S, R> {
    None,
    Pending(Compute<S, R>),
    Ready(R),
}

impl<S, R, P> HeldReply for ReplySlot<S, R, P>
where
    R: FromFailure + Send + 'static,
    P: ReplyPort<R>,
{
    fn release(self: Box<Self>) {
        let Self {
            value,
            port,
            admitted,
        } = *self;
        // The place first: whoever has the reply may send the next command.
        drop(admitted);
        if let Value::Ready(reply) = value {
            port.send(reply);
        }
    }

    fn fail(self: Box<Self>, error: PersistError) -> Option<Signal> {
        let Self { port, admitted, .. } = *self;
        drop(admitted);
        answer_failure(port, error)
    }
}

impl<S, R, P> PendingReply<S> for ReplySlot<S, R, P>
where
    R: FromFailure + Send + 'static,
    P: ReplyPort<R>,
{
    fn evaluate(&mut self, state: &S) {
        self.value = match std::mem::replace(&mut self.value, Value::None) {
            Value::Pending(compute) => Value::Ready(compute(state)),
            value => value,
        };
    }
}

/// The bound of commands that wait at one actor: in its mailbox, stashed, or withheld.
#[derive(Debug, Clone)]
pub struct Admission {
    waiting: Arc<AtomicUsize>,
    limit: usize,
}

impl Admission {
    /// At most `limit` waiting commands.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            waiting: Arc::new(AtomicUsize::new(0)),
            limit,
        }
    }

    /// How many commands wait now.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    fn enter(&self) -> Result<Admitted, PersistError> {
        let one_more = |waiting| (waiting < self.limit).then_some(waiting + 1);
        match self
            .waiting
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more)
        {
            Ok(_) => Ok(Admitted(self.waiting.clone())),
            Err(waiting) => Err(PersistError::Overloaded { waiting, bytes: 0 }),
        }
    }
}

struct Admitted(Arc<AtomicUsize>);

impl Drop for Admitted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> Arc<str> {
    let text = panic
        .downcast_ref::<&'static str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("a panic without a text").into()
}
