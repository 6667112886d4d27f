//! The way from an engine to its adapter: wakes, and what the model is told.

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use crate::{EventSourced, Signal, command::panic_message, delivery::Deliverer, redelivery::Sending};

/// What an adapter is told by the engine of one life of an actor.
///
/// # Obligations
/// Both are called from any thread, and must not block.
pub trait Listener<A: EventSourced>: Send + Sync + 'static {
    /// The engine wants to be [stepped](crate::adapter::Engine::step) soon.
    fn wake(&self);

    /// Gives `told` to the model, in the order of the calls: here and now (on the actor's effect task), or on the
    /// actor's own thread where only that has the model.
    fn tell(&self, told: Told<A>);
}

/// Something for the model to hear.
#[must_use = "the model hears it only through `to`"]
pub struct Told<A: EventSourced>(News<A>);

enum News<A> {
    Signal(Signal),
    Delivery(Sending, Arc<dyn Deliverer<A>>),
}

impl<A: EventSourced> Told<A> {
    pub(crate) fn signal(signal: Signal) -> Self {
        Self(News::Signal(signal))
    }

    /// Gives it to the model. A panic of the model is logged and becomes one more signal.
    pub fn to(self, model: &A) {
        let tell = |signal| guarded(|| model.signal(signal));
        let told = match &self.0 {
            News::Signal(signal) => tell(signal),
            // It may have been confirmed on the way here.
            News::Delivery(sending, _) if !sending.is_wanted() => Ok(()),
            News::Delivery(sending, deliverer) => {
                let Sending { of, id, delivery, .. } = sending;
                guarded(|| deliverer.send(model, of, *id, delivery))
                    .and_then(|sent| sent.map_err(|error| error.to_string().into()))
            }
        };
        if let Err(message) = told {
            tracing::error!(told = ?self, %message, "the model panicked");
            // That it panics again is logged above already.
            drop(tell(&Signal::EffectPanicked(message)));
        }
    }
}

fn guarded<T>(user_code: impl FnOnce() -> T) -> Result<T, Arc<str>> {
    catch_unwind(AssertUnwindSafe(user_code)).map_err(|panic| panic_message(&*panic))
}

impl<A: EventSourced> fmt::Debug for Told<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            News::Signal(signal) => f.debug_tuple("Signal").field(signal).finish(),
            News::Delivery(sending, _) => f.debug_tuple("Delivery").field(&sending.id).finish(),
        }
    }
}

/// A listener whose model hears at once, on the effect task.
pub struct Direct<A, W> {
    model: Arc<A>,
    wake: W,
}

impl<A, W> Direct<A, W> {
    /// `wake` is called as [`Listener::wake`].
    pub fn new(model: Arc<A>, wake: W) -> Self {
        Self { model, wake }
    }
}

impl<A, W> Listener<A> for Direct<A, W>
where
    A: EventSourced + Send + Sync,
    W: Fn() + Send + Sync + 'static,
{
    fn wake(&self) {
        (self.wake)();
    }

    fn tell(&self, told: Told<A>) {
        told.to(&self.model);
    }
}

impl<A, W> fmt::Debug for Direct<A, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Direct").finish_non_exhaustive()
    }
}

/// A listener without its model's type.
pub(crate) trait Ears: Send + Sync {
    fn wake(&self);
    fn signal(&self, signal: Signal);
    fn deliver(&self, sending: Sending);
}

pub(crate) struct Erased<A, L> {
    pub(crate) listener: L,
    /// Where there is none, nothing is to be sent.
    pub(crate) deliverer: Option<Arc<dyn Deliverer<A>>>,
}

impl<A: EventSourced, L: Listener<A>> Ears for Erased<A, L> {
    fn wake(&self) {
        self.listener.wake();
    }

    fn signal(&self, signal: Signal) {
        self.listener.tell(Told::signal(signal));
    }

    fn deliver(&self, sending: Sending) {
        if let Some(deliverer) = &self.deliverer {
            self.listener
                .tell(Told(News::Delivery(sending, deliverer.clone())));
        }
    }
}
