//! A ledger in use: shared by the actor, which pushes, and the hub, which appends and releases.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::Notify;

use crate::{
    AppendPart, AtomicWrite, Claim, Epoch, ErrorKind, JournalError, Outcome, PersistError, SequenceNr,
    Signal, WriterId,
    effect_task::{Actor, Held},
    engine::never_sent,
    hub::Hub,
    ledger::{Append, AppendLimits, Ledger, Unresolved},
};

/// A certainly-not-stored append is repeated this many times under the same claim.
const REPEATS: u32 = 3;
/// The wait before the first repeat; doubles.
const REPEAT_WAIT: Duration = Duration::from_millis(50);

/// Why a ledger takes no more.
#[derive(Debug, Clone)]
pub(crate) enum Broken {
    /// The state behind it is lost with an append: recover.
    Recover(PersistError),
    /// So it is, because a handler panicked.
    Panicked(Arc<str>),
    /// Another writer has the id: stop.
    Fenced(Arc<JournalError>),
}

/// An append of unknown outcome: what recovery needs to find out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UnknownAppend {
    pub(crate) writer: WriterId,
    pub(crate) epoch: Epoch,
    pub(crate) first: SequenceNr,
    pub(crate) last: SequenceNr,
}

/// What became of a write of unknown outcome.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Found {
    Stored,
    NotStored,
    /// Nobody will ever know.
    Nothing,
}

/// What waits for an append of unknown outcome to be resolved.
struct Unknown {
    append: UnknownAppend,
    error: Arc<JournalError>,
    held: Vec<(SequenceNr, Held)>,
}

pub(crate) struct Cell {
    pub(crate) actor: Arc<Actor>,
    hub: Arc<Hub>,
    unknown_wait: Duration,
    state: Mutex<State>,
    idle: Notify,
}

struct State {
    ledger: Ledger<Held>,
    /// With the hub while an append is in flight.
    claim: Option<Claim>,
    /// In the hub's queue.
    scheduled: bool,
    /// Somebody is releasing; whoever comes second leaves what is ready to him, so that the order stays.
    releasing: bool,
    /// Somebody waits for it to be idle.
    idle_awaited: bool,
    /// The actor is gone: nobody will resolve an unknown outcome.
    abandoned: bool,
    repeats: u32,
    broken: Option<Broken>,
    unknown: Option<Unknown>,
}

impl Cell {
    pub(crate) fn new(
        actor: Arc<Actor>,
        claim: Claim,
        limits: AppendLimits,
        unknown_wait: Duration,
    ) -> Arc<Self> {
        let hub = actor.persistence.hub().clone();
        Arc::new(Self {
            actor,
            hub,
            unknown_wait,
            state: Mutex::new(State {
                ledger: Ledger::new(claim.highest(), limits),
                claim: Some(claim),
                scheduled: false,
                releasing: false,
                idle_awaited: false,
                abandoned: false,
                repeats: 0,
                broken: None,
                unknown: None,
            }),
            idle: Notify::new(),
        })
    }

    /// Enters a handled command.
    ///
    /// # Errors
    /// `held` if the ledger broke meanwhile.
    pub(crate) fn push(self: &Arc<Self>, write: Option<AtomicWrite>, held: Held) -> Result<(), Held> {
        let mut state = self.lock();
        let writes = write.is_some();
        state.ledger.push(write, held)?;
        self.schedule(state);
        if !writes {
            self.release_ready();
        }
        Ok(())
    }

    /// Bytes of events that wait for the append in flight.
    ///
    /// # Errors
    /// Why it takes no more.
    pub(crate) fn gathered_bytes(&self) -> Result<usize, Broken> {
        let state = self.lock();
        match &state.broken {
            None => Ok(state.ledger.gathered_bytes()),
            Some(broken) => Err(broken.clone()),
        }
    }

    pub(crate) fn broken(&self) -> Option<Broken> {
        self.lock().broken.clone()
    }

    /// Takes no more: the state that further commands would be computed on is lost. What was handled is still written.
    pub(crate) fn close(&self, panic: Arc<str>) {
        let mut state = self.lock();
        if state.broken.is_none() {
            state.broken = Some(Broken::Panicked(panic));
        }
    }

    /// Nothing waits for the journal.
    pub(crate) fn is_idle(&self) -> bool {
        self.lock().is_idle()
    }

    /// Returns when nothing waits for the journal.
    pub(crate) async fn idle(&self) {
        loop {
            let changed = self.idle.notified();
            {
                let mut state = self.lock();
                if state.is_idle() {
                    return;
                }
                state.idle_awaited = true;
            }
            changed.await;
        }
    }

    /// The append whose outcome is still waited for.
    pub(crate) fn unknown_append(&self) -> Option<UnknownAppend> {
        self.lock().unknown.as_ref().map(|unknown| unknown.append)
    }

    /// Answers what waits for the append of unknown outcome, unless it has waited too long already. `found` tells what
    /// became of the write that ends at a number.
    pub(crate) fn resolve_unknown(&self, found: impl Fn(SequenceNr) -> Found) {
        let unknown = self.lock().unknown.take();
        if let Some(unknown) = unknown {
            self.answer(unknown, found);
        }
    }

    /// The actor is gone: what is unresolved is answered now.
    pub(crate) fn abandon(&self) {
        self.lock().abandoned = true;
        self.resolve_unknown(|_| Found::Nothing);
    }

    fn answer(&self, unknown: Unknown, found: impl Fn(SequenceNr) -> Found) {
        for (needs, held) in unknown.held {
            let error = unknown.error.clone();
            match found(needs) {
                Found::Stored => self.actor.release(held),
                Found::NotStored => self
                    .actor
                    .fail(held, &PersistError::NotStored(Arc::new(error.resolved()))),
                Found::Nothing => self.actor.fail(held, &PersistError::Unknown(error)),
            }
        }
    }

    /// For the hub: the next append with the claim to make it under.
    pub(crate) fn next_append(&self) -> Option<(Claim, Append)> {
        let mut state = self.lock();
        state.scheduled = false;
        let append = state.ledger.next_append()?;
        Some((state.claim.take()?, append))
    }

    /// For the hub: the same append once more.
    pub(crate) fn repeat_append(&self) -> Option<(Claim, Append)> {
        let mut state = self.lock();
        let append = state.ledger.in_flight()?;
        Some((state.claim.take()?, append))
    }

    /// For the hub: an append ended. Returns the wait after which to repeat it, if so.
    pub(crate) fn complete(self: &Arc<Self>, part: AppendPart) -> Option<Duration> {
        let AppendPart { claim, result, .. } = part;
        let mut state = self.lock();
        let last = state.ledger.in_flight().map(|append| append.last);
        let repeat = match result {
            Some(Ok(appended)) if Some(appended.last) == last => {
                self.stored(&mut state, &claim);
                None
            }
            Some(Err(error)) => self.failed(&mut state, &claim, error.with_id(claim.id())),
            // No answer, or one about other numbers: the journal broke its contract, and nothing can be known.
            _ => self.failed(&mut state, &claim, unanswered(&claim)),
        };
        state.claim = Some(claim);
        if repeat.is_some() {
            return repeat;
        }
        self.schedule(state);
        self.release_ready();
        None
    }

    /// For the hub: its runtime was shut down; what is in flight may be stored or not.
    pub(crate) fn hub_is_gone(self: &Arc<Self>) {
        let error = |new: fn(ErrorKind, crate::Operation, String) -> JournalError| {
            let message =
                "the hub's runtime was shut down; give the persistence one that outlives its actors";
            Arc::new(
                new(ErrorKind::Closed, crate::Operation::Append, message.to_owned()).with_id(&self.actor.id),
            )
        };
        let mut state = self.lock();
        let failed = state.ledger.failed();
        let in_flight = failed.in_flight.held.into_iter().map(|(_, held)| held);
        let unknown = PersistError::Unknown(error(JournalError::unknown));
        self.break_with(&mut state, Broken::Recover(unknown.clone()), &unknown, in_flight);
        let never_sent = PersistError::NotStored(error(JournalError::not_stored));
        for held in failed.behind {
            self.actor.fail(held, &never_sent);
        }
        drop(state);
        self.release_ready();
    }

    fn stored(self: &Arc<Self>, state: &mut State, claim: &Claim) {
        state.repeats = 0;
        state.ledger.stored();
        if claim.is_spent() {
            let error = JournalError::not_stored(
                ErrorKind::Fenced,
                crate::Operation::Append,
                "another writer has claimed this id; use a reference to the live actor",
            )
            .with_id(claim.id());
            self.fence(state, Arc::new(error));
        }
    }

    fn failed(self: &Arc<Self>, state: &mut State, claim: &Claim, error: JournalError) -> Option<Duration> {
        let kind = error.kind();
        if error.is_transient() && state.repeats < REPEATS {
            let wait = REPEAT_WAIT * (1 << state.repeats);
            state.repeats += 1;
            return Some(wait);
        }
        tracing::warn!(persistence_id = %claim.id(), %error, "an append failed");
        if kind == ErrorKind::Rejected {
            let index = error.write_index();
            let error = PersistError::Rejected(Arc::new(error));
            let (again, lost) = state.ledger.rejected(index);
            self.break_with(state, Broken::Recover(error.clone()), &error, lost);
            // The writes before the rejected one go out again at once.
            return again.map(|_| Duration::ZERO);
        }
        let error = Arc::new(error);
        if kind == ErrorKind::Fenced {
            self.fence(state, error);
            return None;
        }
        let failed = state.ledger.failed();
        match error.outcome() {
            Outcome::NotStored => {
                let cause = PersistError::NotStored(error);
                let in_flight = failed.in_flight.held.into_iter().map(|(_, held)| held);
                self.break_with(
                    state,
                    Broken::Recover(cause.clone()),
                    &cause,
                    in_flight.chain(failed.behind),
                );
            }
            Outcome::Unknown => {
                // What came behind was never sent.
                let never_sent = PersistError::NotStored(Arc::new(error.resolved()));
                let unknown = PersistError::Unknown(error.clone());
                self.break_with(state, Broken::Recover(unknown), &never_sent, failed.behind);
                let Unresolved { first, last, held } = failed.in_flight;
                let append = UnknownAppend {
                    writer: claim.writer(),
                    epoch: claim.epoch(),
                    first,
                    last,
                };
                self.hold_unknown(state, Unknown { append, error, held });
            }
        }
        None
    }

    fn fence(self: &Arc<Self>, state: &mut State, error: Arc<JournalError>) {
        if let Some(redeliveries) = &self.actor.redeliveries {
            redeliveries.fence();
        }
        let failed = state.ledger.failed();
        let cause = PersistError::Fenced(error.clone());
        let never_sent = PersistError::Fenced(Arc::new(never_sent(&error)));
        let in_flight = failed.in_flight.held.into_iter().map(|(_, held)| held);
        self.break_with(state, Broken::Fenced(error), &cause, in_flight);
        for held in failed.behind {
            self.actor.fail(held, &never_sent);
        }
    }

    fn break_with(
        self: &Arc<Self>,
        state: &mut State,
        broken: Broken,
        cause: &PersistError,
        lost: impl IntoIterator<Item = Held>,
    ) {
        state.broken = Some(broken);
        if let Some(redeliveries) = &self.actor.redeliveries {
            redeliveries.suspend();
        }
        self.actor.signal(Signal::PersistFailed(cause.clone()));
        for held in lost {
            self.actor.fail(held, cause);
        }
        self.actor.wake();
    }

    fn hold_unknown(self: &Arc<Self>, state: &mut State, unknown: Unknown) {
        if state.abandoned {
            return self.answer(unknown, |_| Found::Nothing);
        }
        state.unknown = Some(unknown);
        let wait = self.unknown_wait;
        let cell = Arc::downgrade(self);
        self.actor.persistence.runtime().spawn(async move {
            tokio::time::sleep(wait).await;
            if let Some(cell) = cell.upgrade() {
                cell.resolve_unknown(|_| Found::Nothing);
            }
        });
    }

    fn schedule(self: &Arc<Self>, mut state: MutexGuard<'_, State>) {
        if state.claim.is_some() && !state.scheduled && state.ledger.has_gathered() {
            state.scheduled = true;
            drop(state);
            self.hub.schedule(self.clone());
        }
    }

    fn release_ready(self: &Arc<Self>) {
        let mut state = self.lock();
        if state.releasing {
            return;
        }
        state.releasing = true;
        while let Some(held) = state.ledger.pop_ready() {
            drop(state);
            self.actor.release(held);
            state = self.lock();
        }
        state.releasing = false;
        if state.is_idle() && std::mem::take(&mut state.idle_awaited) {
            drop(state);
            self.idle.notify_waiters();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn is_idle(&self) -> bool {
        self.ledger.is_idle() && !self.releasing
    }
}

fn unanswered(claim: &Claim) -> JournalError {
    JournalError::unknown(
        ErrorKind::Corrupt,
        crate::Operation::Append,
        "the journal gave no answer that fits; report this to the backend's authors",
    )
    .with_id(claim.id())
    .with_sequence_nr(claim.highest())
}

impl fmt::Debug for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cell")
            .field("id", &self.actor.id)
            .finish_non_exhaustive()
    }
}
