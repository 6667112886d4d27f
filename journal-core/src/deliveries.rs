//! Deliveries as they are stored, which of them are unconfirmed, and when each is sent again. No I/O, no clock: fed with
//! time.
//!
//! # Formats
//!
//! Little endian. Both are events of a reserved manifest, codec 0 and schema version 1, and take part in the numbers of
//! their persistence id like any other.
//!
//! | manifest | payload |
//! |---|---|
//! | `actor-journal/deliver` | codec u16; schema version u32; manifest: length u16, bytes; the delivery in the codec's encoding, up to the end. Its sequence number is the delivery's id |
//! | `actor-journal/confirm` | delivery id u64 |
//!
//! The engine section of a snapshot, version 1, holds the unconfirmed deliveries, ids ascending: id u64, length u32, the
//! payload of `actor-journal/deliver`. Where there are none the section stays of version 0.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use bytes::{Buf, BufMut, Bytes};

use crate::{CodecError, CodecId, DeliveryId, EncodedEvent, Manifest, Redelivery, SequenceNr, Timestamp};

const DELIVER: Manifest = Manifest::from_static("actor-journal/deliver");
const CONFIRM: Manifest = Manifest::from_static("actor-journal/confirm");
/// The layout of both.
const VERSION: u32 = 1;

/// The engine section's version where there are deliveries in it.
pub(crate) const SECTION_VERSION: u16 = 1;

/// A delivery as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Recorded {
    /// The payload of its event, of which all the rest are parts.
    encoded: Bytes,
    pub(crate) codec: CodecId,
    pub(crate) schema_version: u32,
    pub(crate) manifest: Manifest,
    pub(crate) payload: Bytes,
}

impl Recorded {
    pub(crate) fn new(delivery: EncodedEvent) -> Result<Self, CodecError> {
        let manifest = delivery.manifest.as_str();
        let length = u16::try_from(manifest.len())
            .map_err(|_| CodecError::encode::<Self>("the manifest is longer than 65 535 bytes"))?;
        let mut encoded = Vec::with_capacity(8 + manifest.len() + delivery.payload.len());
        encoded.put_u16_le(delivery.codec.0);
        encoded.put_u32_le(delivery.schema_version);
        encoded.put_u16_le(length);
        encoded.put_slice(manifest.as_bytes());
        encoded.put_slice(&delivery.payload);
        let encoded = Bytes::from(encoded);
        Ok(Self {
            payload: encoded.slice(encoded.len() - delivery.payload.len()..),
            encoded,
            codec: delivery.codec,
            schema_version: delivery.schema_version,
            manifest: delivery.manifest,
        })
    }

    /// Copies: it may be kept for long, and `encoded` is a part of a chunk of records or of a snapshot.
    fn read(encoded: &[u8]) -> Option<Self> {
        let encoded = Bytes::copy_from_slice(encoded);
        let mut rest = encoded.clone();
        let codec = CodecId(rest.try_get_u16_le().ok()?);
        let schema_version = rest.try_get_u32_le().ok()?;
        let length = usize::from(rest.try_get_u16_le().ok()?);
        if length > rest.len() {
            return None;
        }
        let manifest = Manifest::from_utf8(rest.split_to(length)).ok()?;
        Some(Self {
            encoded,
            codec,
            schema_version,
            manifest,
            payload: rest,
        })
    }
}

/// What a command does about deliveries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DeliveryEvent {
    /// Somebody is owed this.
    Deliver(Recorded),
    /// No longer.
    Confirm(DeliveryId),
}

impl DeliveryEvent {
    pub(crate) fn encode(&self, timestamp: Timestamp) -> EncodedEvent {
        let (manifest, payload) = match self {
            Self::Deliver(delivery) => (DELIVER, delivery.encoded.clone()),
            Self::Confirm(id) => (CONFIRM, Bytes::copy_from_slice(&id.get().to_le_bytes())),
        };
        EncodedEvent {
            payload,
            codec: CodecId::ENGINE,
            manifest,
            schema_version: VERSION,
            timestamp,
            tags: Vec::new(),
            metadata: Bytes::new(),
        }
    }

    /// Reads an event of a reserved manifest.
    pub(crate) fn decode(event: &EncodedEvent) -> Result<Self, Unreadable> {
        if event.codec != CodecId::ENGINE || event.schema_version != VERSION {
            return Err(Unreadable::Newer);
        }
        if event.manifest == DELIVER {
            let delivery = Recorded::read(&event.payload).ok_or(Unreadable::Damaged)?;
            return Ok(Self::Deliver(delivery));
        }
        if event.manifest == CONFIRM {
            let id = event.payload[..].try_into().map_err(|_| Unreadable::Damaged)?;
            return Ok(Self::Confirm(DeliveryId::new(u64::from_le_bytes(id))));
        }
        Err(Unreadable::Newer)
    }
}

/// Why what the engine stored is of no use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unreadable {
    #[error("it was written by a newer version of this program; upgrade it")]
    Newer,
    #[error("it is damaged")]
    Damaged,
}

/// The unconfirmed deliveries: the fold of the engine's events, beside the state.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Deliveries(BTreeMap<DeliveryId, Recorded>);

impl Deliveries {
    /// Folds the event of this number.
    pub(crate) fn apply(&mut self, number: SequenceNr, event: DeliveryEvent) {
        match event {
            DeliveryEvent::Deliver(delivery) => {
                self.0.insert(number.into(), delivery);
            }
            // Of one that is not there where its own event was deleted, and that accepted.
            DeliveryEvent::Confirm(id) => {
                self.0.remove(&id);
            }
        }
    }

    /// Whether any would be left after these events.
    pub(crate) fn would_be_empty(&self, after: &[(SequenceNr, DeliveryEvent)]) -> bool {
        let confirms = |(_, event): &(SequenceNr, DeliveryEvent)| matches!(event, DeliveryEvent::Confirm(_));
        after.len() == self.len() && after.iter().all(confirms)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn contains(&self, id: DeliveryId) -> bool {
        self.0.contains_key(&id)
    }

    /// The one that was recorded first.
    pub(crate) fn oldest(&self) -> Option<DeliveryId> {
        self.0.keys().next().copied()
    }

    /// In the order of their recording.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (DeliveryId, &Recorded)> {
        self.0.iter().map(|(id, delivery)| (*id, delivery))
    }

    /// The engine section of a snapshot.
    pub(crate) fn encode(&self) -> Result<Vec<u8>, CodecError> {
        let mut section = Vec::new();
        for (id, delivery) in self.iter() {
            let length = u32::try_from(delivery.encoded.len()).map_err(CodecError::encode::<Self>)?;
            section.put_u64_le(id.get());
            section.put_u32_le(length);
            section.put_slice(&delivery.encoded);
        }
        Ok(section)
    }

    /// Reads the engine section of a snapshot; `None` if it is damaged.
    pub(crate) fn decode(mut section: &[u8]) -> Option<Self> {
        let rest = &mut section;
        let mut deliveries = BTreeMap::new();
        while !rest.is_empty() {
            let id = DeliveryId::new(rest.try_get_u64_le().ok()?);
            let length = usize::try_from(rest.try_get_u32_le().ok()?).ok()?;
            let (encoded, behind) = rest.split_at_checked(length)?;
            *rest = behind;
            if deliveries.last_key_value().is_some_and(|(last, _)| *last >= id) {
                return None;
            }
            deliveries.insert(id, Recorded::read(encoded)?);
        }
        Some(Self(deliveries))
    }
}

/// When the durable, unconfirmed deliveries are sent again. Times count from any one moment.
#[derive(Debug)]
pub(crate) struct Schedule {
    settings: Redelivery,
    entries: BTreeMap<DeliveryId, Entry>,
    due: BTreeSet<(Duration, DeliveryId)>,
}

#[derive(Debug)]
struct Entry {
    delivery: Recorded,
    attempts: u32,
    /// `None` while it is about to be sent, and once it is given up.
    due: Option<Duration>,
}

/// What is to be done now.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Due {
    /// Send these again.
    pub(crate) again: Vec<DeliveryId>,
    /// These were sent as often as they may be.
    pub(crate) given_up: Vec<(DeliveryId, u32)>,
}

impl Schedule {
    pub(crate) fn new(settings: Redelivery) -> Self {
        Self {
            settings,
            entries: BTreeMap::new(),
            due: BTreeSet::new(),
        }
    }

    /// A delivery that is about to be sent for the first time in this life.
    pub(crate) fn add(&mut self, id: DeliveryId, delivery: Recorded) {
        self.remove(id);
        let entry = Entry {
            delivery,
            attempts: 0,
            due: None,
        };
        self.entries.insert(id, entry);
    }

    /// One that is confirmed.
    pub(crate) fn remove(&mut self, id: DeliveryId) {
        if let Some(Entry { due: Some(due), .. }) = self.entries.remove(&id) {
            self.due.remove(&(due, id));
        }
    }

    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.due.clear();
    }

    pub(crate) fn contains(&self, id: DeliveryId) -> bool {
        self.entries.contains_key(&id)
    }

    /// It is sent now: what to send, unless it was confirmed meanwhile.
    pub(crate) fn send(&mut self, id: DeliveryId, now: Duration) -> Option<Recorded> {
        let entry = self.entries.get_mut(&id)?;
        let due = now.saturating_add(self.settings.backoff.wait(entry.attempts));
        entry.attempts = entry.attempts.saturating_add(1);
        if let Some(former) = entry.due.replace(due) {
            self.due.remove(&(former, id));
        }
        self.due.insert((due, id));
        Some(entry.delivery.clone())
    }

    /// What waited long enough for its confirmation.
    pub(crate) fn due(&mut self, now: Duration) -> Due {
        let mut due = Due::default();
        while let Some((_, id)) = self.due.first().filter(|(at, _)| *at <= now).copied() {
            self.due.pop_first();
            let Some(entry) = self.entries.get_mut(&id) else {
                continue;
            };
            entry.due = None;
            if entry.attempts < self.settings.attempts {
                due.again.push(id);
            } else {
                due.given_up.push((id, entry.attempts));
            }
        }
        due
    }

    /// True if nothing is to be sent any more: all that is unconfirmed is given up.
    pub(crate) fn is_at_rest(&self) -> bool {
        let given_up = |entry: &Entry| entry.due.is_none() && entry.attempts >= self.settings.attempts;
        self.entries.values().all(given_up)
    }

    /// When [`due`](Self::due) has something to tell again.
    pub(crate) fn next(&self) -> Option<Duration> {
        self.due.first().map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*, test_runner::FileFailurePersistence};

    use super::*;

    fn delivery(manifest: &str, payload: &[u8]) -> Recorded {
        Recorded::new(EncodedEvent {
            payload: Bytes::copy_from_slice(payload),
            codec: CodecId::JSON,
            manifest: Manifest::from(manifest),
            schema_version: 7,
            timestamp: Timestamp(5),
            tags: Vec::new(),
            metadata: Bytes::new(),
        })
        .unwrap()
    }

    fn recorded() -> impl Strategy<Value = Recorded> {
        ("[a-zä]{0,5}", vec(any::<u8>(), 0..9)).prop_map(|(manifest, payload)| delivery(&manifest, &payload))
    }

    fn deliveries() -> impl Strategy<Value = Deliveries> {
        let unconfirmed =
            prop::collection::btree_map(any::<u64>().prop_map(DeliveryId::new), recorded(), 0..5);
        unconfirmed.prop_map(Deliveries)
    }

    #[test]
    fn the_events_are_laid_out_as_documented() {
        let deliver = DeliveryEvent::Deliver(delivery("ship", b"{}")).encode(Timestamp(9));
        assert_eq!(&deliver.payload[..], b"\x02\0\x07\0\0\0\x04\0ship{}");
        let confirm = DeliveryEvent::Confirm(DeliveryId::new(258)).encode(Timestamp(9));
        assert_eq!(&confirm.payload[..], b"\x02\x01\0\0\0\0\0\0");
        for (event, manifest) in [
            (deliver, "actor-journal/deliver"),
            (confirm, "actor-journal/confirm"),
        ] {
            assert_eq!(event.manifest.as_str(), manifest);
            assert!(event.manifest.is_reserved());
            assert_eq!(
                (event.codec, event.schema_version, event.timestamp),
                (CodecId(0), 1, Timestamp(9))
            );
        }
    }

    #[test]
    fn the_section_is_laid_out_as_documented() {
        let mut deliveries = Deliveries::default();
        deliveries.apply(SequenceNr::new(9), DeliveryEvent::Deliver(delivery("b", b"2")));
        deliveries.apply(SequenceNr::new(3), DeliveryEvent::Deliver(delivery("a", b"")));
        let expected = b"\x03\0\0\0\0\0\0\0\x09\0\0\0\x02\0\x07\0\0\0\x01\0a\
            \x09\0\0\0\0\0\0\0\x0a\0\0\0\x02\0\x07\0\0\0\x01\0b2";
        assert_eq!(deliveries.encode().unwrap(), expected);
    }

    #[test]
    fn a_section_whose_ids_do_not_ascend_is_damaged() {
        let mut deliveries = Deliveries::default();
        deliveries.apply(SequenceNr::new(3), DeliveryEvent::Deliver(delivery("a", b"")));
        let once = deliveries.encode().unwrap();
        assert_eq!(Deliveries::decode(&once.repeat(2)), None);
    }

    #[test]
    fn an_unknown_engine_event_or_a_newer_layout_says_to_upgrade() {
        let known = DeliveryEvent::Confirm(DeliveryId::new(1)).encode(Timestamp(0));
        let unknown = [
            EncodedEvent {
                manifest: Manifest::from("actor-journal/other"),
                ..known.clone()
            },
            EncodedEvent {
                schema_version: 2,
                ..known.clone()
            },
            EncodedEvent {
                codec: CodecId::JSON,
                ..known
            },
        ];
        for event in unknown {
            let error = DeliveryEvent::decode(&event).unwrap_err();
            assert!(error.to_string().contains("upgrade"), "{error}");
        }
    }

    #[test]
    fn a_manifest_that_does_not_fit_is_an_error() {
        let too_long = EncodedEvent {
            manifest: Manifest::from("m".repeat(65_536)),
            ..DeliveryEvent::Confirm(DeliveryId::new(1)).encode(Timestamp(0))
        };
        assert!(Recorded::new(too_long).is_err());
    }

    proptest! {
        #[test]
        fn what_is_stored_is_read_as_it_was(delivery in recorded(), id in any::<u64>(), all in deliveries()) {
            for event in [DeliveryEvent::Deliver(delivery), DeliveryEvent::Confirm(DeliveryId::new(id))] {
                prop_assert_eq!(DeliveryEvent::decode(&event.encode(Timestamp(1))), Ok(event));
            }
            prop_assert_eq!(Deliveries::decode(&all.encode().unwrap()), Some(all));
        }

        #[test]
        fn arbitrary_bytes_are_an_error_or_what_would_be_written_so(bytes in vec(any::<u8>(), 0..60)) {
            for manifest in [DELIVER, CONFIRM] {
                let event = EncodedEvent {
                    payload: bytes.clone().into(),
                    manifest,
                    ..DeliveryEvent::Confirm(DeliveryId::new(1)).encode(Timestamp(0))
                };
                if let Ok(decoded) = DeliveryEvent::decode(&event) {
                    prop_assert_eq!(decoded.encode(Timestamp(0)), event);
                }
            }
            if let Some(decoded) = Deliveries::decode(&bytes) {
                prop_assert_eq!(decoded.encode().unwrap(), bytes);
            }
        }

        #[test]
        fn a_cut_or_changed_section_is_an_error_or_what_would_be_written_so(
            all in deliveries(), at in any::<prop::sample::Index>(), byte in any::<u8>(),
        ) {
            let section = all.encode().unwrap();
            prop_assume!(!section.is_empty());
            let at = at.index(section.len());
            let mut changed = section.clone();
            changed[at] = byte;
            for damaged in [&section[..at], &changed] {
                if let Some(decoded) = Deliveries::decode(damaged) {
                    prop_assert_eq!(&decoded.encode().unwrap()[..], damaged);
                }
            }
        }
    }

    #[derive(Debug, Clone)]
    enum Step {
        Add(u64),
        Send(u64),
        Confirm(u64),
        Clear,
        Due { after: u64 },
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            4 => (0..4_u64).prop_map(Step::Add),
            8 => (0..4_u64).prop_map(Step::Send),
            3 => (0..4_u64).prop_map(Step::Confirm),
            1 => Just(Step::Clear),
            6 => (0..9_u64).prop_map(|after| Step::Due { after }),
        ];
        vec(step, 0..60)
    }

    /// The same as one list that is gone through each time: id, attempts, due.
    fn run(steps: Vec<Step>) {
        const ATTEMPTS: u32 = 3;
        let settings = Redelivery {
            backoff: crate::Backoff {
                shortest: Duration::from_secs(2),
                longest: Duration::from_secs(5),
            },
            attempts: ATTEMPTS,
            max_unconfirmed: 0,
        };
        let waits = [2, 4, 5];
        let mut schedule = Schedule::new(settings);
        let mut reference: Vec<(u64, u32, Option<u64>)> = Vec::new();
        let mut now = 0;
        let seconds = Duration::from_secs;
        for step in steps {
            match step {
                Step::Add(id) => {
                    schedule.add(DeliveryId::new(id), delivery("d", &id.to_le_bytes()));
                    reference.retain(|(known, ..)| *known != id);
                    reference.push((id, 0, None));
                }
                Step::Send(id) => {
                    let sent = schedule.send(DeliveryId::new(id), seconds(now));
                    let known = reference.iter_mut().find(|(known, ..)| *known == id);
                    let expected = known.map(|(_, attempts, due)| {
                        let wait = waits.get(*attempts as usize).copied().unwrap_or(5);
                        *attempts += 1;
                        *due = Some(now + wait);
                        delivery("d", &id.to_le_bytes())
                    });
                    assert_eq!(sent, expected);
                }
                Step::Confirm(id) => {
                    schedule.remove(DeliveryId::new(id));
                    reference.retain(|(known, ..)| *known != id);
                }
                Step::Clear => {
                    schedule.clear();
                    reference.clear();
                }
                Step::Due { after } => {
                    now += after;
                    let mut due: Vec<_> = reference
                        .iter_mut()
                        .filter(|(_, _, due)| due.is_some_and(|due| due <= now))
                        .map(|(id, attempts, due)| (due.take(), *id, *attempts))
                        .collect();
                    due.sort_unstable();
                    let (given_up, again): (Vec<_>, Vec<_>) = due
                        .into_iter()
                        .partition(|(_, _, attempts)| *attempts >= ATTEMPTS);
                    let expected = Due {
                        again: again.into_iter().map(|(_, id, _)| DeliveryId::new(id)).collect(),
                        given_up: given_up
                            .into_iter()
                            .map(|(_, id, attempts)| (DeliveryId::new(id), attempts))
                            .collect(),
                    };
                    assert_eq!(schedule.due(seconds(now)), expected);
                }
            }
            let at_rest =
                |(_, attempts, due): &(u64, u32, Option<u64>)| due.is_none() && *attempts >= ATTEMPTS;
            assert_eq!(schedule.is_at_rest(), reference.iter().all(at_rest));
            let next = reference.iter().filter_map(|(_, _, due)| *due).min();
            assert_eq!(schedule.next(), next.map(seconds));
            for id in 0..4 {
                let known = reference.iter().any(|(known, ..)| *known == id);
                assert_eq!(schedule.contains(DeliveryId::new(id)), known);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
            ..ProptestConfig::default()
        })]

        /// A failure leaves its seed beside this file, and `cargo test -p journal-core --lib deliveries` repeats it
        /// first; `PROPTEST_CASES=100000` in front of that looks further.
        #[test]
        fn each_is_sent_after_its_waits_until_it_is_confirmed_or_given_up(steps in steps()) {
            run(steps);
        }
    }
}
