//! What an adapter pumps: one actor's state, its handlers, and its way back after a failure.

use std::{
    collections::VecDeque,
    fmt,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, atomic::Ordering},
};

use futures_util::future::BoxFuture;
use tokio::runtime::Handle;

use crate::{
    AtomicWrite, Capabilities, Deletion, ErrorKind, EventSourced, Incarnation, JournalError, Operation,
    Options, PersistError, Persistence, PersistenceId, Persistent, RecoveryError, SequenceNr, Signal,
    Snapshot, SnapshotError, SnapshotMetadata,
    cell::{Broken, Cell},
    command::{Admission, BoxedCommand, Handled, HeldReply, PendingReply, panic_message},
    effect::{Also, DeliveryEffect, Outer},
    effect_task::{Actor, Duty, Held, Life},
    listener::{self, Direct, Listener},
    prepare::{Newest, Prepare, Prepared},
    recover::{Folded, Rebuilt, Recover, Serializers},
    redelivery::Redeliveries,
    retention::{DeletionDuty, Round, SnapshotDuty},
};

/// A recovered persistent actor without its framework and without its model.
///
/// An adapter owns it inside its actor and
/// - gives it every command, and looks at it when it was woken: through [`run`](Engine::run), or, where handlers are
///   synchronous, through [`push`](Engine::push) and then [`step`](Engine::step) until it is idle;
/// - stops the actor once [`stop_is_due`](Engine::stop_is_due), or when a call returns a [`Halt`];
/// - waits for [`settled`](Engine::settled) before a graceful end.
///
/// Dropping it (kill, panic, the end of the actor) loses only commands that were not handled: what was handled is still
/// written and answered, and the id is taken until then.
pub struct Engine<A: EventSourced> {
    options: Options<A>,
    admission: Admission,
    serializers: Arc<Serializers<A>>,
    limits: Capabilities,
    actor: Life,
    cell: Arc<Cell>,
    newest: Newest<A>,
    incarnation: Incarnation,
    stash: VecDeque<BoxedCommand<A>>,
    /// Commands that are handled before the next one of the mailbox.
    queue: VecDeque<BoxedCommand<A>>,
    stopping: bool,
    /// `EventSourced::recovered` is to run before the next command.
    hook_is_due: bool,
    since: Since,
    recovered_to: SequenceNr,
    /// It has recovered or handled something since it was last asked whether it was idle.
    used: bool,
}

/// What came last. A failure right after a recovery is none that the next recovery would mend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Since {
    Start,
    RecoveryInPlace,
    Command,
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

/// What an engine does next.
#[expect(missing_debug_implementations, reason = "futures have none")]
pub enum Step<A: EventSourced> {
    /// Let the model [decide](Engine::decide) and [enact](Engine::enact) that; then step again.
    Command(BoxedCommand<A>),
    /// Await this, handling nothing meanwhile; then step again. It does no I/O.
    Settle(BoxFuture<'static, ()>),
    /// The last append failed or a handler panicked. Await this, handling nothing meanwhile, and
    /// [resume](Engine::resume); then step again. It reads from the journal where it is polled.
    Recover(BoxFuture<'static, Recovered<A>>),
    /// Nothing, until the next command or wake.
    Idle,
}

/// What the model decided on a command.
pub struct Decision<A: EventSourced>(Handled<A>);

/// The end of a recovery in place.
pub struct Recovered<A: EventSourced>(Result<Rebuilt<A::State>, NotRecovered>);

enum NotRecovered {
    Fenced(Arc<JournalError>),
    Failed(RecoveryError),
}

impl Halt {
    /// What the commands that wait are answered.
    #[must_use]
    pub fn refusal(&self) -> PersistError {
        match self {
            Self::Fenced(error) => PersistError::Fenced(Arc::new(never_sent(error))),
            Self::RecoveryFailed(error) => PersistError::RecoveryFailed(error.clone()),
        }
    }
}

impl<A: EventSourced> Engine<A> {
    /// Recovers an actor: waits for a predecessor's last writes, then permit, claim, snapshot, replay. Reads from the
    /// journal where it is polled.
    ///
    /// `admission` bounds the waiting commands over all lives of the actor. Must be called on a tokio runtime with a
    /// time driver: the actor's effects run there. [`EventSourced::recovered`] is the first step afterwards.
    ///
    /// # Errors
    /// [`RecoveryError`]. Nothing stays taken; the model is told by a [`Signal::RecoveryFailed`].
    pub async fn recover(
        id: &str,
        mut options: Options<A>,
        persistence: &Persistence,
        admission: Admission,
        listener: impl Listener<A>,
    ) -> Result<Self, RecoveryError> {
        let id = PersistenceId::new(id)?;
        let config = |error: &dyn fmt::Display| RecoveryError::Config(error.to_string());
        let serializers = options.serializers()?;
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
            Box::new(listener::Erased {
                listener,
                deliverer: serializers.deliverer.clone(),
            }),
            registration,
            persistence.clone(),
            Handle::current(),
            serializers
                .deliverer
                .as_ref()
                .map(|_| Redeliveries::new(options.redelivery)),
        );
        let life = Life(actor.clone());
        let serializers = Arc::new(serializers);
        let recover = Recover::new(&actor, &serializers, &options);
        match recover.run(None).await {
            Ok(Rebuilt { claim, folded }) => {
                let Folded {
                    state,
                    deliveries,
                    snapshot,
                    replayed,
                } = folded;
                let mut engine = Self {
                    incarnation: claim.incarnation(),
                    newest: Newest {
                        number: claim.highest(),
                        state,
                        deliveries,
                    },
                    recovered_to: claim.highest(),
                    cell: Cell::new(actor, claim, options.append, options.unknown_wait),
                    admission,
                    serializers,
                    limits,
                    actor: life,
                    stash: VecDeque::new(),
                    queue: VecDeque::new(),
                    stopping: false,
                    hook_is_due: false,
                    since: Since::Start,
                    used: true,
                    options,
                };
                engine.begin(snapshot, replayed);
                Ok(engine)
            }
            Err(error) => {
                actor.signal(Signal::RecoveryFailed(Arc::new(error.clone())));
                actor.caught_up().await;
                Err(error)
            }
        }
    }

    /// Takes a command, to be handled after what waits.
    pub fn push(&mut self, command: BoxedCommand<A>) {
        self.queue.push_back(command);
    }

    /// What to do next. Commands that must be refused are, on the way.
    ///
    /// # Errors
    /// [`Halt`]: the actor must end. All commands that wait are refused.
    pub fn step(&mut self) -> Result<Step<A>, Halt> {
        loop {
            if self.options.strict && !self.cell.is_idle() {
                return Ok(Step::Settle(Box::pin(self.settled())));
            }
            let waiting_bytes = match self.cell.gathered_bytes() {
                Ok(bytes) => bytes,
                Err(Broken::Fenced(error)) => return Err(self.halt(Halt::Fenced(error))),
                Err(Broken::Recover(cause)) => return Ok(self.recover_in_place(self.unwritten(cause))),
                Err(Broken::Panicked(message)) => {
                    return Ok(self.recover_in_place(self.panicked_at_once(message)));
                }
            };
            if std::mem::take(&mut self.hook_is_due) {
                return Ok(Step::Command(BoxedCommand::recovered()));
            }
            let Some(command) = self.queue.pop_front() else {
                return Ok(Step::Idle);
            };
            if let Some(command) = self.admit(command, waiting_bytes) {
                self.since = Since::Command;
                return Ok(Step::Command(command));
            }
        }
    }

    /// Lets the model decide. A panic of the model is a decision too.
    pub fn decide(&self, model: &A, command: BoxedCommand<A>) -> Decision<A> {
        Decision(command.handle(model, &self.newest.state))
    }

    /// Does what the model decided: encode and check, apply, reply and outer stage of the effects, snapshot, enqueue.
    pub fn enact(&mut self, decision: Decision<A>) {
        self.used = true;
        match decision.0 {
            Handled::Panicked { reply, message } => self.panicked(reply, message),
            Handled::Stashed { command, also } => {
                self.stash.push_back(command);
                self.after(also);
            }
            Handled::Effect {
                events,
                runs,
                deliveries,
                also,
                reply,
            } => {
                let mut runs = runs;
                self.persist(&events, &mut runs, &deliveries, also, reply);
                // User code too; what was decided stands.
                self.actor.guard(move || drop((events, runs, deliveries)));
            }
        }
    }

    /// Goes on after a recovery in place: the stash first, then what was queued.
    ///
    /// # Errors
    /// [`Halt`]: the actor must end. All commands that wait are refused.
    pub fn resume(&mut self, recovered: Recovered<A>) -> Result<(), Halt> {
        let Rebuilt { claim, folded } = match recovered.0 {
            Ok(rebuilt) => rebuilt,
            Err(NotRecovered::Fenced(error)) => return Err(self.halt(Halt::Fenced(error))),
            Err(NotRecovered::Failed(error)) => {
                self.cell.abandon();
                let error = Arc::new(error);
                self.actor.signal(Signal::RecoveryFailed(error.clone()));
                return Err(self.halt(Halt::RecoveryFailed(error)));
            }
        };
        let Folded {
            state,
            deliveries,
            snapshot,
            replayed,
        } = folded;
        self.incarnation = claim.incarnation();
        self.newest = Newest {
            number: claim.highest(),
            state,
            deliveries,
        };
        self.recovered_to = claim.highest();
        self.cell = Cell::new(
            Arc::clone(&self.actor),
            claim,
            self.options.append,
            self.options.unknown_wait,
        );
        // A stop decided on lost state is dropped.
        self.stopping = self.actor.is_stopping();
        self.since = Since::RecoveryInPlace;
        // Who was to wake the stash may be lost with the state.
        self.unstash();
        self.begin(snapshot, replayed);
        Ok(())
    }

    /// Takes all steps there are, for frameworks whose handlers are asynchronous.
    ///
    /// # Errors
    /// [`Halt`]: the actor must end. All commands that wait are refused.
    pub async fn run(&mut self, model: &A) -> Result<(), Halt> {
        loop {
            match self.step()? {
                Step::Command(command) => {
                    let decision = self.decide(model, command);
                    self.enact(decision);
                    if !self.must_step() {
                        return Ok(());
                    }
                }
                Step::Settle(settled) => settled.await,
                Step::Recover(recovered) => {
                    let recovered = recovered.await;
                    self.resume(recovered)?;
                }
                Step::Idle => return Ok(()),
            }
        }
    }

    /// Whether there is something to do after a step: false where another one would find the engine idle, or would find
    /// a failure of which it wakes the actor anyway. After `recovered` it is true: its failure belongs to the recovery.
    #[must_use]
    pub fn must_step(&self) -> bool {
        self.hook_is_due || self.since != Since::Command || self.options.strict || !self.queue.is_empty()
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

    /// Whether it handled nothing since the last call, and nothing waits: no command, stashed or on its way, no reply, no
    /// write, no snapshot, no delivery for its confirmation. For adapters, to be asked once per [`Options::idle_limit`]: then an actor is found idle
    /// after one to two times as long, and a command costs no clock.
    pub fn was_idle(&mut self) -> bool {
        let unused = !std::mem::take(&mut self.used);
        // What is stashed counts among the admitted.
        unused
            && !self.hook_is_due
            && !self.stopping
            && self.queue.is_empty()
            && self.admission.waiting() == 0
            && self.cell.is_idle()
            && self.cell.broken().is_none()
            // Those of `recovered`, which nobody sent, are not among the admitted.
            && !self.actor.has_effects()
            && !self.actor.snapshot_round.load(Ordering::Acquire)
            && self
                .actor
                .redeliveries
                .as_ref()
                .is_none_or(|redeliveries| redeliveries.are_at_rest())
    }

    /// Lets go of the id before the engine is dropped: a successor is no longer refused, but waits until everything of
    /// this life is done. Nothing may be handled afterwards.
    pub fn retire(&self) {
        self.actor.retire();
    }

    /// Waits until everything handled so far is [settled](Engine::settled), and what follows from it has run: effects, and
    /// what the listener is told.
    pub fn concluded(&self) -> impl Future<Output = ()> + Send + use<A> {
        let (settled, actor) = (self.settled(), Arc::clone(&self.actor));
        async move {
            settled.await;
            let caught_up = actor.caught_up();
            drop(actor);
            caught_up.await;
        }
    }

    /// The newest state: all handled commands, perhaps not durable yet.
    #[must_use]
    pub fn state(&self) -> &A::State {
        &self.newest.state
    }

    /// The actor's id.
    #[must_use]
    pub fn persistence_id(&self) -> &PersistenceId {
        &self.actor.id
    }

    fn recover_in_place(&self, hopeless: Option<RecoveryError>) -> Step<A> {
        let cell = self.cell.clone();
        let recover = Recover::new(&self.actor, &self.serializers, &self.options);
        Step::Recover(Box::pin(async move {
            // What was handled before the failure is written first, under the old claim.
            cell.idle().await;
            let recovered = match (cell.broken(), hopeless) {
                (Some(Broken::Fenced(error)), _) => Err(NotRecovered::Fenced(error)),
                (_, Some(hopeless)) => Err(NotRecovered::Failed(hopeless)),
                _ => recover.run(Some(&cell)).await.map_err(NotRecovered::Failed),
            };
            Recovered(recovered)
        }))
    }

    /// The failure, if to recover once more would end there again.
    fn unwritten(&self, cause: PersistError) -> Option<RecoveryError> {
        (self.since == Since::RecoveryInPlace).then(|| RecoveryError::Unwritten {
            id: self.actor.id.clone(),
            cause,
        })
    }

    /// The failure, if it was `recovered` that panicked.
    fn panicked_at_once(&self, message: Arc<str>) -> Option<RecoveryError> {
        (self.since != Since::Command).then(|| self.hook_panicked(message))
    }

    fn hook_panicked(&self, message: Arc<str>) -> RecoveryError {
        RecoveryError::Panicked {
            id: self.actor.id.clone(),
            sequence_nr: self.recovered_to,
            message,
        }
    }

    fn halt(&mut self, halt: Halt) -> Halt {
        let error = halt.refusal();
        let stashed = std::mem::take(&mut self.stash);
        for command in stashed.into_iter().chain(std::mem::take(&mut self.queue)) {
            self.refuse(command, error.clone());
        }
        halt
    }

    fn begin(&mut self, snapshot: SequenceNr, replayed: u64) {
        self.actor.signal(Signal::RecoveryCompleted {
            highest: self.newest.number,
            snapshot,
            replayed,
        });
        if let Some(redeliveries) = &self.actor.redeliveries {
            // Before any command, and so before anything new.
            redeliveries.restart(&self.actor, &self.newest.deliveries);
        }
        if self
            .options
            .snapshot_every
            .is_some_and(|every| replayed >= every.get())
            && let Some(duty) = self.overdue_snapshot()
        {
            self.enqueue(
                None,
                Held {
                    duties: vec![duty],
                    ..Held::default()
                },
            );
        }
        self.hook_is_due = true;
        self.used = true;
    }

    fn admit(&self, command: BoxedCommand<A>, waiting_bytes: usize) -> Option<BoxedCommand<A>> {
        if self.stopping {
            self.refuse(command, PersistError::Stopped);
            return None;
        }
        let command = match command.admit(&self.admission) {
            Ok(command) => command,
            Err((command, overloaded)) => {
                self.refuse(command, overloaded);
                return None;
            }
        };
        if waiting_bytes > self.options.max_waiting_bytes {
            let overloaded = PersistError::Overloaded {
                waiting: self.admission.waiting(),
                bytes: waiting_bytes,
            };
            self.refuse(command, overloaded);
            return None;
        }
        Some(command)
    }

    fn refuse(&self, command: BoxedCommand<A>, error: PersistError) {
        if let Some(signal) = command.refuse_with_signal(error) {
            self.actor.signal(signal);
        }
    }

    /// Encode and check, apply, reply and outer stage of the effects, snapshot, enqueue: in this order, so that a
    /// refused command changes nothing and a panic enqueues nothing.
    fn persist(
        &mut self,
        events: &[A::Event],
        runs: &mut Vec<Outer<A::State>>,
        deliveries: &[DeliveryEffect],
        also: Also,
        mut reply: Box<dyn PendingReply<A::State>>,
    ) {
        let prepared = catch_unwind(AssertUnwindSafe(|| self.prepare(events, deliveries, also)));
        let prepared = match prepared {
            Ok(Ok(prepared)) => prepared,
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
        let before = self.newest.number;
        let finished = catch_unwind(AssertUnwindSafe(|| {
            let runs = self
                .newest
                .advance(events, &prepared, std::mem::take(runs), &mut *reply);
            (runs, self.duties(before, also))
        }));
        let Prepared { write, deliveries } = prepared;
        match finished {
            Err(panic) => self.panicked(reply, panic_message(&*panic)),
            Ok((runs, duties)) => {
                self.enqueue(
                    write,
                    Held {
                        reply: Some(reply),
                        refusal: None,
                        runs,
                        deliveries,
                        duties,
                    },
                );
                self.after(also);
            }
        }
    }

    /// The encoded write of a command, checked before anything is applied.
    fn prepare(
        &self,
        events: &[A::Event],
        deliveries: &[DeliveryEffect],
        also: Also,
    ) -> Result<Prepared, PersistError> {
        Prepare {
            id: &self.actor.id,
            serializers: &self.serializers,
            limits: &self.limits,
            max_unconfirmed: self.options.redelivery.max_unconfirmed,
            timestamp: self.actor.persistence.clock().now(),
            newest: &self.newest,
        }
        .write(events, deliveries, also)
    }

    fn duties(&self, before: SequenceNr, also: Also) -> Vec<Duty> {
        let mut duties = Vec::new();
        let due = self.options.snapshot_is_due(before, self.newest.number);
        if due || also.snapshot {
            duties.extend(self.snapshot_duty());
        }
        let deletion = |to: SequenceNr, fresh_start| {
            let deletion = Deletion {
                to,
                incarnation: self.incarnation,
                fresh_start,
            };
            // What is unconfirmed is never accepted as deleted.
            let owed = self
                .newest
                .deliveries
                .oldest()
                .is_some_and(|oldest| oldest.get() <= to.get());
            let must_be_covered = owed || !fresh_start && !self.options.accept_deleted_prefix;
            let covered_up_to = must_be_covered.then_some(self.newest.number);
            Duty::Delete(DeletionDuty {
                deletion,
                covered_up_to,
            })
        };
        if let Some(to) = also.delete_to {
            if to <= self.newest.number {
                duties.push(deletion(to, false));
            } else {
                let beyond = JournalError::not_stored(
                    ErrorKind::Rejected,
                    Operation::DeleteTo,
                    format!(
                        "there are events only up to {}; delete up to that at most",
                        self.newest.number
                    ),
                );
                let beyond = beyond.with_id(&self.actor.id).with_sequence_nr(to);
                self.actor.signal(Signal::EventsNotDeleted(Arc::new(beyond)));
            }
        }
        if also.restart_from_here && self.newest.number > SequenceNr::ZERO {
            duties.push(deletion(self.newest.number, true));
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
        if self.newest.number == SequenceNr::ZERO {
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
        match self
            .serializers
            .states
            .encode(&self.newest.state, &self.newest.deliveries)
        {
            Err(error) => {
                failed(SnapshotError::new("encode", error.to_string()).with_source(error));
                None
            }
            Ok(payload) => Some(Duty::Snapshot(Box::new(SnapshotDuty {
                snapshot: Snapshot {
                    metadata: SnapshotMetadata {
                        persistence_id: self.actor.id.clone(),
                        sequence_nr: self.newest.number,
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

    /// At a recovery, which needs none: a state that panics when it is written only goes without a snapshot.
    fn overdue_snapshot(&self) -> Option<Duty> {
        catch_unwind(AssertUnwindSafe(|| self.snapshot_duty())).unwrap_or_else(|panic| {
            let message = format!("the state's encoding panicked: {}", panic_message(&*panic));
            let error = SnapshotError::new("encode", message).with_id(&self.actor.id);
            self.actor.signal(Signal::SnapshotFailed(Arc::new(error)));
            None
        })
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
            self.unstash();
        }
        self.stopping |= also.stop;
    }

    /// To the head of the queue, in order.
    fn unstash(&mut self) {
        self.stash.append(&mut self.queue);
        std::mem::swap(&mut self.stash, &mut self.queue);
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
            .field("newest", &self.newest.number)
            .field("stashed", &self.stash.len())
            .finish_non_exhaustive()
    }
}

impl<A: EventSourced + Send + Sync> Persistent<A> {
    /// For adapters whose handlers are asynchronous: [`Engine::recover`] and [`EventSourced::recovered`]. The model hears
    /// signals on the effect task; `wake` is [`Listener::wake`].
    ///
    /// # Errors
    /// [`RecoveryError`]. Nothing stays taken; the model is told by a [`Signal::RecoveryFailed`].
    pub async fn recover(
        &self,
        persistence: &Persistence,
        admission: Admission,
        wake: impl Fn() + Send + Sync + 'static,
    ) -> Result<Engine<A>, RecoveryError> {
        let listener = Direct::new(self.model().clone(), wake);
        let recovered = Engine::recover(
            self.id(),
            self.options().clone(),
            persistence,
            admission,
            listener,
        );
        let mut engine = recovered.await?;
        engine.hook_is_due = false;
        let decision = engine.decide(self.model(), BoxedCommand::recovered());
        engine.enact(decision);
        match engine.cell.broken() {
            Some(Broken::Panicked(message)) => {
                let error = engine.hook_panicked(message);
                engine
                    .actor
                    .signal(Signal::RecoveryFailed(Arc::new(error.clone())));
                Err(error)
            }
            _ => Ok(engine),
        }
    }
}

impl<A: EventSourced> fmt::Debug for Decision<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decision").finish_non_exhaustive()
    }
}

impl<A: EventSourced> fmt::Debug for Recovered<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recovered").finish_non_exhaustive()
    }
}
