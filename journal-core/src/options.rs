//! What one actor wants, and the defaults.

use std::{fmt, num::NonZeroU64, sync::Arc, time::Duration};

use crate::{
    Delivers, EventSerializer, EventSourced, JournalError, MessagePack, RecoveryError, Redelivery,
    SequenceNr, SharedCodec,
    command::Admission,
    delivery::{self, Deliverer},
    ledger::AppendLimits,
    recover::Serializers,
    state_snapshot::StateSerializer,
};

/// A model with its persistence id and options, ready to be spawned by an adapter. See [`persistent`].
pub struct Persistent<A: EventSourced> {
    model: Arc<A>,
    id: String,
    options: Options<A>,
}

/// Starts the description of a persistent actor; the adapters' `spawn` ends it and checks `id`, a text or a
/// [`PersistenceId`](crate::PersistenceId). The model holds what the actor needs beside its state: settings, clients.
pub fn persistent<A: EventSourced>(model: A, id: impl Into<String>) -> Persistent<A> {
    Persistent {
        model: Arc::new(model),
        id: id.into(),
        options: Options::default(),
    }
}

/// What one actor wants; [`Persistent`] has the same methods.
pub struct Options<A: EventSourced> {
    pub(crate) snapshot_every: Option<NonZeroU64>,
    pub(crate) keep: usize,
    pub(crate) delete_events: bool,
    pub(crate) strict: bool,
    pub(crate) accept_deleted_prefix: bool,
    pub(crate) max_waiting: usize,
    pub(crate) max_waiting_bytes: usize,
    pub(crate) append: AppendLimits,
    pub(crate) recovery_idle_timeout: Duration,
    pub(crate) unknown_wait: Duration,
    pub(crate) backoff: Backoff,
    pub(crate) idle_limit: Option<Duration>,
    pub(crate) event_codec: SharedCodec<A::Event>,
    pub(crate) state_codec: SharedCodec<A::State>,
    /// Of a model that delivers, if it may.
    pub(crate) deliverer: Option<Result<Arc<dyn Deliverer<A>>, Arc<JournalError>>>,
    pub(crate) redelivery: Redelivery,
}

/// Waits between restarts: doubling from the shortest to the longest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// The first wait.
    pub shortest: Duration,
    /// No wait is longer.
    pub longest: Duration,
}

impl Backoff {
    /// The default: 200 ms to 30 s.
    pub const DEFAULT: Self = Self {
        shortest: Duration::from_millis(200),
        longest: Duration::from_secs(30),
    };

    /// The wait before restart number `attempt`, counted from 0.
    #[must_use]
    pub fn wait(&self, attempt: u32) -> Duration {
        self.shortest
            .saturating_mul(1 << attempt.min(20))
            .min(self.longest)
    }
}

impl<A: EventSourced> Options<A> {
    /// Snapshots kept by default.
    pub const DEFAULT_KEEP: usize = 2;
    /// Commands that may wait at one actor by default.
    pub const DEFAULT_MAX_WAITING: usize = 4_096;
    /// Bytes of gathered events at one actor by default; several appends' worth, so that the count decides for small
    /// events and this for large ones.
    pub const DEFAULT_MAX_WAITING_BYTES: usize = 16 << 20;
    /// Events of one append by default.
    pub const DEFAULT_APPEND_EVENTS: usize = 1_000;
    /// Bytes of one append by default; one larger write goes alone.
    pub const DEFAULT_APPEND_BYTES: usize = 1 << 20;
    /// How long recovery waits for the next answer by default.
    pub const DEFAULT_RECOVERY_IDLE_TIMEOUT: Duration = Duration::from_secs(30);
    /// How long replies of an append of unknown outcome wait to be resolved by default.
    pub const DEFAULT_UNKNOWN_WAIT: Duration = Duration::from_secs(30);
}

/// The builder methods of [`Options`], and of a type that holds them in a field.
macro_rules! option_methods {
    ($(in $options:ident)?) => {
        /// Takes a snapshot whenever the number passes a multiple of `events` (0 = never, the default).
        #[must_use]
        pub fn snapshot_every(mut self, events: u64) -> Self {
            self$(.$options)?.snapshot_every = NonZeroU64::new(events);
            self
        }

        /// Keeps the newest `snapshots`, at least one. Default [`Options::DEFAULT_KEEP`].
        #[must_use]
        pub fn keep(mut self, snapshots: usize) -> Self {
            self$(.$options)?.keep = snapshots.max(1);
            self
        }

        /// Deletes the events that the oldest kept snapshot covers, once as many snapshots exist as are kept.
        #[must_use]
        pub fn delete_events(mut self) -> Self {
            self$(.$options)?.delete_events = true;
            self
        }

        /// One write at a time: the next command waits until the former one is durable.
        #[must_use]
        pub fn strict(mut self) -> Self {
            self$(.$options)?.strict = true;
            self
        }

        /// Recovers to the initial state where events are deleted without a snapshot and without a declared fresh start:
        /// for data whose deletions another program made on purpose.
        #[must_use]
        pub fn accept_deleted_prefix(mut self) -> Self {
            self$(.$options)?.accept_deleted_prefix = true;
            self
        }

        /// How many commands may wait; more are answered [`Overloaded`](crate::PersistError::Overloaded). Default
        /// [`Options::DEFAULT_MAX_WAITING`].
        #[must_use]
        pub fn max_waiting(mut self, commands: usize) -> Self {
            self$(.$options)?.max_waiting = commands;
            self
        }

        /// How many bytes of events may wait for the journal. Default [`Options::DEFAULT_MAX_WAITING_BYTES`].
        #[must_use]
        pub fn max_waiting_bytes(mut self, bytes: usize) -> Self {
            self$(.$options)?.max_waiting_bytes = bytes;
            self
        }

        /// How large one append may get. Default [`Options::DEFAULT_APPEND_EVENTS`], [`Options::DEFAULT_APPEND_BYTES`].
        #[must_use]
        pub fn append_limits(mut self, events: usize, bytes: usize) -> Self {
            self$(.$options)?.append = AppendLimits { events, bytes };
            self
        }

        /// How long recovery waits for the journal's or the snapshot store's next answer; it starts anew with each answer.
        /// Default [`Options::DEFAULT_RECOVERY_IDLE_TIMEOUT`].
        #[must_use]
        pub fn recovery_idle_timeout(mut self, timeout: Duration) -> Self {
            self$(.$options)?.recovery_idle_timeout = timeout;
            self
        }

        /// How long replies of an append of unknown outcome wait to be resolved. Default [`Options::DEFAULT_UNKNOWN_WAIT`].
        #[must_use]
        pub fn unknown_wait(mut self, wait: Duration) -> Self {
            self$(.$options)?.unknown_wait = wait;
            self
        }

        /// The waits between restarts. Default [`Backoff::DEFAULT`].
        #[must_use]
        pub fn backoff(mut self, backoff: Backoff) -> Self {
            self$(.$options)?.backoff = backoff;
            self
        }

        /// Ends the actor when it was idle for `idle` (at most twice as long): its state leaves the memory, its id is free.
        /// The next command through its reference recovers it. It is not idle while a command waits, in the stash too,
        /// nor while it waits for the confirmation of a delivery that it has not given up.
        /// Default: never.
        #[must_use]
        pub fn passivate_after(mut self, idle: Duration) -> Self {
            self$(.$options)?.idle_limit = Some(idle);
            self
        }

        /// The codec that writes events. Default [`MessagePack`].
        #[must_use]
        pub fn event_codec(mut self, codec: impl crate::Codec<A::Event>) -> Self {
            self$(.$options)?.event_codec = Arc::new(codec);
            self
        }

        /// The codec that writes snapshots. Default [`MessagePack`].
        #[must_use]
        pub fn state_codec(mut self, codec: impl crate::Codec<A::State>) -> Self {
            self$(.$options)?.state_codec = Arc::new(codec);
            self
        }

        /// Delivers at least once what the model's commands [record](crate::Effect::then_deliver). Without it they are
        /// refused, and an actor with unconfirmed deliveries does not recover.
        #[must_use]
        pub fn delivers(self) -> Self
        where
            A: Delivers,
        {
            self.delivery_codec(MessagePack)
        }

        /// The same with another codec that writes deliveries; that of [`delivers`](Self::delivers) is [`MessagePack`].
        #[must_use]
        pub fn delivery_codec(mut self, codec: impl crate::Codec<A::Delivery>) -> Self
        where
            A: Delivers,
        {
            let deliverer = delivery::deliverer(Arc::new(codec)).map_err(Arc::new);
            self$(.$options)?.deliverer = Some(deliverer);
            self
        }

        /// How deliveries are repeated, and how many may be unconfirmed. Default [`Redelivery::DEFAULT`].
        #[must_use]
        pub fn redelivery(mut self, redelivery: Redelivery) -> Self {
            self$(.$options)?.redelivery = redelivery;
            self
        }
    };
}

impl<A: EventSourced> Options<A> {
    option_methods!();

    /// Whether a command that took the actor from one number to another is followed by a snapshot.
    pub(crate) fn snapshot_is_due(&self, before: SequenceNr, after: SequenceNr) -> bool {
        self.snapshot_every
            .is_some_and(|every| before.get() / every.get() < after.get() / every.get())
    }

    /// The codecs and schemas of what such an actor stores.
    pub(crate) fn serializers(&self) -> Result<Serializers<A>, RecoveryError> {
        let config = |error: &dyn fmt::Display| RecoveryError::Config(error.to_string());
        Ok(Serializers {
            events: EventSerializer::new(self.event_codec.clone()).map_err(|error| config(&error))?,
            states: StateSerializer::new::<A>(self.state_codec.clone()).map_err(|error| config(&error))?,
            deliverer: self
                .deliverer
                .clone()
                .transpose()
                .map_err(|error| config(&error))?,
        })
    }

    /// For adapters: the waits between restarts.
    #[must_use]
    pub fn restart_backoff(&self) -> Backoff {
        self.backoff
    }

    /// For adapters: how often to ask an engine whether it [was idle](crate::adapter::Engine::was_idle), if at all; at
    /// least a millisecond.
    #[must_use]
    pub fn idle_limit(&self) -> Option<Duration> {
        self.idle_limit.map(|idle| idle.max(Duration::from_millis(1)))
    }

    /// For adapters: the bound of waiting commands, one for all lives of the actor.
    #[must_use]
    pub fn admission(&self) -> Admission {
        Admission::new(self.max_waiting)
    }
}

impl<A: EventSourced> Persistent<A> {
    option_methods!(in options);

    /// For adapters: whose events these are; not checked yet.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// For adapters: the model; and for what it is to know only later, as the reference of an actor it delivers to.
    #[must_use]
    pub fn model(&self) -> &Arc<A> {
        &self.model
    }

    /// For adapters: the options.
    #[must_use]
    pub fn options(&self) -> &Options<A> {
        &self.options
    }
}

impl<A: EventSourced> Clone for Persistent<A> {
    fn clone(&self) -> Self {
        Self {
            model: self.model.clone(),
            id: self.id.clone(),
            options: self.options.clone(),
        }
    }
}

impl<A: EventSourced> Clone for Options<A> {
    fn clone(&self) -> Self {
        Self {
            event_codec: self.event_codec.clone(),
            state_codec: self.state_codec.clone(),
            deliverer: self.deliverer.clone(),
            ..*self
        }
    }
}

impl<A: EventSourced> Default for Options<A> {
    fn default() -> Self {
        Self {
            snapshot_every: None,
            keep: Self::DEFAULT_KEEP,
            delete_events: false,
            strict: false,
            accept_deleted_prefix: false,
            max_waiting: Self::DEFAULT_MAX_WAITING,
            max_waiting_bytes: Self::DEFAULT_MAX_WAITING_BYTES,
            append: AppendLimits {
                events: Self::DEFAULT_APPEND_EVENTS,
                bytes: Self::DEFAULT_APPEND_BYTES,
            },
            recovery_idle_timeout: Self::DEFAULT_RECOVERY_IDLE_TIMEOUT,
            unknown_wait: Self::DEFAULT_UNKNOWN_WAIT,
            backoff: Backoff::DEFAULT,
            idle_limit: None,
            event_codec: Arc::new(MessagePack),
            state_codec: Arc::new(MessagePack),
            deliverer: None,
            redelivery: Redelivery::DEFAULT,
        }
    }
}

impl<A: EventSourced> fmt::Debug for Options<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("snapshot_every", &self.snapshot_every)
            .field("keep", &self.keep)
            .field("delete_events", &self.delete_events)
            .field("strict", &self.strict)
            .field("accept_deleted_prefix", &self.accept_deleted_prefix)
            .field("max_waiting", &self.max_waiting)
            .field("max_waiting_bytes", &self.max_waiting_bytes)
            .field("append", &self.append)
            .field("recovery_idle_timeout", &self.recovery_idle_timeout)
            .field("unknown_wait", &self.unknown_wait)
            .field("backoff", &self.backoff)
            .field("passivate_after", &self.idle_limit)
            .field("delivers", &self.deliverer.is_some())
            .field("redelivery", &self.redelivery)
            .finish_non_exhaustive()
    }
}

impl<A: EventSourced> fmt::Debug for Persistent<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Persistent")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_before_a_restart_doubles_up_to_the_longest() {
        let backoff = Backoff {
            shortest: Duration::from_millis(200),
            longest: Duration::from_secs(1),
        };
        let waits = [0, 1, 2, 3, 40, u32::MAX].map(|attempt| backoff.wait(attempt).as_millis());
        assert_eq!(waits, [200, 400, 800, 1_000, 1_000, 1_000]);
    }
}
