//! The way of signals from the engine to a model.

use std::{
    mem,
    sync::{Arc, Mutex, PoisonError},
};

use journal_core::{
    EventSourced,
    adapter::{Listener, Told},
};

/// Where a model hears.
pub(crate) enum Hears<M: EventSourced> {
    /// On the actor's thread, because it is the actor: what it is told waits here for the next look at the engine.
    There(Arc<Mutex<Vec<Told<M>>>>),
    /// On the effect task, through this.
    Here(Arc<dyn Fn(Told<M>) + Send + Sync>),
}

impl<M: EventSourced> Hears<M> {
    pub(crate) fn tell(&self, told: Told<M>, wake: impl FnOnce()) {
        match self {
            Self::Here(tell) => tell(told),
            Self::There(waiting) => {
                let is_first = {
                    let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
                    waiting.push(told);
                    waiting.len() == 1
                };
                if is_first {
                    wake();
                }
            }
        }
    }

    /// What waits for the actor's thread.
    pub(crate) fn take(&self) -> Vec<Told<M>> {
        match self {
            Self::There(waiting) => mem::take(&mut *waiting.lock().unwrap_or_else(PoisonError::into_inner)),
            Self::Here(_) => Vec::new(),
        }
    }
}

impl<M: EventSourced> Clone for Hears<M> {
    fn clone(&self) -> Self {
        match self {
            Self::There(waiting) => Self::There(waiting.clone()),
            Self::Here(tell) => Self::Here(tell.clone()),
        }
    }
}

/// The listener of one life.
pub(crate) struct Ears<M: EventSourced, W> {
    pub(crate) hears: Hears<M>,
    pub(crate) wake: W,
}

impl<M: EventSourced, W: Fn() + Send + Sync + 'static> Listener<M> for Ears<M, W> {
    fn wake(&self) {
        (self.wake)();
    }

    fn tell(&self, told: Told<M>) {
        self.hears.tell(told, &self.wake);
    }
}
