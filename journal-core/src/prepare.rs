//! What a command's decision makes of an actor, without I/O: encode and check, then apply, reply and the outer stage of
//! the effects. The engine and the test kit share it.

use std::{fmt, sync::Arc};

use crate::{
    AtomicWrite, Capabilities, EventSourced, JournalError, PersistError, PersistenceId, SequenceNr,
    Timestamp,
    command::PendingReply,
    deliveries::{Deliveries, DeliveryEvent},
    delivery::Recording,
    effect::{Also, DeliveryEffect, Inner, Outer},
    recover::Serializers,
};

/// All handled commands, perhaps not durable yet.
pub(crate) struct Newest<A: EventSourced> {
    pub(crate) number: SequenceNr,
    pub(crate) state: A::State,
    /// What is to be delivered, beside the state.
    pub(crate) deliveries: Deliveries,
}

/// A command that may go on.
pub(crate) struct Prepared {
    pub(crate) write: Option<AtomicWrite>,
    /// Those of its events that are the engine's, with their numbers.
    pub(crate) deliveries: Vec<(SequenceNr, DeliveryEvent)>,
}

impl<A: EventSourced> Newest<A> {
    /// Applies what was prepared, then computes the reply and the outer stage of the effects. Runs user code.
    pub(crate) fn advance(
        &mut self,
        events: &[A::Event],
        prepared: &Prepared,
        runs: Vec<Outer<A::State>>,
        reply: &mut dyn PendingReply<A::State>,
    ) -> Vec<Inner> {
        for event in events {
            A::apply(&mut self.state, event);
        }
        for (number, event) in &prepared.deliveries {
            self.deliveries.apply(*number, event.clone());
        }
        if let Some(write) = &prepared.write {
            let after = self.number.checked_add(write.len() as u64);
            self.number = after.unwrap_or(SequenceNr::MAX);
        }
        reply.evaluate(&self.state);
        runs.into_iter().map(|prepare| prepare(&self.state)).collect()
    }
}

/// What a command is checked against.
pub(crate) struct Prepare<'a, A: EventSourced> {
    pub(crate) id: &'a PersistenceId,
    pub(crate) serializers: &'a Serializers<A>,
    pub(crate) limits: &'a Capabilities,
    pub(crate) max_unconfirmed: usize,
    pub(crate) timestamp: Timestamp,
    pub(crate) newest: &'a Newest<A>,
}

impl<A: EventSourced> Prepare<'_, A> {
    /// The encoded write of a command, checked against the journal's limits before anything is applied.
    pub(crate) fn write(
        &self,
        events: &[A::Event],
        deliveries: &[DeliveryEffect],
        also: Also,
    ) -> Result<Prepared, PersistError> {
        let after = self.newest.number.checked_add(events.len() as u64);
        let deliveries = Recording {
            of: self.id,
            deliverer: self.serializers.deliverer.as_deref(),
            unconfirmed: &self.newest.deliveries,
            limit: self.max_unconfirmed,
        }
        .events(deliveries, after.unwrap_or(SequenceNr::MAX))?;
        if also.restart_from_here
            && !(self.newest.deliveries.would_be_empty(&deliveries) && self.would_be_initial(events)?)
        {
            return Err(PersistError::NotInitialState);
        }
        if events.is_empty() && deliveries.is_empty() {
            return Ok(Prepared {
                write: None,
                deliveries,
            });
        }
        let encoded = events
            .iter()
            .map(|event| self.serializers.events.encode(event, self.timestamp))
            .chain(
                deliveries
                    .iter()
                    .map(|(_, event)| Ok(event.encode(self.timestamp))),
            );
        let write = encoded
            .collect::<Result<Vec<_>, _>>()
            .map(AtomicWrite::from)
            .map_err(|error| {
                self.rejected(JournalError::rejected(None, error.to_string()).with_source(error))
            })?;
        crate::journal::check_limits(std::slice::from_ref(&write), self.limits)
            .map_err(|error| self.rejected(error))?;
        if self.newest.number.checked_add(write.len() as u64).is_none() {
            let message = "the sequence numbers of this id are used up; purge it or use another id";
            return Err(self.rejected(JournalError::rejected(None, message)));
        }
        Ok(Prepared {
            write: Some(write),
            deliveries,
        })
    }

    fn rejected(&self, error: JournalError) -> PersistError {
        PersistError::Rejected(Arc::new(error.with_id(self.id)))
    }

    /// Whether the events lead back to the initial state; tried on a copy, since a refused command changes nothing.
    fn would_be_initial(&self, events: &[A::Event]) -> Result<bool, PersistError> {
        let refused = |error: &dyn fmt::Display| {
            self.rejected(JournalError::rejected(
                None,
                format!("the state cannot be compared: {error}"),
            ))
        };
        let states = &self.serializers.states;
        let copy = states
            .encode(&self.newest.state, &Deliveries::default())
            .map_err(|error| refused(&error))?;
        let (mut state, _) = states.decode(&copy).map_err(|error| refused(&error))?;
        for event in events {
            A::apply(&mut state, event);
        }
        let state = states.encode_state(&state).map_err(|error| refused(&error))?;
        let initial = states
            .encode_state(&A::State::default())
            .map_err(|error| refused(&error))?;
        Ok(state == initial)
    }
}
