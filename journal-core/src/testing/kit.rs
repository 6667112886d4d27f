//! A model under test, without an actor, a journal or a runtime.

use std::{collections::VecDeque, fmt};

use bytes::Bytes;
use tokio::sync::oneshot;

use super::{
    command_result::{CommandResult, Performed},
    round_trip::RoundTrip,
};
use crate::{
    AtomicWrite, Capabilities, Command, DeliveryId, Epoch, EventSourced, Handles, Journal, MemoryJournal,
    PersistenceId, Persistent, Record, SequenceNr, Signal, Timestamp, WriterId,
    command::{BoxedCommand, Handled},
    deliveries::{Deliveries, DeliveryEvent},
    effect::Also,
    persistent,
    prepare::{Newest, Prepare},
    recover::{Folded, Serializers},
};

/// Runs commands against a model as an actor would whose journal never fails: what a command persists is durable at once,
/// and its reply, `then_run` closures and deliveries are released, on the calling thread.
///
/// Each run checks that the command's events and the state survive their codecs, and that the stored events lead to the
/// same state; it panics with a text that says what to do if they do not. Values are compared as they are encoded, which
/// overlooks what is not encoded at all: add [`compare_events`](Self::compare_events) and
/// [`compare_states`](Self::compare_states) where the types are `PartialEq`.
///
/// The model is told [`Signal::RecoveryCompleted`], [`Signal::Unhandled`] and [`Signal::CommandFailed`]. A panic of the
/// model is a panic of the test. Journal failures are for [`FaultyJournal`](super::FaultyJournal) and a real actor.
pub struct TestKit<A: EventSourced> {
    described: Persistent<A>,
    id: PersistenceId,
    serializers: Serializers<A>,
    limits: Capabilities,
    round_trip: RoundTrip<A>,
    newest: Newest<A>,
    /// Where the stored events start: the given state.
    base: Snapshot,
    /// The newest one.
    snapshot: Option<Snapshot>,
    records: Vec<Record>,
    stash: VecDeque<BoxedCommand<A>>,
    /// Stashed commands that were called back.
    queue: VecDeque<BoxedCommand<A>>,
    stopped: bool,
}

#[derive(Default)]
struct Snapshot {
    number: SequenceNr,
    /// `None`: the initial state.
    payload: Option<Bytes>,
}

impl<A: EventSourced> TestKit<A> {
    /// A new actor of this model with default options.
    ///
    /// # Panics
    /// As [`with`](Self::with).
    #[must_use]
    #[track_caller]
    pub fn new(model: A) -> Self {
        Self::with(persistent(model, "test"))
    }

    /// A new actor as it is described: its codecs, `snapshot_every`, `delivers` and limits hold here too.
    ///
    /// # Panics
    /// If the id or the options are refused, as they would be at spawn.
    #[must_use]
    #[track_caller]
    pub fn with(described: Persistent<A>) -> Self {
        let id = PersistenceId::new(described.id()).unwrap_or_else(|error| panic!("{error}"));
        let serializers = described
            .options()
            .serializers()
            .unwrap_or_else(|error| panic!("{error}"));
        Self {
            id,
            serializers,
            limits: MemoryJournal::new().capabilities(),
            round_trip: RoundTrip {
                events: None,
                states: None,
            },
            newest: Newest {
                number: SequenceNr::ZERO,
                state: A::State::default(),
                deliveries: Deliveries::default(),
            },
            base: Snapshot::default(),
            snapshot: None,
            records: Vec::new(),
            stash: VecDeque::new(),
            queue: VecDeque::new(),
            stopped: false,
            described,
        }
    }

    /// Compares events by `==` too.
    #[must_use]
    pub fn compare_events(mut self) -> Self
    where
        A::Event: PartialEq,
    {
        self.round_trip.events = Some(PartialEq::eq);
        self
    }

    /// Compares states by `==` too.
    #[must_use]
    pub fn compare_states(mut self) -> Self
    where
        A::State: PartialEq,
    {
        self.round_trip.states = Some(PartialEq::eq);
        self
    }

    /// Starts from a snapshot of this state, at number 1, without the events before it. Before [`given`](Self::given).
    ///
    /// # Panics
    /// If the state does not survive its codec, or something was done before.
    #[must_use]
    #[track_caller]
    pub fn given_state(mut self, state: A::State) -> Self {
        assert!(
            self.newest.number == SequenceNr::ZERO,
            "the state comes first: call `given_state` before `given` and `run`, and once"
        );
        self.round_trip
            .check_state(&self.serializers, self.described.options(), &state);
        self.newest.number = SequenceNr::FIRST;
        self.newest.state = state;
        self.base = self.take_snapshot();
        self
    }

    /// These events happened before.
    ///
    /// # Panics
    /// If an event does not survive its codec.
    #[must_use]
    #[track_caller]
    pub fn given(mut self, events: impl IntoIterator<Item = A::Event>) -> Self {
        for event in events {
            let encoded = self
                .serializers
                .events
                .encode(&event, Timestamp::default())
                .unwrap_or_else(|error| panic!("a given event cannot be stored: {error}"));
            self.store(AtomicWrite::from(encoded), std::slice::from_ref(&event));
            A::apply(&mut self.newest.state, &event);
            self.newest.number = self.newest.number.next();
        }
        self.check_state();
        self
    }

    /// Runs a command, and then those stashed ones that it calls back.
    ///
    /// # Panics
    /// If the model panics, or if an event or the state does not survive its codec.
    #[track_caller]
    pub fn run<C: Command>(&mut self, command: C) -> CommandResult<A, C::Reply>
    where
        A: Handles<C>,
    {
        let (port, reply) = oneshot::channel();
        let performed = self.perform_all(BoxedCommand::new(command, port));
        CommandResult { performed, reply }
    }

    /// Runs [`EventSourced::recovered`], as an actor does after each recovery.
    ///
    /// # Panics
    /// As [`run`](Self::run).
    #[track_caller]
    pub fn recovered(&mut self) -> CommandResult<A, ()> {
        let performed = self.perform_all(BoxedCommand::recovered());
        let (answered, reply) = oneshot::channel();
        let _ = answered.send(());
        CommandResult { performed, reply }
    }

    /// Recovers: from all events and, if there is one, from the newest snapshot and the events behind it. Stashed commands
    /// are lost, unconfirmed deliveries are sent again, in that order as in an actor. [`recovered`](Self::recovered) is
    /// yours to run.
    ///
    /// # Panics
    /// If that fails, or leads to another state than the commands did.
    #[track_caller]
    pub fn restart(&mut self) -> &A::State {
        let from_events = self.recover(&self.base);
        self.check_recovered("from all its events", &from_events);
        let mut folded = from_events;
        if let Some(snapshot) = &self.snapshot {
            folded = self.recover(snapshot);
            self.check_recovered("from its newest snapshot and the events behind it", &folded);
        }
        self.stash.clear();
        self.stopped = false;
        let model = self.described.model();
        model.signal(&Signal::RecoveryCompleted {
            highest: self.newest.number,
            snapshot: folded.snapshot,
            replayed: folded.replayed,
        });
        for (id, delivery) in folded.deliveries.iter() {
            self.send(id, delivery);
        }
        self.newest.state = folded.state;
        self.newest.deliveries = folded.deliveries;
        &self.newest.state
    }

    /// The model.
    #[must_use]
    pub fn model(&self) -> &A {
        self.described.model()
    }

    /// The state after all that was done.
    #[must_use]
    pub fn state(&self) -> &A::State {
        &self.newest.state
    }

    /// The number of the newest event.
    #[must_use]
    pub fn sequence_nr(&self) -> SequenceNr {
        self.newest.number
    }

    /// The model's events from the first, given ones too, as they are read back.
    ///
    /// # Panics
    /// Never: each was read back when it was stored.
    #[must_use]
    pub fn events(&self) -> Vec<A::Event> {
        let own = self
            .records
            .iter()
            .filter(|record| !record.event.manifest.is_reserved());
        own.map(|record| {
            let event = self.serializers.events.decode(&self.id, record);
            event.unwrap_or_else(|error| panic!("{error}"))
        })
        .collect()
    }

    /// How many commands are stashed.
    #[must_use]
    pub fn stashed(&self) -> usize {
        self.stash.len()
    }

    /// The deliveries that are not confirmed, in the order of their recording.
    #[must_use]
    pub fn unconfirmed(&self) -> Vec<DeliveryId> {
        self.newest.deliveries.iter().map(|(id, _)| id).collect()
    }

    #[track_caller]
    fn perform_all(&mut self, command: BoxedCommand<A>) -> Performed<A> {
        let performed = self.perform(command);
        while let Some(unstashed) = self.queue.pop_front() {
            self.perform(unstashed);
        }
        performed
    }

    #[track_caller]
    fn perform(&mut self, command: BoxedCommand<A>) -> Performed<A> {
        let model = self.described.model().clone();
        let tell = |signal: Option<Signal>| signal.iter().for_each(|signal| model.signal(signal));
        let refused = |refusal| Performed {
            refusal: Some(refusal),
            ..Performed::default()
        };
        if self.stopped {
            let refusal = crate::PersistError::Stopped;
            tell(command.refuse_with_signal(refusal.clone()));
            return refused(refusal);
        }
        let (events, runs, deliveries, also, mut reply) = match command.handle(&model, &self.newest.state) {
            Handled::Panicked { message, .. } => panic!("the handler panicked: {message}"),
            Handled::Stashed { command, also } => {
                self.stash.push_back(command);
                self.after(also);
                return Performed {
                    stashed: true,
                    also,
                    ..Performed::default()
                };
            }
            Handled::Effect {
                events,
                runs,
                deliveries,
                also,
                reply,
            } => (events, runs, deliveries, also, reply),
        };
        let prepare = Prepare {
            id: &self.id,
            serializers: &self.serializers,
            limits: &self.limits,
            max_unconfirmed: self.described.options().redelivery.max_unconfirmed,
            timestamp: Timestamp::default(),
            newest: &self.newest,
        };
        let prepared = match prepare.write(&events, &deliveries, also) {
            Ok(prepared) => prepared,
            Err(refusal) => {
                tell(reply.fail(refusal.clone()));
                return refused(refusal);
            }
        };
        let before = self.newest.number;
        if let Some(write) = &prepared.write {
            self.store(write.clone(), &events);
        }
        let runs = self.newest.advance(&events, &prepared, runs, &mut *reply);
        self.check_state();
        let mut performed = Performed {
            events,
            also,
            effects: runs.len(),
            ..Performed::default()
        };
        runs.into_iter().for_each(|run| run());
        for (number, event) in prepared.deliveries {
            match event {
                DeliveryEvent::Deliver(delivery) => {
                    performed.delivered.push(number.into());
                    self.send(number.into(), &delivery);
                }
                DeliveryEvent::Confirm(id) => performed.confirmed.push(id),
            }
        }
        reply.release();
        let now = self.newest.number;
        let due = also.snapshot || self.described.options().snapshot_is_due(before, now);
        if due && now > SequenceNr::ZERO {
            self.snapshot = Some(self.take_snapshot());
            performed.snapshot = true;
        }
        self.after(also);
        performed
    }

    fn after(&mut self, also: Also) {
        if also.unhandled {
            self.described.model().signal(&Signal::Unhandled);
        }
        if also.unstash {
            self.stash.append(&mut self.queue);
            std::mem::swap(&mut self.stash, &mut self.queue);
        }
        self.stopped |= also.stop;
    }

    /// Of the events of the write the first are `events`.
    #[track_caller]
    fn store(&mut self, write: AtomicWrite, events: &[A::Event]) {
        let mut events = events.iter();
        let mut number = self.newest.number;
        for event in write.events {
            number = number.next();
            let record = Record {
                sequence_nr: number,
                writer: WriterId::from_bytes([0; 16]),
                epoch: Epoch::from_u64(1),
                commit_order: None,
                event,
            };
            if let Some(event) = events.next() {
                let options = self.described.options();
                self.round_trip
                    .check_event(&self.serializers, options, &self.id, event, &record);
            }
            self.records.push(record);
        }
    }

    #[track_caller]
    fn check_state(&self) {
        self.round_trip
            .check_state(&self.serializers, self.described.options(), &self.newest.state);
    }

    fn send(&self, id: DeliveryId, delivery: &crate::deliveries::Recorded) {
        if let Some(deliverer) = &self.serializers.deliverer {
            let sent = deliverer.send(self.described.model(), &self.id, id, delivery);
            sent.unwrap_or_else(|error| panic!("a delivery cannot be read back: {error}"));
        }
    }

    #[track_caller]
    fn take_snapshot(&self) -> Snapshot {
        let payload = self
            .serializers
            .states
            .encode(&self.newest.state, &self.newest.deliveries);
        Snapshot {
            number: self.newest.number,
            payload: Some(payload.unwrap_or_else(|error| panic!("the state cannot be written: {error}"))),
        }
    }

    #[track_caller]
    fn recover(&self, from: &Snapshot) -> Folded<A::State> {
        let mut folded = Folded::default();
        if let Some(payload) = &from.payload {
            let decoded = self.serializers.states.decode(payload);
            let (state, deliveries) = decoded.unwrap_or_else(|error| panic!("{error}"));
            folded = Folded {
                state,
                deliveries,
                snapshot: from.number,
                replayed: 0,
            };
        }
        let behind = self
            .records
            .iter()
            .filter(|record| record.sequence_nr > from.number);
        let recovered = behind
            .clone()
            .try_for_each(|record| self.serializers.fold(&self.id, &mut folded, record))
            .and_then(|()| self.serializers.check_deliveries(&self.id, &folded.deliveries));
        recovered.unwrap_or_else(|error| panic!("the actor would not recover: {error}"));
        folded.replayed = behind.count() as u64;
        folded
    }

    #[track_caller]
    fn check_recovered(&self, how: &str, folded: &Folded<A::State>) {
        let same = self
            .round_trip
            .same_state(&self.serializers, &self.newest.state, &folded.state);
        assert!(
            same && folded.deliveries == self.newest.deliveries,
            "recovered {how}, the actor has another state than its commands left. `apply` must depend on nothing but state \
             and event: look there for clocks, random numbers and statics, and in event and state for what serde skips"
        );
    }
}

impl<A: EventSourced> fmt::Debug for TestKit<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestKit")
            .field("id", &self.id)
            .field("newest", &self.newest.number)
            .field("stashed", &self.stash.len())
            .field("stopped", &self.stopped)
            .finish_non_exhaustive()
    }
}
