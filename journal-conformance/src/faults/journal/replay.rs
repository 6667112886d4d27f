//! Wrong at reading back.

use bytes::Bytes;
use futures_util::{TryStreamExt, future::ready, stream};
use journal_core::{
    EncodedEvent, ErrorKind, EventStream, Journal, JournalError, Operation, PersistenceId, Record,
    ReplayRange,
};

use crate::{
    faults::{journal::WrongJournal, simulated::SimulatedJournal},
    journal::Damage,
};

#[derive(Debug)]
pub(super) struct Alters(pub(super) fn(&mut EncodedEvent));

impl WrongJournal for Alters {
    fn replay(&self, right: &SimulatedJournal, id: &PersistenceId, range: ReplayRange) -> EventStream {
        let alter = self.0;
        EventStream::new(right.replay(id, range).map_ok(move |mut record| {
            alter(&mut record.event);
            vec![record]
        }))
    }
}

#[derive(Debug)]
pub(super) struct OtherRange(pub(super) fn(ReplayRange) -> ReplayRange);

impl WrongJournal for OtherRange {
    fn replay(&self, right: &SimulatedJournal, id: &PersistenceId, range: ReplayRange) -> EventStream {
        right.replay(id, (self.0)(range))
    }
}

#[derive(Debug)]
pub(super) struct Refuses(pub(super) fn(ReplayRange) -> bool);

impl WrongJournal for Refuses {
    fn replay(&self, right: &SimulatedJournal, id: &PersistenceId, range: ReplayRange) -> EventStream {
        if (self.0)(range) {
            let error = JournalError::not_stored(ErrorKind::Config, Operation::Replay, "an illegal range");
            return EventStream::failed(error.with_id(id));
        }
        right.replay(id, range)
    }
}

#[derive(Debug)]
pub(super) struct Backwards;

impl WrongJournal for Backwards {
    fn replay(&self, right: &SimulatedJournal, id: &PersistenceId, range: ReplayRange) -> EventStream {
        let records = right.replay_unchecked(id, range);
        let backwards = records.into_iter().rev().map(|(record, _)| record).collect();
        EventStream::new(stream::iter([Ok(backwards)]))
    }
}

#[derive(Debug)]
pub(super) struct OtherEnd(pub(super) fn(EventStream) -> EventStream);

impl WrongJournal for OtherEnd {
    fn replay(&self, right: &SimulatedJournal, id: &PersistenceId, range: ReplayRange) -> EventStream {
        (self.0)(right.replay(id, range))
    }
}

/// As a store does that reads from a disk: into memory of its own, all at once.
pub(super) fn collected(events: EventStream) -> EventStream {
    EventStream::new(stream::once(events.try_fold(
        Vec::new(),
        |mut all, mut record| {
            record.event.payload = Bytes::copy_from_slice(&record.event.payload);
            all.push(record);
            ready(Ok(all))
        },
    )))
}

#[derive(Debug)]
pub(super) struct SkipsDamage;

impl WrongJournal for SkipsDamage {
    fn replay(&self, right: &SimulatedJournal, id: &PersistenceId, range: ReplayRange) -> EventStream {
        let records = right.replay_unchecked(id, range);
        let undamaged = records.into_iter().filter(|(_, damage)| damage.is_none());
        EventStream::new(stream::iter([Ok(undamaged.map(|(record, _)| record).collect())]))
    }
}

#[derive(Debug)]
pub(super) struct EndsAtDamage;

impl WrongJournal for EndsAtDamage {
    fn replay(&self, right: &SimulatedJournal, id: &PersistenceId, range: ReplayRange) -> EventStream {
        let records = right.replay_unchecked(id, range);
        let undamaged = records
            .into_iter()
            .take_while(|(_, damage): &(Record, Option<Damage>)| damage.is_none());
        EventStream::new(stream::iter([Ok(undamaged.map(|(record, _)| record).collect())]))
    }
}

#[derive(Debug)]
pub(super) struct TakesSilenceForTheEnd;

impl WrongJournal for TakesSilenceForTheEnd {
    fn replay(&self, right: &SimulatedJournal, id: &PersistenceId, range: ReplayRange) -> EventStream {
        if right.is_silent() {
            return EventStream::empty();
        }
        right.replay(id, range)
    }
}

#[derive(Debug)]
pub(super) struct HangsOnSilence;

impl WrongJournal for HangsOnSilence {
    fn replay(&self, right: &SimulatedJournal, id: &PersistenceId, range: ReplayRange) -> EventStream {
        if right.is_silent() {
            return EventStream::new(stream::pending());
        }
        right.replay(id, range)
    }
}

/// As a store does that decodes, and leaves out what it cannot: whatever is of another type than the first event.
#[derive(Debug)]
pub(super) struct SkipsUnknown;

impl WrongJournal for SkipsUnknown {
    fn replay(&self, right: &SimulatedJournal, id: &PersistenceId, range: ReplayRange) -> EventStream {
        let mut known = None;
        EventStream::new(right.replay(id, range).map_ok(move |record| {
            let event = &record.event;
            let this = (event.codec, event.manifest.clone(), event.schema_version);
            let is_known = *known.get_or_insert_with(|| this.clone()) == this;
            is_known.then_some(record).into_iter().collect()
        }))
    }
}
