//! The contract. Everything a backend must do stands under *Obligations*; `journal-conformance` holds a case for each.

use std::{any::Any, fmt, fmt::Debug, sync::Arc};

use async_trait::async_trait;
use futures_util::future::join_all;

use crate::{
    AtomicWrite, Capabilities, Epoch, ErrorKind, EventStream, Incarnation, JournalError, JournalInfo,
    Operation, Outcome, PersistenceId, Record, SequenceNr, WriterId,
};

/// An append-only store of events, by persistence id.
///
/// The order of an append's life: a writer [claims](Journal::claim) an id, which ends every earlier claim and tells it
/// what is stored; then it [appends](Journal::append) under that claim, one call at a time. An append ends in one of
/// three ways, never mixed up: *stored* (`Ok`), *rejected* ([`ErrorKind::Rejected`]: certainly not stored, decided
/// before any I/O), or *failed*, whose [`outcome`](JournalError::outcome) is not stored or unknown.
#[async_trait]
pub trait Journal: Send + Sync + Debug + 'static {
    /// The backend's name and which data it works on.
    fn info(&self) -> JournalInfo;

    /// What this journal can do; constant for the life of the value.
    fn capabilities(&self) -> Capabilities;

    /// Starts a new epoch of `id` for `writer`.
    ///
    /// # Obligations
    /// - Appends under earlier claims of this id fail from now on, in every process.
    /// - The claim's [`Bounds`] are final: nothing of an earlier claim appears later that they did not count. Appends
    ///   of this id that are queued or in flight are waited for, or fenced.
    /// - The claim carries an incarnation also for an id that was never written: the one its first append starts.
    /// - An id that is only claimed, never written, leaves nothing that a reader sees.
    ///
    /// # Errors
    /// Anything but `Ok` means that the claim may or may not have ended earlier ones: claim again.
    async fn claim(&self, id: &PersistenceId, writer: WriterId) -> Result<Claim, JournalError>;

    /// Appends atomic writes of one id, in order, right after `expected`, the highest number the caller knows. The
    /// first event gets `expected + 1`.
    ///
    /// # Obligations
    /// - Each atomic write is stored whole or not at all, also across a crash and for every reader.
    /// - `Ok` means that every write is durable at the declared level and that a replay which starts afterwards, in any
    ///   process, sees it. `Ok` may come with a spent claim: stored, and fenced since.
    /// - A rejection rejects the whole call: nothing is stored, no number consumed, the claim stays usable, the error
    ///   names the write. Checked before any I/O; see [`Claim::begin`].
    /// - [`ErrorKind::Conflict`] if `expected` differs from [`Claim::highest`]; nothing is stored, the claim stays.
    /// - `NotStored` means none of the writes; anything between all and none is `Unknown`. After `Unknown` or
    ///   [`ErrorKind::Fenced`] the claim is spent. `Fenced` may be of either outcome.
    /// - A caller that drops the future half-way leaves the claim spent; each write still happens whole or not at all.
    async fn append(
        &self,
        claim: &mut Claim,
        expected: SequenceNr,
        writes: Arc<[AtomicWrite]>,
    ) -> Result<Appended, JournalError>;

    /// Appends of many ids at once; puts each part's result into it. The parts are of different ids and stand or fall
    /// independently of each other.
    ///
    /// The default runs [`append`](Journal::append) for all parts concurrently. Backends that declare
    /// [`group_commit`](Capabilities::group_commit) commit all parts with one flush.
    async fn append_group(&self, parts: &mut [AppendPart]) {
        join_all(parts.iter_mut().map(|part| async {
            part.result = Some(
                self.append(&mut part.claim, part.expected, part.writes.clone())
                    .await,
            );
        }))
        .await;
    }

    /// What is stored of `id`; [`Bounds::default`] for an unknown one.
    ///
    /// # Obligations
    /// - `highest` never decreases, also after a deletion of everything and a reopen; only a purge forgets it.
    async fn bounds(&self, id: &PersistenceId) -> Result<Bounds, JournalError>;

    /// Reads the events of `range`, in chunks, as the consumer asks for them.
    ///
    /// # Obligations
    /// - Ascending; inclusive at both ends; `from = 0`, `from > to`, `max = 0` and an unknown id are legal and give
    ///   what they say: from the first, or nothing.
    /// - Ends at the highest number known when it started, or later. Never delivers a deleted event, and its cost does
    ///   not depend on what was deleted.
    /// - Ends with an error, never silently, on a damaged record, a silent backend, or a missing number (unless
    ///   [`GapPolicy::Accept`](crate::GapPolicy) is declared). [`EventStream::contiguous`] checks this.
    /// - Its memory does not grow with the number of events.
    fn replay(&self, id: &PersistenceId, range: ReplayRange) -> EventStream;

    /// Deletes the events up to and including `deletion.to`; returns the number up to which events are deleted now.
    ///
    /// # Obligations
    /// - Idempotent, monotonic, clamped to the highest number; a no-op (`Ok` of zero) for an unknown id.
    /// - Later events are unaffected, numbers are not reused. Where `to` falls inside an atomic write the rest of it
    ///   survives.
    /// - [`ErrorKind::WrongIncarnation`], nothing deleted, if the id lives under another incarnation.
    /// - A declared fresh start is recorded in [`Bounds::fresh_start`], durably, together with the deletion.
    async fn delete_to(&self, id: &PersistenceId, deletion: Deletion) -> Result<SequenceNr, JournalError>;

    /// Forgets everything about `id`: events, numbers, claims. Idempotent.
    ///
    /// # Obligations
    /// - Every claim is ended: appends under it fail.
    /// - The next life starts at number 1 under a new incarnation.
    async fn purge(&self, id: &PersistenceId) -> Result<(), JournalError>;

    /// Returns when everything acknowledged before the call is on the disk; a no-op where `Ok` already means that.
    async fn flush(&self) -> Result<(), JournalError>;

    /// Finishes what is in flight, then refuses further calls with [`ErrorKind::Closed`]. Idempotent.
    async fn shutdown(&self) -> Result<(), JournalError>;
}

/// Conveniences on every journal; backends do not implement them.
#[async_trait]
pub trait JournalExt: Journal {
    /// Replays `range` into `each`; returns the id's highest sequence number, whatever the range.
    ///
    /// # Errors
    /// Those of [`Journal::bounds`] and [`Journal::replay`]; `each` has seen the events before the failure.
    async fn replay_each(
        &self,
        id: &PersistenceId,
        range: ReplayRange,
        each: &mut (dyn FnMut(Record) + Send),
    ) -> Result<SequenceNr, JournalError> {
        let mut highest = self.bounds(id).await?.highest;
        let mut events = self.replay(id, range);
        while let Some(chunk) = events.next_chunk().await {
            for record in chunk? {
                highest = highest.max(record.sequence_nr);
                each(record);
            }
        }
        Ok(highest)
    }
}

impl<J: Journal + ?Sized> JournalExt for J {}

#[async_trait]
impl<J: Journal + ?Sized> Journal for Arc<J> {
    fn info(&self) -> JournalInfo {
        (**self).info()
    }
    fn capabilities(&self) -> Capabilities {
        (**self).capabilities()
    }
    async fn claim(&self, id: &PersistenceId, writer: WriterId) -> Result<Claim, JournalError> {
        (**self).claim(id, writer).await
    }
    async fn append(
        &self,
        claim: &mut Claim,
        expected: SequenceNr,
        writes: Arc<[AtomicWrite]>,
    ) -> Result<Appended, JournalError> {
        (**self).append(claim, expected, writes).await
    }
    async fn append_group(&self, parts: &mut [AppendPart]) {
        (**self).append_group(parts).await;
    }
    async fn bounds(&self, id: &PersistenceId) -> Result<Bounds, JournalError> {
        (**self).bounds(id).await
    }
    fn replay(&self, id: &PersistenceId, range: ReplayRange) -> EventStream {
        (**self).replay(id, range)
    }
    async fn delete_to(&self, id: &PersistenceId, deletion: Deletion) -> Result<SequenceNr, JournalError> {
        (**self).delete_to(id, deletion).await
    }
    async fn purge(&self, id: &PersistenceId) -> Result<(), JournalError> {
        (**self).purge(id).await
    }
    async fn flush(&self) -> Result<(), JournalError> {
        (**self).flush().await
    }
    async fn shutdown(&self) -> Result<(), JournalError> {
        (**self).shutdown().await
    }
}

/// What is stored of one id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bounds {
    /// The highest number ever used; zero before the first event.
    pub highest: SequenceNr,
    /// Events up to this number are deleted.
    pub deleted_to: SequenceNr,
    /// The highest deletion that was declared a fresh start: the state at this number is the initial one.
    pub fresh_start: SequenceNr,
    /// The life these numbers belong to; `None` for an id that is not stored.
    pub incarnation: Option<Incarnation>,
}

impl Bounds {
    /// For backends, before or after each chunk of a replay that started with these bounds: `now` must still hold the
    /// event `next` of the same life. A replay that a deletion or a purge overtakes ends with this error, because its
    /// consumer would otherwise build a state on a part of the events.
    ///
    /// # Errors
    /// [`ErrorKind::WrongIncarnation`] after a purge, [`ErrorKind::Unavailable`] after a deletion of `next`.
    pub fn check_replay(&self, now: &Self, id: &PersistenceId, next: SequenceNr) -> Result<(), JournalError> {
        let (kind, message) = if now.incarnation != self.incarnation {
            (
                ErrorKind::WrongIncarnation,
                "the id was purged during the replay; drop what was read of it".to_owned(),
            )
        } else if next <= now.deleted_to {
            (
                ErrorKind::Unavailable,
                format!(
                    "events up to {} were deleted during the replay; start it again",
                    now.deleted_to
                ),
            )
        } else {
            return Ok(());
        };
        Err(JournalError::not_stored(kind, Operation::Replay, message)
            .with_id(id)
            .with_sequence_nr(next))
    }
}

/// A stored append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// The number of its first event.
    pub first: SequenceNr,
    /// The number of its last event.
    pub last: SequenceNr,
}

/// One id's share of an [`append_group`](Journal::append_group).
#[derive(Debug)]
pub struct AppendPart {
    /// The claim to append under.
    pub claim: Claim,
    /// The highest number the caller knows.
    pub expected: SequenceNr,
    /// What to append.
    pub writes: Arc<[AtomicWrite]>,
    /// Set by the journal before `append_group` returns.
    pub result: Option<Result<Appended, JournalError>>,
}

/// Which events to read. Both ends are inclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplayRange {
    /// The first number wanted; zero reads from the first event.
    pub from: SequenceNr,
    /// The last number wanted; beyond the highest is legal.
    pub to: SequenceNr,
    /// The largest number of events wanted.
    pub max: u64,
}

impl ReplayRange {
    /// Everything there is.
    pub const ALL: Self = Self {
        from: SequenceNr::FIRST,
        to: SequenceNr::MAX,
        max: u64::MAX,
    };

    /// Everything from `from` on.
    #[must_use]
    pub const fn from(from: SequenceNr) -> Self {
        Self { from, ..Self::ALL }
    }

    /// From `from` to `to`, both included.
    #[must_use]
    pub const fn between(from: SequenceNr, to: SequenceNr) -> Self {
        Self {
            from,
            to,
            max: u64::MAX,
        }
    }

    /// At most `max` events.
    #[must_use]
    pub const fn max(self, max: u64) -> Self {
        Self { max, ..self }
    }

    /// The numbers that a gapless journal with these bounds delivers, both included; `None` if there are none.
    #[must_use]
    pub fn within(&self, bounds: &Bounds) -> Option<(SequenceNr, SequenceNr)> {
        let from = self.from.max(bounds.deleted_to.next());
        let last_of_max = from
            .checked_add(self.max.checked_sub(1)?)
            .unwrap_or(SequenceNr::MAX);
        let to = self.to.min(bounds.highest).min(last_of_max);
        (from <= to).then_some((from, to))
    }
}

/// What [`Journal::delete_to`] deletes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deletion {
    /// The last number to delete.
    pub to: SequenceNr,
    /// The life the decision was made in.
    pub incarnation: Incarnation,
    /// Declares that the state at `to` is the initial one, so that recovery needs no snapshot.
    pub fresh_start: bool,
}

/// The right to append to one id, until a later claim ends it.
///
/// Not `Clone`: one append at a time. A backend keeps what it needs between appends in it, see
/// [`Claim::with_backend`].
pub struct Claim {
    id: PersistenceId,
    writer: WriterId,
    epoch: Epoch,
    bounds: Bounds,
    incarnation: Incarnation,
    highest: SequenceNr,
    spent: bool,
    backend: Option<Box<dyn Any + Send + Sync>>,
}

impl Claim {
    /// For backends: a claim whose bounds are final. `incarnation` is the life that its first append continues or
    /// starts; it becomes part of the bounds.
    #[must_use]
    pub fn new(
        id: PersistenceId,
        writer: WriterId,
        epoch: Epoch,
        incarnation: Incarnation,
        bounds: Bounds,
    ) -> Self {
        let bounds = Bounds {
            incarnation: Some(incarnation),
            ..bounds
        };
        Self {
            id,
            writer,
            epoch,
            bounds,
            incarnation,
            highest: bounds.highest,
            spent: false,
            backend: None,
        }
    }

    /// For backends: adds what they need at each append.
    #[must_use]
    pub fn with_backend(mut self, data: impl Any + Send + Sync) -> Self {
        self.backend = Some(Box::new(data));
        self
    }

    /// For backends: what [`Claim::with_backend`] put in.
    pub fn backend_mut<T: Any>(&mut self) -> Option<&mut T> {
        self.backend.as_mut()?.downcast_mut()
    }

    /// Whose events it may append.
    #[must_use]
    pub fn id(&self) -> &PersistenceId {
        &self.id
    }

    /// Who claimed.
    #[must_use]
    pub fn writer(&self) -> WriterId {
        self.writer
    }

    /// Its age.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The life it writes to.
    #[must_use]
    pub fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// What was stored when the claim was made.
    #[must_use]
    pub fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    /// The highest number as far as this claim knows: its bounds plus its own appends.
    #[must_use]
    pub fn highest(&self) -> SequenceNr {
        self.highest
    }

    /// True if it can append no more; claim again.
    #[must_use]
    pub fn is_spent(&self) -> bool {
        self.spent
    }

    /// For backends, at the start of each append: makes the checks that need no I/O and takes the claim, which counts
    /// as spent until [`stored`](Claim::stored) or [`not_stored`](Claim::not_stored) gives it back (so that a dropped
    /// future leaves it spent). Returns the numbers the append gets.
    ///
    /// # Errors
    /// [`ErrorKind::Spent`], [`ErrorKind::Rejected`] or [`ErrorKind::Conflict`], all not stored; the claim is unchanged.
    pub fn begin(
        &mut self,
        expected: SequenceNr,
        writes: &[AtomicWrite],
        limits: &Capabilities,
    ) -> Result<Appended, JournalError> {
        if self.spent {
            return Err(JournalError::not_stored(
                ErrorKind::Spent,
                Operation::Append,
                "the claim was spent by an earlier append; claim the id again",
            )
            .with_id(&self.id));
        }
        let events = check_limits(writes, limits).map_err(|error| error.with_id(&self.id))?;
        if expected != self.highest {
            return Err(JournalError::not_stored(
                ErrorKind::Conflict,
                Operation::Append,
                format!(
                    "expected {expected}, but the claim is at {}; recover before writing",
                    self.highest
                ),
            )
            .with_id(&self.id));
        }
        let last = self.highest.checked_add(events).ok_or_else(|| {
            JournalError::rejected(
                None,
                "the sequence numbers of this id are used up; purge it or use another id",
            )
            .with_id(&self.id)
        })?;
        self.spent = true;
        Ok(Appended {
            first: self.highest.next(),
            last,
        })
    }

    /// For backends: the append is stored; the claim can append again.
    pub fn stored(&mut self, appended: Appended) {
        self.highest = appended.last;
        self.spent = false;
    }

    /// For backends: nothing of the append is stored; the claim can append again.
    pub fn not_stored(&mut self) {
        self.spent = false;
    }

    /// For backends: [`stored`](Claim::stored), [`not_stored`](Claim::not_stored) or spent for good, as the result of
    /// the append that [`begin`](Claim::begin) numbered `appended` demands.
    ///
    /// # Errors
    /// The result's.
    pub fn settle(
        &mut self,
        appended: Appended,
        result: Result<(), JournalError>,
    ) -> Result<Appended, JournalError> {
        match result {
            Ok(()) => self.stored(appended),
            Err(error) => {
                if error.outcome() == Outcome::NotStored && error.kind() != ErrorKind::Fenced {
                    self.not_stored();
                }
                return Err(error);
            }
        }
        Ok(appended)
    }

    /// Ends the claim from this side.
    pub fn spend(&mut self) {
        self.spent = true;
    }

    /// For backends that must own the claim while they append: moves the right to append out; what stays is spent.
    #[must_use]
    pub fn take(&mut self) -> Self {
        let Self {
            writer,
            epoch,
            bounds,
            incarnation,
            highest,
            spent,
            ..
        } = *self;
        self.spent = true;
        let backend = self.backend.take();
        Self {
            id: self.id.clone(),
            writer,
            epoch,
            bounds,
            incarnation,
            highest,
            spent,
            backend,
        }
    }
}

pub(crate) fn check_limits(writes: &[AtomicWrite], limits: &Capabilities) -> Result<u64, JournalError> {
    if writes.is_empty() {
        return Err(JournalError::rejected(
            None,
            "an append without writes; leave the call out",
        ));
    }
    let (mut events, mut bytes) = (0, 0_usize);
    for (index, write) in writes.iter().enumerate() {
        if write.is_empty() {
            return Err(JournalError::rejected(
                Some(index),
                "an atomic write without events; leave it out",
            ));
        }
        for event in &write.events {
            let size = event.size();
            if size > limits.largest_event {
                return Err(JournalError::rejected(
                    Some(index),
                    format!(
                        "an event of {size} bytes is larger than the journal's {}; store it elsewhere and refer to it",
                        limits.largest_event
                    ),
                ));
            }
            bytes = bytes.saturating_add(size);
            events += 1;
        }
        if bytes > limits.largest_append {
            return Err(JournalError::rejected(
                Some(index),
                format!(
                    "{bytes} bytes up to this write are more than the journal's {} per append; persist fewer events at once",
                    limits.largest_append
                ),
            ));
        }
    }
    Ok(events)
}

impl Debug for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Claim")
            .field("id", &self.id)
            .field("writer", &self.writer)
            .field("epoch", &self.epoch)
            .field("bounds", &self.bounds)
            .field("highest", &self.highest)
            .field("spent", &self.spent)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds(deleted_to: u64, highest: u64) -> Bounds {
        Bounds {
            highest: SequenceNr::new(highest),
            deleted_to: SequenceNr::new(deleted_to),
            ..Bounds::default()
        }
    }

    fn numbers(from: u64, to: u64, max: u64, bounds: &Bounds) -> Option<(u64, u64)> {
        let range = ReplayRange {
            from: SequenceNr::new(from),
            to: SequenceNr::new(to),
            max,
        };
        range.within(bounds).map(|(from, to)| (from.get(), to.get()))
    }

    #[test]
    fn a_range_is_cut_to_what_is_stored() {
        let all = u64::MAX;
        assert_eq!(numbers(0, all, all, &bounds(0, 5)), Some((1, 5)));
        assert_eq!(numbers(2, 4, all, &bounds(0, 5)), Some((2, 4)));
        assert_eq!(numbers(2, 4, 2, &bounds(0, 5)), Some((2, 3)));
        assert_eq!(numbers(1, all, all, &bounds(3, 5)), Some((4, 5)));
        assert_eq!(numbers(1, 4, 1, &bounds(3, 5)), Some((4, 4)));
        assert_eq!(numbers(1, all, 0, &bounds(0, 5)), None);
        assert_eq!(numbers(4, 3, all, &bounds(0, 5)), None);
        assert_eq!(numbers(1, 3, all, &bounds(3, 5)), None);
        assert_eq!(numbers(0, all, all, &bounds(0, 0)), None);
        assert_eq!(numbers(0, all, all, &bounds(5, 5)), None);
    }
}
