//! What an adapter pumps: one actor's state, its handlers, and its way back after a failure.

use std::{
    collections::VecDeque,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use tokio::runtime::Handle;

use crate::{
    Admission, AtomicWrite, BoxedCommand, Capabilities, Deletion, ErrorKind, EventSerializer, EventSourced,
    Incarnation, JournalError, Operation, PersistError, Persistence, PersistenceId, Persistent,
    RecoveryError, SequenceNr, Signal, Snapshot, SnapshotError, SnapshotMetadata,
    cell::{Broken, Cell},
    command::{Handled, HeldReply, PendingReply, handle_recovered, panic_message},
    effect::{Also, Inner, Outer},
    effect_task::{Actor, Duty, Held, Life},
    options::Options,
    recover::{Recover, Recovered},
    retention::{DeletionDuty, Round, SnapshotDuty},
    state_snapshot::StateSerializer,
};

/// A recovered persistent actor without its framework.
///
/// An adapter owns it inside its actor and
/// - gives it every command through [`process`](Engine::process), one at a time;
/// - calls [`refresh`](Engine::refresh) when it was woken;
/// - stops the actor once [`stop_is_due`](Engine::stop_is_due), or when either returns a [`Halt`];
/// - waits for [`settled`](Engine::settled) before a graceful end.
///
/// Dropping it (kill, panic, the end of the actor) loses only commands that were not handled: what was handled is still
/// written and answered, and the id is taken until then.
pub struct Engine<A: EventSourced> {
    model: Arc<A>,
    options: Options<A>,
    admission: Admission,
    events: EventSerializer<A::Event>,
    states: StateSerializer<A::State>,
    limits: Capabilities,
    actor: Life,
    cell: Arc<Cell>,
    state: A::State,
    incarnation: Incarnation,
    newest: SequenceNr,
    stash: VecDeque<BoxedCommand<A>>,
    /// Commands that are handled before the next one of the mailbox.
    queue: VecDeque<BoxedCommand<A>>,
    stopping: bool,
    /// No command was handled since the last recovery in place.
    fresh: bool,
}

/// Why an actor must end.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Halt {
    /// Another writer has the id. Restarting would fence that one in turn: stop, and do not restart.
    #[error("stopped, another writer has taken over: {0}")]
    Fenced(Arc<JournalError>),
    /// It failed and could not recover in place. Restart it after a while.
    #[error(transparent)]
    RecoveryFailed(Arc<RecoveryError>),
}

impl<A: EventSourced> Engine<A> {
    /// Recovers an actor: waits for a predecessor's last writes, then permit, claim, snapshot, replay.
    ///
    /// `admission` bounds the waiting commands over all lives of the actor. `wake` is called from any thread when the
    /// adapter should call [`refresh`](Engine::refresh) soon; it must not block. Must be called on a tokio runtime with
    /// a time driver: the actor's effects run there.
    ///
    /// # Errors
    /// [`RecoveryError`]. Nothing stays taken; the model is told by a [`Signal::RecoveryFailed`].
    pub async fn recover(
        persistent: Persistent<A>,
        persistence: &Persistence,
        admission: Admission,
        wake: impl Fn() + Send + Sync + 'static,
    ) -> Result<Self, RecoveryError> {
        let Persistent {
            model,
            id,
            mut options,
        } = persistent;
        let id = PersistenceId::new(id)?;
        let config = |error: &dyn fmt::Display| RecoveryError::Config(error.to_string());
        let events = EventSerializer::new(options.event_codec.clone()).map_err(|error| config(&error))?;
        let states =
            StateSerializer::new::<A>(options.state_codec.clone()).map_err(|error| config(&error))?;
        if options.snapshot_every.is_some() && persistence.snapshots().is_none() {
            return Err(config(
                &"`snapshot_every` needs a snapshot store: give the persistence one",
            ));
        }
        if options.delete_events && options.snapshot_every.is_none() {
            return Err(config(
                &"`delete_events` deletes behind snapshots: set `snapshot_every` too",
            ));
        }
        let limits = persistence.journal().capabilities();
        options.append.bytes = options.append.bytes.min(limits.largest_append);
        let registration = persistence.register(id).await?;
        let actor = Actor::new(
            model.clone(),
            registration,
            persistence.clone(),
            Handle::current(),
            Box::new(wake),
        );
        let life = Life(actor.clone());
        let recover = Recover::<A> {
            actor: &actor,
            events: &events,
            states: &states,
            idle_timeout: options.recovery_idle_timeout,
            accept_deleted_prefix: options.accept_deleted_prefix,
        };
        let recovered = recover.run(None).await.and_then(
            |Recovered {
                 claim,
                 state,
                 snapshot,
                 replayed,
             }| {
                let mut engine = Self {
                    incarnation: claim.incarnation(),
                    newest: claim.highest(),
                    cell: Cell::new(actor.clone(), claim, options.append, options.unknown_wait),
                    model,
                    admission,
                    events,
                    states,
                    limits,
                    actor: life,
                    state,
                    stash: VecDeque::new(),
                    queue: VecDeque::new(),
                    stopping: false,
                    fresh: false,
                    options,
                };
                engine.begin(snapshot, replayed)?;
                Ok(engine)
            },
        );
        recovered.inspect_err(|error| {
            actor.signal(Signal::RecoveryFailed(Arc::new(error.clone())));
        })
    }

    /// Handles one command, after what waits before it; first recovers in place if the last append failed.
    ///
    /// # Errors
    /// [`Halt`]: the actor must end. This command and all that wait are refused.
    pub async fn process(&mut self, command: BoxedCommand<A>) -> Result<(), Halt> {
        self.queue.push_back(command);
        self.refresh().await
    }

    /// Recovers in place if the last append failed or a handler panicked, then handles what waits.
    ///
    /// # Errors
    /// [`Halt`]: the actor must end. All commands that wait are refused.
    pub async fn refresh(&mut self) -> Result<(), Halt> {
        let handled = self.handle_queue().await;
        if let Err(halt) = &handled {
            let error = match halt {
                Halt::Fenced(error) => PersistError::Fenced(Arc::new(never_sent(error))),
                Halt::RecoveryFailed(error) => PersistError::RecoveryFailed(error.clone()),
            };
            let stashed = std::mem::take(&mut self.stash);
            for command in stashed.into_iter().chain(std::mem::take(&mut self.queue)) {
                self.refuse(command, error.clone());
            }
        }
        handled
    }

    /// True if the next [`process`](Engine::process) or [`refresh`](Engine::refresh) will wait for something.
    #[must_use]
    pub fn must_wait(&self) -> bool {
        self.options.strict || self.cell.broken().is_some()
    }

    /// True once a command's `then_stop`, and everything handled before it, is durable and released.
    #[must_use]
    pub fn stop_is_due(&self) -> bool {
        self.actor.stop_is_due()
    }

    /// Waits until everything handled so far is durable or has failed.
    pub fn settled(&self) -> impl Future<Output = ()> + Send + use<A> {
        let cell = self.cell.clone();
        async move { cell.idle().await }
    }

    /// The newest state: all handled commands, perhaps not durable yet.
    #[must_use]
    pub fn state(&self) -> &A::State {
        &self.state
    }

    /// The actor's id.
    #[must_use]
    pub fn persistence_id(&self) -> &PersistenceId {
        &self.actor.id
    }

    async fn handle_queue(&mut self) -> Result<(), Halt> {
        loop {
            if self.options.strict {
                self.cell.idle().await;
            }
            let waiting_bytes = match self.cell.gathered_bytes() {
                Ok(bytes) => bytes,
                Err(broken) => {
                    self.recover_in_place(broken).await?;
                    continue;
                }
            };
            let Some(command) = self.queue.pop_front() else {
                return Ok(());
            };
            self.handle(command, waiting_bytes);
            // The next call looks at the ledger anyway.
            if self.queue.is_empty() && !self.options.strict {
                return Ok(());
            }
        }
    }

    async fn recover_in_place(&mut self, broken: Broken) -> Result<(), Halt> {
        if let Broken::Fenced(error) = broken {
            return Err(Halt::Fenced(error));
        }
        // What was handled before the failure is written first, under the old claim.
        self.cell.idle().await;
        if let Some(Broken::Fenced(error)) = self.cell.broken() {
            return Err(Halt::Fenced(error));
        }
        let recover = Recover::<A> {
            actor: &self.actor,
            events: &self.events,
            states: &self.states,
            idle_timeout: self.options.recovery_idle_timeout,
            accept_deleted_prefix: self.options.accept_deleted_prefix,
        };
        let recovered = match broken {
            // To recover once more would end there again.
            Broken::Recover(cause) if self.fresh => Err(RecoveryError::Unwritten {
                id: self.actor.id.clone(),
                cause,
            }),
            _ => recover.run(Some(&self.cell)).await,
        };
        recovered
            .and_then(|recovered| self.resume(recovered))
            .map_err(|error| {
                self.cell.abandon();
                let error = Arc::new(error);
                self.actor.signal(Signal::RecoveryFailed(error.clone()));
                Halt::RecoveryFailed(error)
            })
    }

    fn resume(&mut self, recovered: Recovered<A::State>) -> Result<(), RecoveryError> {
        let Recovered {
            claim,
            state,
            snapshot,
            replayed,
        } = recovered;
        self.state = state;
        self.incarnation = claim.incarnation();
        self.newest = claim.highest();
        self.cell = Cell::new(
            self.actor.clone(),
            claim,
            self.options.append,
            self.options.unknown_wait,
        );
        // A stop decided on lost state is dropped.
        self.stopping = self.actor.is_stopping();
        self.fresh = true;
        // Who was to wake the stash may be lost with the state.
        self.stash.append(&mut self.queue);
        std::mem::swap(&mut self.stash, &mut self.queue);
        self.begin(snapshot, replayed)
    }

    fn begin(&mut self, snapshot: SequenceNr, replayed: u64) -> Result<(), RecoveryError> {
        let highest = self.newest;
        self.actor.signal(Signal::RecoveryCompleted {
            highest,
            snapshot,
            replayed,
        });
        if self
            .options
            .snapshot_every
            .is_some_and(|every| replayed >= every.get())
            && let Some(duty) = self.snapshot_duty()
        {
            self.enqueue(
                None,
                Held {
                    duties: vec![duty],
                    ..Held::default()
                },
            );
        }
        let handled = handle_recovered(&*self.model, &self.state);
        self.take(handled);
        match self.cell.broken() {
            // To recover once more would end there again.
            Some(Broken::Panicked(message)) => Err(RecoveryError::Panicked {
                id: self.actor.id.clone(),
                sequence_nr: highest,
                message,
            }),
            _ => Ok(()),
        }
    }

    fn handle(&mut self, command: BoxedCommand<A>, waiting_bytes: usize) {
        if self.stopping {
            return self.refuse(command, PersistError::Stopped);
        }
        let command = match command.admit(&self.admission) {
            Ok(command) => command,
            Err((command, overloaded)) => return self.refuse(command, overloaded),
        };
        if waiting_bytes > self.options.max_waiting_bytes {
            let overloaded = PersistError::Overloaded {
                waiting: self.admission.waiting(),
                bytes: waiting_bytes,
            };
            return self.refuse(command, overloaded);
        }
        self.fresh = false;
        let handled = command.handle(&*self.model, &self.state);
        self.take(handled);
    }

    fn refuse(&self, command: BoxedCommand<A>, error: PersistError) {
        if let Some(Some(signal)) = self.actor.guard(|| command.refuse(error)) {
            self.actor.signal(signal);
        }
    }

    fn take(&mut self, handled: Handled<A>) {
        match handled {
            Handled::Panicked { reply, message } => self.panicked(reply, message),
            Handled::Stashed { command, also } => {
                self.stash.push_back(command);
                self.after(also);
            }
            Handled::Effect {
                events,
                runs,
                also,
                reply,
            } => self.persist(events, runs, also, reply),
        }
    }

    /// Encode and check, apply, reply and outer stage of the effects, snapshot, enqueue: in this order, so that a
    /// refused command changes nothing and a panic enqueues nothing.
    fn persist(
        &mut self,
        events: Vec<A::Event>,
        runs: Vec<Outer<A::State>>,
        also: Also,
        mut reply: Box<dyn PendingReply<A::State>>,
    ) {
        let prepared = catch_unwind(AssertUnwindSafe(|| self.prepare(&events, also)));
        let write = match prepared {
            Ok(Ok(write)) => write,
            Ok(Err(refusal)) => {
                let held = Held {
                    reply: Some(reply),
                    refusal: Some(refusal),
                    ..Held::default()
                };
                return self.enqueue(None, held);
            }
            Err(panic) => return self.panicked(reply, panic_message(&*panic)),
        };
        let before = self.newest;
        let after = before.checked_add(events.len() as u64).unwrap_or(SequenceNr::MAX);
        let finished = catch_unwind(AssertUnwindSafe(|| {
            for event in &events {
                A::apply(&mut self.state, event);
            }
            self.newest = after;
            reply.evaluate(&self.state);
            let runs: Vec<Inner> = runs.into_iter().map(|prepare| prepare(&self.state)).collect();
            (runs, self.duties(before, also))
        }));
        match finished {
            Err(panic) => self.panicked(reply, panic_message(&*panic)),
            Ok((runs, duties)) => {
                self.enqueue(
                    write,
                    Held {
                        reply: Some(reply),
                        refusal: None,
                        runs,
                        duties,
                    },
                );
                self.after(also);
            }
        }
    }

    /// The encoded write of a command, checked against the journal's limits before anything is applied.
    fn prepare(&self, events: &[A::Event], also: Also) -> Result<Option<AtomicWrite>, PersistError> {
        if also.restart_from_here && !self.would_be_initial(events)? {
            return Err(PersistError::NotInitialState);
        }
        if events.is_empty() {
            return Ok(None);
        }
        let timestamp = self.actor.persistence.clock().now();
        let encoded = events.iter().map(|event| self.events.encode(event, timestamp));
        let write = encoded
            .collect::<Result<Vec<_>, _>>()
            .map(AtomicWrite::from)
            .map_err(|error| {
                self.rejected(JournalError::rejected(None, error.to_string()).with_source(error))
            })?;
        crate::journal::check_limits(std::slice::from_ref(&write), &self.limits)
            .map_err(|error| self.rejected(error))?;
        if self.newest.checked_add(events.len() as u64).is_none() {
            let message = "the sequence numbers of this id are used up; purge it or use another id";
            return Err(self.rejected(JournalError::rejected(None, message)));
        }
        Ok(Some(write))
    }

    fn rejected(&self, error: JournalError) -> PersistError {
        PersistError::Rejected(Arc::new(error.with_id(&self.actor.id)))
    }

    /// Whether the events lead back to the initial state; tried on a copy, since a refused command changes nothing.
    fn would_be_initial(&self, events: &[A::Event]) -> Result<bool, PersistError> {
        let refused = |error: &dyn fmt::Display| {
            self.rejected(JournalError::rejected(
                None,
                format!("the state cannot be compared: {error}"),
            ))
        };
        let copy = self.states.encode(&self.state).map_err(|error| refused(&error))?;
        let mut state = self.states.decode(&copy).map_err(|error| refused(&error))?;
        for event in events {
            A::apply(&mut state, event);
        }
        let state = self
            .states
            .encode_state(&state)
            .map_err(|error| refused(&error))?;
        let initial = self
            .states
            .encode_state(&A::State::default())
            .map_err(|error| refused(&error))?;
        Ok(state == initial)
    }

    fn duties(&self, before: SequenceNr, also: Also) -> Vec<Duty> {
        let mut duties = Vec::new();
        let passed = |every: u64| before.get() / every < self.newest.get() / every;
        let due = self
            .options
            .snapshot_every
            .is_some_and(|every| passed(every.get()));
        if due || also.snapshot {
            duties.extend(self.snapshot_duty());
        }
        let deletion = |to, fresh_start| {
            let deletion = Deletion {
                to,
                incarnation: self.incarnation,
                fresh_start,
            };
            let must_be_covered = !fresh_start && !self.options.accept_deleted_prefix;
            let covered_up_to = must_be_covered.then_some(self.newest);
            Duty::Delete(DeletionDuty {
                deletion,
                covered_up_to,
            })
        };
        if let Some(to) = also.delete_to {
            if to <= self.newest {
                duties.push(deletion(to, false));
            } else {
                let beyond = JournalError::not_stored(
                    ErrorKind::Rejected,
                    Operation::DeleteTo,
                    format!(
                        "there are events only up to {}; delete up to that at most",
                        self.newest
                    ),
                );
                let beyond = beyond.with_id(&self.actor.id).with_sequence_nr(to);
                self.actor.signal(Signal::EventsNotDeleted(Arc::new(beyond)));
            }
        }
        if also.restart_from_here && self.newest > SequenceNr::ZERO {
            duties.push(deletion(self.newest, true));
        }
        if also.stop {
            duties.push(Duty::Stop);
        }
        duties
    }

    /// Encodes a snapshot of the newest state; `None` while a round is in flight or where there is nothing to keep.
    fn snapshot_duty(&self) -> Option<Duty> {
        let failed = |error: SnapshotError| {
            self.actor
                .signal(Signal::SnapshotFailed(Arc::new(error.with_id(&self.actor.id))));
        };
        if self.newest == SequenceNr::ZERO {
            return None;
        }
        if self.actor.persistence.snapshots().is_none() {
            failed(SnapshotError::new(
                "save",
                "there is no snapshot store; give the persistence one",
            ));
            return None;
        }
        let round = Round::begin(&self.actor.snapshot_round)?;
        match self.states.encode(&self.state) {
            Err(error) => {
                failed(SnapshotError::new("encode", error.to_string()).with_source(error));
                None
            }
            Ok(payload) => Some(Duty::Snapshot(Box::new(SnapshotDuty {
                snapshot: Snapshot {
                    metadata: SnapshotMetadata {
                        persistence_id: self.actor.id.clone(),
                        sequence_nr: self.newest,
                        incarnation: self.incarnation,
                        timestamp: self.actor.persistence.clock().now(),
                    },
                    payload,
                },
                keep: self.options.keep,
                delete_events: self.options.delete_events,
                round,
            }))),
        }
    }

    fn enqueue(&self, write: Option<AtomicWrite>, held: Held) {
        if let Err(held) = self.cell.push(write, held) {
            // The ledger broke while this command was handled; it was never sent.
            let lost = JournalError::not_stored(
                ErrorKind::Unavailable,
                Operation::Append,
                "an append before this command failed; send the command again",
            );
            self.actor.fail(
                held,
                &PersistError::NotStored(Arc::new(lost.with_id(&self.actor.id))),
            );
        }
    }

    fn after(&mut self, also: Also) {
        if also.unhandled {
            self.actor.signal(Signal::Unhandled);
        }
        if also.unstash {
            self.stash.append(&mut self.queue);
            std::mem::swap(&mut self.stash, &mut self.queue);
        }
        self.stopping |= also.stop;
    }

    fn panicked(&self, reply: Box<dyn HeldReply>, message: Arc<str>) {
        tracing::error!(persistence_id = %self.actor.id, %message, "a handler panicked");
        self.cell.close(message.clone());
        self.actor.signal(Signal::HandlerPanicked(message.clone()));
        let held = Held {
            reply: Some(reply),
            ..Held::default()
        };
        self.actor.fail(held, &PersistError::Panicked(message));
        self.actor.wake();
    }
}

/// The error of a command that came after the one that was fenced.
pub(crate) fn never_sent(error: &JournalError) -> JournalError {
    let fenced = JournalError::not_stored(ErrorKind::Fenced, error.operation(), error.to_string());
    match error.persistence_id() {
        Some(id) => fenced.with_id(id),
        None => fenced,
    }
}

impl<A: EventSourced> Drop for Engine<A> {
    fn drop(&mut self) {
        self.cell.abandon();
    }
}

impl<A: EventSourced> fmt::Debug for Engine<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("id", &self.actor.id)
            .field("newest", &self.newest)
            .field("stashed", &self.stash.len())
            .finish_non_exhaustive()
    }
}
