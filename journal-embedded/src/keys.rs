//! The keys of all tables. An id is written with its length before it, so that no id's keys lie between another's,
//! whatever bytes it has; numbers are big-endian, so that keys sort by number.

use bytes::{BufMut, Bytes, BytesMut};
use journal_core::{Incarnation, PersistenceId, SequenceNr};

/// The bytes of an id's prefix: its length and itself.
const fn prefix_len(id_len: usize) -> usize {
    2 + id_len
}

fn put_id(buffer: &mut BytesMut, id: &PersistenceId) {
    // An id has at most 1 024 bytes.
    buffer.put_u16(u16::try_from(id.as_str().len()).unwrap_or(u16::MAX));
    buffer.put_slice(id.as_str().as_bytes());
}

/// The bytes of [`put_event`].
pub(crate) fn event_len(id: &PersistenceId) -> usize {
    prefix_len(id.as_str().len()) + 8
}

/// The row of the atomic write whose first event is `first`.
pub(crate) fn put_event(buffer: &mut BytesMut, id: &PersistenceId, first: SequenceNr) {
    put_id(buffer, id);
    buffer.put_u64(first.get());
}

/// As [`put_event`], for reads.
pub(crate) fn event(id: &PersistenceId, first: SequenceNr) -> Bytes {
    let mut buffer = BytesMut::with_capacity(event_len(id));
    put_event(&mut buffer, id, first);
    buffer.freeze()
}

/// The first number in an event's key.
pub(crate) fn first_of(key: &[u8]) -> Option<SequenceNr> {
    key.last_chunk()
        .map(|number| SequenceNr::new(u64::from_be_bytes(*number)))
}

/// The row with an id's bounds.
pub(crate) fn head(id: &PersistenceId) -> Bytes {
    let mut buffer = BytesMut::with_capacity(prefix_len(id.as_str().len()));
    put_id(&mut buffer, id);
    buffer.freeze()
}

/// The two rows of a snapshot: descriptions lie together, so that listing them reads no payload.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SnapshotRow {
    Description = 0,
    Payload = 1,
}

/// A row of the snapshot of one life at one number.
pub(crate) fn snapshot(
    row: SnapshotRow,
    id: &PersistenceId,
    incarnation: Incarnation,
    at: SequenceNr,
) -> Bytes {
    let mut buffer = BytesMut::with_capacity(1 + prefix_len(id.as_str().len()) + 24);
    buffer.put_u8(row as u8);
    put_id(&mut buffer, id);
    buffer.put_slice(&incarnation.to_bytes());
    buffer.put_u64(at.get());
    buffer.freeze()
}

/// The incarnation and number in a snapshot's key.
pub(crate) fn snapshot_of(key: &[u8]) -> Option<(Incarnation, SequenceNr)> {
    let (rest, number) = key.split_last_chunk()?;
    let incarnation = rest.last_chunk()?;
    Some((
        Incarnation::from_bytes(*incarnation),
        SequenceNr::new(u64::from_be_bytes(*number)),
    ))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn id() -> impl Strategy<Value = PersistenceId> {
        // Few distinct characters, NUL and 0xff-like bytes among them, so that prefixes of each other are common.
        "[a\u{0}|\u{10ffff}]{1,6}".prop_map(|id| PersistenceId::new(id).unwrap())
    }

    proptest! {
        #[test]
        fn no_key_of_one_id_lies_between_the_keys_of_another(a in id(), b in id(), number: u64) {
            prop_assume!(a != b);
            let key = event(&b, SequenceNr::new(number));
            prop_assert!(!(event(&a, SequenceNr::ZERO)..=event(&a, SequenceNr::MAX)).contains(&key));
        }

        #[test]
        fn keys_sort_by_number_and_give_it_back(id in id(), a in 0_u64.., b in 0_u64..) {
            let (a, b) = (SequenceNr::new(a), SequenceNr::new(b));
            prop_assert_eq!(event(&id, a).cmp(&event(&id, b)), a.cmp(&b));
            prop_assert_eq!(first_of(&event(&id, a)), Some(a));
            let life = Incarnation::from_bytes([7; 16]);
            let key = snapshot(SnapshotRow::Payload, &id, life, a);
            prop_assert_eq!(snapshot_of(&key), Some((life, a)));
        }

        #[test]
        fn arbitrary_bytes_as_a_key_are_no_panic(key: Vec<u8>) {
            let _ = first_of(&key);
            let _ = snapshot_of(&key);
        }
    }
}
