//! Reading back, in chunks of bounded memory, from a view of one moment.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use journal_core::{EventStream, JournalError, Operation, PersistenceId, Record, ReplayRange, SequenceNr};

use crate::{
    head::{Head, damaged, store_error},
    journal::Shared,
    keys,
    record::{Damaged, Row},
    store::{Store, Table, View},
};
/// A chunk ends after this many events or bytes, whichever comes first; within an atomic write if need be.
const CHUNK_EVENTS: usize = 1_024;
const CHUNK_BYTES: usize = 1 << 20;

/// How far a replay has come.
struct Replay {
    id: PersistenceId,
    next: SequenceNr,
    last: SequenceNr,
    view: View,
    /// The row that the last chunk ended in.
    row: Option<Row>,
}

/// The events of `range`. Nothing is read before the stream is polled; the first read gives the bounds and the first
/// chunk together.
pub(crate) fn replay(shared: Arc<Shared>, id: &PersistenceId, range: ReplayRange) -> EventStream {
    EventStream::opened(begin(shared, id.clone(), range))
}

async fn begin(
    shared: Arc<Shared>,
    id: PersistenceId,
    range: ReplayRange,
) -> Result<EventStream, JournalError> {
    let begun = shared
        .read(Operation::Replay, {
            let id = id.clone();
            move |store| Replay::begin(store, id, range)
        })
        .await?;
    let Some((replay, chunk)) = begun else {
        return Ok(EventStream::empty());
    };
    let (first, last) = (chunk.first, replay.last);
    let rest = stream::unfold((shared, Some(replay)), |(shared, replay)| async move {
        let mut replay = replay.filter(|replay| replay.next <= replay.last)?;
        let read = shared
            .read(Operation::Replay, move |store| {
                let records = replay.chunk(store)?;
                Ok((records, replay))
            })
            .await;
        Some(match read {
            Ok((records, replay)) => {
                // An empty chunk means that rows are missing: the end shows it.
                let more = (!records.is_empty()).then_some(replay);
                (Ok(records), (shared, more))
            }
            Err(error) => (Err(error), (shared, None)),
        })
    });
    let chunks = stream::iter([Ok(chunk.records)]).chain(rest);
    Ok(EventStream::contiguous(id, first, last, chunks))
}

struct FirstChunk {
    first: SequenceNr,
    records: Vec<Record>,
}

impl Replay {
    /// `None` if the range holds no events.
    fn begin(
        store: &Store,
        id: PersistenceId,
        range: ReplayRange,
    ) -> Result<Option<(Self, FirstChunk)>, JournalError> {
        let view = store.view();
        let Some(head) = Head::load(store, &view, &id, Operation::Replay)? else {
            return Ok(None);
        };
        let Some((first, last)) = range.within(&head.bounds()) else {
            return Ok(None);
        };
        let mut replay = Self {
            id,
            next: first,
            last,
            view,
            row: None,
        };
        if first != head.removed_to.next() {
            replay.row = replay.row_around(store, &head)?;
        }
        let records = replay.chunk(store)?;
        Ok(Some((replay, FirstChunk { first, records })))
    }

    /// The row that `next` lies in, which may begin before it.
    fn row_around(&self, store: &Store, head: &Head) -> Result<Option<Row>, JournalError> {
        let rows = keys::event(&self.id, head.removed_to.next())..=keys::event(&self.id, self.next);
        let Some((key, row)) = store
            .last(&self.view, Table::Events, rows)
            .map_err(|error| store_error(Operation::Replay, &self.id, error))?
        else {
            return Ok(None);
        };
        let row = self.decode(&key, row)?;
        Ok((row.last() >= self.next).then_some(row))
    }

    fn decode(&self, key: &[u8], row: Bytes) -> Result<Row, JournalError> {
        let first = keys::first_of(key).unwrap_or_default();
        Row::decode(first, row).map_err(|error| self.damaged(first, error))
    }

    fn damaged(&self, at: SequenceNr, error: Damaged) -> JournalError {
        damaged(Operation::Replay, &self.id, error).with_sequence_nr(at)
    }

    /// The next events; fewer than wanted only at the end or where rows are missing.
    fn chunk(&mut self, store: &Store) -> Result<Vec<Record>, JournalError> {
        let mut chunk = Vec::new();
        let mut bytes = 0;
        if let Some(row) = self.row.take() {
            self.take(row, &mut chunk, &mut bytes)?;
        }
        if self.next > self.last || self.row.is_some() {
            return Ok(chunk);
        }
        let rows = keys::event(&self.id, self.next)..=keys::event(&self.id, self.last);
        for row in store.scan(&self.view, Table::Events, rows) {
            let (key, row) = row.map_err(|error| {
                store_error(Operation::Replay, &self.id, error).with_sequence_nr(self.next)
            })?;
            let row = self.decode(&key, row)?;
            self.take(row, &mut chunk, &mut bytes)?;
            if self.row.is_some() || is_full(&chunk, bytes) {
                break;
            }
        }
        Ok(chunk)
    }

    /// Moves events of a row into the chunk, until it is full; keeps the row if something of it is left.
    fn take(&mut self, mut row: Row, chunk: &mut Vec<Record>, bytes: &mut usize) -> Result<(), JournalError> {
        row.skip_to(self.next)
            .map_err(|error| self.damaged(row.next_number(), error))?;
        while !row.is_empty() && row.next_number() <= self.last {
            if is_full(chunk, *bytes) {
                self.row = Some(row);
                return Ok(());
            }
            let at = row.next_number();
            let record = row.next_event().map_err(|error| self.damaged(at, error))?;
            *bytes += record.event.size();
            self.next = at.next();
            chunk.push(record);
        }
        Ok(())
    }
}

fn is_full(chunk: &[Record], bytes: usize) -> bool {
    chunk.len() >= CHUNK_EVENTS || bytes >= CHUNK_BYTES
}
