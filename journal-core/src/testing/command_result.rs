//! What one command did in a test kit.

use std::fmt;

use tokio::sync::oneshot;

use crate::{DeliveryId, EventSourced, PersistError, SequenceNr, effect::Also};

/// What one command did. The state is the [kit's](crate::testing::TestKit::state).
pub struct CommandResult<A: EventSourced, R> {
    pub(crate) performed: Performed<A>,
    pub(crate) reply: oneshot::Receiver<R>,
}

/// The same without the type of its reply.
pub(crate) struct Performed<A: EventSourced> {
    pub(crate) events: Vec<A::Event>,
    pub(crate) also: Also,
    pub(crate) stashed: bool,
    pub(crate) refusal: Option<PersistError>,
    pub(crate) effects: usize,
    pub(crate) delivered: Vec<DeliveryId>,
    pub(crate) confirmed: Vec<DeliveryId>,
    pub(crate) snapshot: bool,
}

impl<A: EventSourced, R> CommandResult<A, R> {
    /// The events it persisted, in order.
    #[must_use]
    pub fn events(&self) -> &[A::Event] {
        &self.performed.events
    }

    /// The reply.
    ///
    /// # Panics
    /// If there is none: the command is still stashed, or the reply was taken.
    #[track_caller]
    pub fn reply(&mut self) -> R {
        let Some(reply) = self.try_reply() else {
            assert!(
                !self.performed.stashed,
                "there is no reply yet, the command is stashed; run a command that unstashes it first"
            );
            panic!("there is no reply; it was taken before, or the kit was restarted or dropped first");
        };
        reply
    }

    /// The reply, if there is one by now and it was not taken: a stashed command has one once it was unstashed.
    pub fn try_reply(&mut self) -> Option<R> {
        self.reply.try_recv().ok()
    }

    /// Why nothing of it was done, where the engine refused it: events that cannot be encoded or are too large, a stopped
    /// actor. The reply says the same in the application's own words.
    #[must_use]
    pub fn refusal(&self) -> Option<&PersistError> {
        self.performed.refusal.as_ref()
    }

    /// Whether it was put aside when it was run.
    #[must_use]
    pub fn is_stashed(&self) -> bool {
        self.performed.stashed
    }

    /// Whether it means nothing in this state.
    #[must_use]
    pub fn is_unhandled(&self) -> bool {
        self.performed.also.unhandled
    }

    /// Whether it called back the stashed commands; they have run.
    #[must_use]
    pub fn unstashes(&self) -> bool {
        self.performed.also.unstash
    }

    /// Whether the actor stops; the kit refuses commands until it is restarted.
    #[must_use]
    pub fn stops(&self) -> bool {
        self.performed.also.stop
    }

    /// Whether a snapshot was taken, because the command or `snapshot_every` asked for it.
    #[must_use]
    pub fn took_snapshot(&self) -> bool {
        self.performed.snapshot
    }

    /// Up to where events are to be deleted. The kit keeps them.
    #[must_use]
    pub fn deletes_to(&self) -> Option<SequenceNr> {
        self.performed.also.delete_to
    }

    /// Whether all events are to be deleted, the state being the initial one. The kit keeps them.
    #[must_use]
    pub fn restarts_from_here(&self) -> bool {
        self.performed.also.restart_from_here
    }

    /// How many `then_run` closures it had. They have run.
    #[must_use]
    pub fn effects(&self) -> usize {
        self.performed.effects
    }

    /// The deliveries it recorded. The model was asked to send them.
    #[must_use]
    pub fn delivered(&self) -> &[DeliveryId] {
        &self.performed.delivered
    }

    /// The deliveries it confirmed.
    #[must_use]
    pub fn confirmed(&self) -> &[DeliveryId] {
        &self.performed.confirmed
    }
}

impl<A: EventSourced> Default for Performed<A> {
    fn default() -> Self {
        Self {
            events: Vec::new(),
            also: Also::default(),
            stashed: false,
            refusal: None,
            effects: 0,
            delivered: Vec::new(),
            confirmed: Vec::new(),
            snapshot: false,
        }
    }
}

impl<A: EventSourced, R> fmt::Debug for CommandResult<A, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommandResult")
            .field("events", &self.performed.events.len())
            .field("effects", &self.performed.effects)
            .field("stashed", &self.performed.stashed)
            .field("refusal", &self.performed.refusal)
            .field("also", &self.performed.also)
            .finish_non_exhaustive()
    }
}
