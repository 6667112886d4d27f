//! The row of an atomic write. Little-endian:
//!
//! ```text
//! version u8 | writer 16 | epoch 16 | commit order u64 | last number u64 | number of events u32 | events
//! event: payload length u32 | metadata length u32 | manifest length u32 | tags u32 | schema version u32 | codec u16
//!        | timestamp u64 | per tag: length u32, tag | manifest | metadata | payload
//! ```
//!
//! Payloads, manifests, tags and metadata of decoded events share the row's memory.

use bytes::{Buf, BufMut, Bytes, BytesMut, TryGetError};
use journal_core::{
    AtomicWrite, CodecId, EncodedEvent, Epoch, Manifest, Record, SequenceNr, Tag, Timestamp, WriterId,
};

const VERSION: u8 = 1;
const HEADER: usize = 1 + 16 + 16 + 8 + 8 + 4;
const EVENT_HEADER: usize = 4 * 5 + 2 + 8;
const TAG_HEADER: usize = 4;

/// The bytes of an epoch in this journal.
pub(crate) const EPOCH: usize = 16;

/// What all events of a row have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) writer: WriterId,
    pub(crate) epoch: [u8; EPOCH],
    pub(crate) commit_order: u64,
}

/// Why bytes are no row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Damaged {
    #[error("the row ends too early")]
    Short,
    #[error("row version {0} is unknown to this build")]
    Version(u8),
    #[error("the row's numbers do not fit each other")]
    Numbers,
    #[error("a manifest or tag is no UTF-8")]
    Text,
    #[error("bytes follow the last event")]
    Trailing,
}

impl From<TryGetError> for Damaged {
    fn from(_: TryGetError) -> Self {
        Self::Short
    }
}

/// The bytes of a write's row.
pub(crate) fn encoded_len(write: &AtomicWrite) -> usize {
    let events: usize = write
        .events
        .iter()
        .map(|event| EVENT_HEADER + TAG_HEADER * event.tags.len() + event.size())
        .sum();
    HEADER + events
}

/// Appends the row of a write whose row fits `u32::MAX` bytes: so do all lengths in it.
pub(crate) fn encode(buffer: &mut BytesMut, write: &AtomicWrite, stamp: &Stamp, last: SequenceNr) {
    buffer.put_u8(VERSION);
    buffer.put_slice(&stamp.writer.to_bytes());
    buffer.put_slice(&stamp.epoch);
    buffer.put_u64_le(stamp.commit_order);
    buffer.put_u64_le(last.get());
    put_len(buffer, write.events.len());
    for event in &write.events {
        let manifest = event.manifest.as_str().as_bytes();
        put_len(buffer, event.payload.len());
        put_len(buffer, event.metadata.len());
        put_len(buffer, manifest.len());
        put_len(buffer, event.tags.len());
        buffer.put_u32_le(event.schema_version);
        buffer.put_u16_le(event.codec.0);
        buffer.put_u64_le(event.timestamp.0);
        for tag in &event.tags {
            put_len(buffer, tag.as_str().len());
            buffer.put_slice(tag.as_str().as_bytes());
        }
        buffer.put_slice(manifest);
        buffer.put_slice(&event.metadata);
        buffer.put_slice(&event.payload);
    }
}

fn put_len(buffer: &mut BytesMut, len: usize) {
    buffer.put_u32_le(u32::try_from(len).unwrap_or(u32::MAX));
}

/// A row being read, event by event.
#[derive(Debug)]
pub(crate) struct Row {
    stamp: Stamp,
    last: SequenceNr,
    next: SequenceNr,
    remaining: u32,
    rest: Bytes,
}

impl Row {
    /// Reads the header of the row that starts with number `first`.
    pub(crate) fn decode(first: SequenceNr, mut row: Bytes) -> Result<Self, Damaged> {
        let version = row.try_get_u8()?;
        if version != VERSION {
            return Err(Damaged::Version(version));
        }
        let mut writer = [0; 16];
        row.try_copy_to_slice(&mut writer)?;
        let mut epoch = [0; EPOCH];
        row.try_copy_to_slice(&mut epoch)?;
        let commit_order = row.try_get_u64_le()?;
        let last = row.try_get_u64_le()?;
        let events = row.try_get_u32_le()?;
        let fits = first > SequenceNr::ZERO
            && events > 0
            && first.checked_add(u64::from(events) - 1).map(SequenceNr::get) == Some(last);
        if !fits {
            return Err(Damaged::Numbers);
        }
        let stamp = Stamp {
            writer: WriterId::from_bytes(writer),
            epoch,
            commit_order,
        };
        Ok(Self {
            stamp,
            last: SequenceNr::new(last),
            next: first,
            remaining: events,
            rest: row,
        })
    }

    /// The number of the row's last event.
    pub(crate) fn last(&self) -> SequenceNr {
        self.last
    }

    /// The number of the event that [`next_event`](Row::next_event) gives.
    pub(crate) fn next_number(&self) -> SequenceNr {
        self.next
    }

    /// True if all events were read.
    pub(crate) fn is_empty(&self) -> bool {
        self.remaining == 0
    }

    /// Goes on to event `number` without decoding those before.
    pub(crate) fn skip_to(&mut self, number: SequenceNr) -> Result<(), Damaged> {
        while self.next < number && !self.is_empty() {
            let header = Header::decode(&mut self.rest)?;
            for _ in 0..header.tags {
                let len = self.rest.try_get_u32_le()?;
                skip(&mut self.rest, len)?;
            }
            skip(&mut self.rest, header.manifest)?;
            skip(&mut self.rest, header.metadata)?;
            skip(&mut self.rest, header.payload)?;
            self.advance()?;
        }
        Ok(())
    }

    /// The next event; call it only while the row is not [empty](Row::is_empty).
    pub(crate) fn next_event(&mut self) -> Result<Record, Damaged> {
        let header = Header::decode(&mut self.rest)?;
        // Each tag takes four bytes at least: what the row cannot hold is not allocated.
        let possible = self.rest.remaining() / TAG_HEADER;
        let mut tags = Vec::with_capacity(usize::try_from(header.tags).unwrap_or(possible).min(possible));
        for _ in 0..header.tags {
            let len = self.rest.try_get_u32_le()?;
            tags.push(Tag::from_utf8(take(&mut self.rest, len)?).map_err(|_| Damaged::Text)?);
        }
        let manifest =
            Manifest::from_utf8(take(&mut self.rest, header.manifest)?).map_err(|_| Damaged::Text)?;
        let metadata = take(&mut self.rest, header.metadata)?;
        let payload = take(&mut self.rest, header.payload)?;
        let record = Record {
            sequence_nr: self.next,
            writer: self.stamp.writer,
            epoch: Epoch::new(&self.stamp.epoch).ok_or(Damaged::Numbers)?,
            commit_order: Some(self.stamp.commit_order),
            event: EncodedEvent {
                payload,
                codec: CodecId(header.codec),
                manifest,
                schema_version: header.schema_version,
                timestamp: Timestamp(header.timestamp),
                tags,
                metadata,
            },
        };
        self.advance()?;
        Ok(record)
    }

    fn advance(&mut self) -> Result<(), Damaged> {
        self.next = self.next.next();
        self.remaining -= 1;
        if self.is_empty() && self.rest.has_remaining() {
            return Err(Damaged::Trailing);
        }
        Ok(())
    }
}

struct Header {
    payload: u32,
    metadata: u32,
    manifest: u32,
    tags: u32,
    schema_version: u32,
    codec: u16,
    timestamp: u64,
}

impl Header {
    fn decode(rest: &mut Bytes) -> Result<Self, Damaged> {
        Ok(Self {
            payload: rest.try_get_u32_le()?,
            metadata: rest.try_get_u32_le()?,
            manifest: rest.try_get_u32_le()?,
            tags: rest.try_get_u32_le()?,
            schema_version: rest.try_get_u32_le()?,
            codec: rest.try_get_u16_le()?,
            timestamp: rest.try_get_u64_le()?,
        })
    }
}

fn checked_len(rest: &Bytes, len: u32) -> Result<usize, Damaged> {
    usize::try_from(len)
        .ok()
        .filter(|len| *len <= rest.len())
        .ok_or(Damaged::Short)
}

fn take(rest: &mut Bytes, len: u32) -> Result<Bytes, Damaged> {
    let len = checked_len(rest, len)?;
    Ok(rest.split_to(len))
}

fn skip(rest: &mut Bytes, len: u32) -> Result<(), Damaged> {
    let len = checked_len(rest, len)?;
    rest.advance(len);
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    fn text() -> impl Strategy<Value = String> {
        "[a-zä\u{0}]{0,8}"
    }

    fn event() -> impl Strategy<Value = EncodedEvent> {
        (
            vec(any::<u8>(), 0..40),
            (any::<u16>(), any::<u32>(), any::<u64>()),
            text(),
            vec(text(), 0..3),
            vec(any::<u8>(), 0..9),
        )
            .prop_map(
                |(payload, (codec, schema_version, timestamp), manifest, tags, metadata)| EncodedEvent {
                    payload: payload.into(),
                    codec: CodecId(codec),
                    manifest: manifest.into(),
                    schema_version,
                    timestamp: Timestamp(timestamp),
                    tags: tags.into_iter().map(Tag::from).collect(),
                    metadata: metadata.into(),
                },
            )
    }

    fn stamp() -> Stamp {
        Stamp {
            writer: WriterId::from_bytes([1; 16]),
            epoch: [2; 16],
            commit_order: 77,
        }
    }

    fn encoded(write: &AtomicWrite, first: SequenceNr) -> Bytes {
        let mut buffer = BytesMut::new();
        let last = first
            .checked_add(u64::try_from(write.len()).unwrap() - 1)
            .unwrap();
        encode(&mut buffer, write, &stamp(), last);
        buffer.freeze()
    }

    fn read_all(row: &mut Row) -> Result<Vec<Record>, Damaged> {
        let mut records = Vec::new();
        while !row.is_empty() {
            records.push(row.next_event()?);
        }
        Ok(records)
    }

    proptest! {
        #[test]
        fn a_row_gives_back_what_was_written(events in vec(event(), 1..5), skip in 0_u64..5, high: bool) {
            let write = AtomicWrite::from(events);
            let count = u64::try_from(write.len()).unwrap();
            // Also the row that uses up the last number there is.
            let first = if high { SequenceNr::new(SequenceNr::MAX.get() - count + 1) } else { SequenceNr::new(3) };
            let bytes = encoded(&write, first);
            prop_assert_eq!(bytes.len(), encoded_len(&write));

            let mut row = Row::decode(first, bytes).unwrap();
            prop_assert_eq!(Some(row.last()), first.checked_add(count - 1));
            let skip = skip.min(count - 1);
            row.skip_to(first.checked_add(skip).unwrap()).unwrap();
            let records = read_all(&mut row).unwrap();
            let (numbers, events): (Vec<_>, Vec<_>) =
                records.into_iter().map(|record| (record.sequence_nr.get() - first.get(), record.event)).unzip();
            prop_assert_eq!(numbers, (skip..count).collect::<Vec<_>>());
            prop_assert_eq!(&events, &write.events[usize::try_from(skip).unwrap()..]);
        }

        #[test]
        fn arbitrary_bytes_are_an_error_and_no_panic(first: u64, bytes: Vec<u8>) {
            if let Ok(mut row) = Row::decode(SequenceNr::new(first), bytes.into()) {
                let _ = read_all(&mut row);
            }
        }

        #[test]
        fn a_damaged_row_is_an_error_or_a_row_and_no_panic(
            events in vec(event(), 1..5), at: prop::sample::Index, byte: u8, cut: prop::sample::Index,
        ) {
            let write = AtomicWrite::from(events);
            let mut bytes = encoded(&write, SequenceNr::FIRST).to_vec();
            let at = at.index(bytes.len());
            bytes[at] = byte;
            bytes.truncate(cut.index(bytes.len() + 1));
            if let Ok(mut row) = Row::decode(SequenceNr::FIRST, bytes.clone().into()) {
                let _ = read_all(&mut row);
            }
            if let Ok(mut row) = Row::decode(SequenceNr::FIRST, bytes.into()) {
                let _ = row.skip_to(SequenceNr::MAX);
            }
        }

        #[test]
        fn a_row_that_is_cut_short_or_followed_by_bytes_is_an_error(events in vec(event(), 1..5), cut in 1_usize..200) {
            let write = AtomicWrite::from(events);
            let bytes = encoded(&write, SequenceNr::FIRST);
            let short = bytes.slice(..bytes.len().saturating_sub(cut));
            prop_assert!(Row::decode(SequenceNr::FIRST, short).and_then(|mut row| read_all(&mut row)).is_err());
            let long: Bytes = [&bytes[..], &[0]].concat().into();
            prop_assert!(Row::decode(SequenceNr::FIRST, long).and_then(|mut row| read_all(&mut row)).is_err());
        }
    }

    #[test]
    fn a_count_of_tags_that_the_row_cannot_hold_allocates_nothing() {
        let mut bytes = encoded(
            &AtomicWrite::from(EncodedEvent {
                payload: Bytes::new(),
                codec: CodecId(1),
                manifest: Manifest::default(),
                schema_version: 0,
                timestamp: Timestamp(0),
                tags: Vec::new(),
                metadata: Bytes::new(),
            }),
            SequenceNr::FIRST,
        )
        .to_vec();
        bytes[HEADER + 12..HEADER + 16].copy_from_slice(&u32::MAX.to_le_bytes());
        let mut row = Row::decode(SequenceNr::FIRST, bytes.into()).unwrap();
        assert_eq!(row.next_event(), Err(Damaged::Short));
    }

    #[test]
    fn events_share_the_memory_of_their_row() {
        let write = AtomicWrite::from(EncodedEvent {
            payload: Bytes::from_static(b"payload"),
            codec: CodecId(1),
            manifest: Manifest::from("manifest"),
            schema_version: 0,
            timestamp: Timestamp(0),
            tags: Vec::new(),
            metadata: Bytes::from_static(b"metadata"),
        });
        let bytes = encoded(&write, SequenceNr::FIRST);
        let event = Row::decode(SequenceNr::FIRST, bytes.clone())
            .unwrap()
            .next_event()
            .unwrap()
            .event;
        let row = bytes.as_ptr_range();
        assert!(row.contains(&event.payload.as_ptr()));
        assert!(row.contains(&event.metadata.as_ptr()));
        assert!(row.contains(&event.manifest.as_str().as_ptr()));
    }
}
