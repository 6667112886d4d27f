//! The row with what is known of an id beside its events. Written by the first append of a life, by deletions and by a
//! purge; an append alone writes none, so its `highest` may lie behind the last event. Little-endian:
//!
//! ```text
//! version u8 | flags u8 (1 = purged) | incarnation 16 | highest u64 | deleted_to u64 | fresh_start u64 | removed_to u64
//! ```

use bytes::{Buf, BufMut, Bytes, BytesMut};
use journal_core::{Bounds, ErrorKind, Incarnation, JournalError, Operation, PersistenceId, SequenceNr};

use crate::{
    keys,
    record::{Damaged, Row},
    store::{Store, Table, View},
};

const VERSION: u8 = 1;
const LEN: usize = 2 + 16 + 4 * 8;
const PURGED: u8 = 1;

/// One life of an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) incarnation: Incarnation,
    pub(crate) highest: SequenceNr,
    pub(crate) deleted_to: SequenceNr,
    pub(crate) fresh_start: SequenceNr,
    /// Rows whose last number is at most this one are physically gone. Always just before the first number of a row.
    pub(crate) removed_to: SequenceNr,
    /// Purged, but not all rows are removed yet: nobody may see it, and its next life must wait.
    pub(crate) purged: bool,
}

impl Head {
    /// A life without events.
    pub(crate) fn new(incarnation: Incarnation) -> Self {
        Self {
            incarnation,
            highest: SequenceNr::ZERO,
            deleted_to: SequenceNr::ZERO,
            fresh_start: SequenceNr::ZERO,
            removed_to: SequenceNr::ZERO,
            purged: false,
        }
    }

    pub(crate) fn encode(&self) -> Bytes {
        let mut buffer = BytesMut::with_capacity(LEN);
        buffer.put_u8(VERSION);
        buffer.put_u8(if self.purged { PURGED } else { 0 });
        buffer.put_slice(&self.incarnation.to_bytes());
        buffer.put_u64_le(self.highest.get());
        buffer.put_u64_le(self.deleted_to.get());
        buffer.put_u64_le(self.fresh_start.get());
        buffer.put_u64_le(self.removed_to.get());
        buffer.freeze()
    }

    pub(crate) fn decode(mut row: &[u8]) -> Result<Self, Damaged> {
        let version = row.try_get_u8()?;
        if version != VERSION {
            return Err(Damaged::Version(version));
        }
        let flags = row.try_get_u8()?;
        let mut incarnation = [0; 16];
        row.try_copy_to_slice(&mut incarnation)?;
        let mut number = || -> Result<SequenceNr, Damaged> {
            let number = row.try_get_u64_le()?;
            match SequenceNr::new(number) {
                fits if fits.get() == number => Ok(fits),
                _ => Err(Damaged::Numbers),
            }
        };
        let head = Self {
            incarnation: Incarnation::from_bytes(incarnation),
            highest: number()?,
            deleted_to: number()?,
            fresh_start: number()?,
            removed_to: number()?,
            purged: flags & PURGED != 0,
        };
        if row.has_remaining() {
            return Err(Damaged::Trailing);
        }
        let ordered = head.removed_to <= head.deleted_to
            && head.deleted_to <= head.highest
            && head.fresh_start <= head.deleted_to;
        if ordered { Ok(head) } else { Err(Damaged::Numbers) }
    }

    /// What others see of this life.
    pub(crate) fn bounds(&self) -> Bounds {
        if self.purged {
            return Bounds::default();
        }
        Bounds {
            highest: self.highest,
            deleted_to: self.deleted_to,
            fresh_start: self.fresh_start,
            incarnation: Some(self.incarnation),
        }
    }

    /// Reads what is stored of `id`, `highest` included; `None` for an unknown id.
    pub(crate) fn load(
        store: &Store,
        view: &View,
        id: &PersistenceId,
        operation: Operation,
    ) -> Result<Option<Self>, JournalError> {
        let unreadable = |error| store_error(operation, id, error);
        let Some(row) = store
            .get(view, Table::Heads, &keys::head(id))
            .map_err(unreadable)?
        else {
            return Ok(None);
        };
        let mut head = Self::decode(&row).map_err(|error| damaged(operation, id, error))?;
        // From `removed_to` on, so that the search never passes over what was removed.
        let rows = keys::event(id, head.removed_to.next())..=keys::event(id, SequenceNr::MAX);
        if let Some((key, row)) = store.last(view, Table::Events, rows).map_err(unreadable)? {
            let first = keys::first_of(&key).unwrap_or_default();
            let row = Row::decode(first, row)
                .map_err(|error| damaged(operation, id, error).with_sequence_nr(first))?;
            head.highest = head.highest.max(row.last());
        }
        Ok(Some(head))
    }
}

/// The error of a row that is no row.
pub(crate) fn damaged(operation: Operation, id: &PersistenceId, why: Damaged) -> JournalError {
    JournalError::not_stored(
        ErrorKind::Corrupt,
        operation,
        format!("{why}; restore the journal's directory from a backup"),
    )
    .with_id(id)
}

/// The error of a read that failed.
pub(crate) fn store_error(
    operation: Operation,
    id: &PersistenceId,
    error: crate::store::StoreError,
) -> JournalError {
    error.reading(operation).with_id(id)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_head_is_read_as_it_was_written(numbers: [u64; 3], purged: bool, life: [u8; 16]) {
            let mut numbers = numbers.map(SequenceNr::new);
            numbers.sort();
            let head = Head {
                incarnation: Incarnation::from_bytes(life),
                highest: numbers[2],
                deleted_to: numbers[1],
                fresh_start: numbers[0],
                removed_to: numbers[0],
                purged,
            };
            prop_assert_eq!(Head::decode(&head.encode()), Ok(head));
        }

        #[test]
        fn arbitrary_bytes_are_an_error_and_no_panic(mut bytes: Vec<u8>) {
            let _ = Head::decode(&bytes);
            bytes.resize(LEN, 0);
            bytes[0] = VERSION;
            let _ = Head::decode(&bytes);
        }
    }
}
