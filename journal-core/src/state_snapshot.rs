//! A state inside a snapshot: the envelope that a snapshot store keeps bit for bit.
//!
//! Little endian: format u8 = 1; engine section: version u16, length u32, bytes; codec u16; schema version u32;
//! manifest: length u16, bytes; the state in the codec's encoding. The engine section is the engine's own data beside
//! the state: version 0 is empty, version 1 holds unconfirmed deliveries, as `deliveries.rs` says.

use bytes::{Buf, BufMut, Bytes};
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    CodecError, CodecId, EventSourced, SharedCodec,
    deliveries::{self, Deliveries},
    schema::{Schema, SchemaError},
};

const FORMAT: u8 = 1;
const EMPTY_SECTION_VERSION: u16 = 0;

#[derive(Debug)]
pub(crate) struct StateSerializer<S> {
    schema: Schema<S>,
}

impl<S: Serialize + DeserializeOwned + 'static> StateSerializer<S> {
    pub(crate) fn new<A: EventSourced<State = S>>(codec: SharedCodec<S>) -> Result<Self, SchemaError> {
        Ok(Self {
            schema: Schema::new(codec, A::STATE_MANIFEST, A::STATE_VERSION)?,
        })
    }

    /// The state alone, as two of them are compared.
    pub(crate) fn encode_state(&self, state: &S) -> Result<Vec<u8>, CodecError> {
        self.schema.encode(state)
    }

    pub(crate) fn encode(&self, state: &S, deliveries: &Deliveries) -> Result<Bytes, CodecError> {
        let section_version = if deliveries.is_empty() {
            EMPTY_SECTION_VERSION
        } else {
            deliveries::SECTION_VERSION
        };
        let section = deliveries.encode()?;
        let section_length = u32::try_from(section.len()).map_err(CodecError::encode::<S>)?;
        let state = self.schema.encode(state)?;
        let manifest = self.schema.manifest();
        let length = u16::try_from(manifest.len())
            .map_err(|_| CodecError::encode::<S>("STATE_MANIFEST is longer than 65 535 bytes"))?;
        let mut envelope = Vec::with_capacity(15 + section.len() + manifest.len() + state.len());
        envelope.put_u8(FORMAT);
        envelope.put_u16_le(section_version);
        envelope.put_u32_le(section_length);
        envelope.put_slice(&section);
        envelope.put_u16_le(self.schema.codec_id().0);
        envelope.put_u32_le(self.schema.version());
        envelope.put_u16_le(length);
        envelope.put_slice(manifest.as_bytes());
        envelope.put_slice(&state);
        Ok(envelope.into())
    }

    pub(crate) fn decode(&self, mut envelope: &[u8]) -> Result<(S, Deliveries), StateError> {
        let rest = &mut envelope;
        match rest.try_get_u8()? {
            FORMAT => {}
            newer if newer > FORMAT => return Err(StateError::NewerFormat),
            _ => return Err(StateError::Damaged),
        }
        let section_version = rest.try_get_u16_le()?;
        let section_length = rest.try_get_u32_le()?;
        let section = take(rest, section_length)?;
        let deliveries = match section_version {
            EMPTY_SECTION_VERSION => Deliveries::default(),
            deliveries::SECTION_VERSION => Deliveries::decode(section).ok_or(StateError::Damaged)?,
            _ => return Err(StateError::NewerFormat),
        };
        let codec = CodecId(rest.try_get_u16_le()?);
        let version = rest.try_get_u32_le()?;
        let length = rest.try_get_u16_le()?;
        let manifest = take(rest, length.into())?;
        let manifest = std::str::from_utf8(manifest).map_err(|_| StateError::Damaged)?;
        let state = self.schema.decode(manifest, version, codec, rest)?;
        Ok((state, deliveries))
    }
}

fn take<'a>(rest: &mut &'a [u8], length: u32) -> Result<&'a [u8], StateError> {
    let length = usize::try_from(length).map_err(|_| StateError::Damaged)?;
    let (taken, remaining) = rest.split_at_checked(length).ok_or(StateError::Damaged)?;
    *rest = remaining;
    Ok(taken)
}

/// Why a snapshot's payload is of no use.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StateError {
    #[error("the snapshot was written by a newer version of this program; upgrade it")]
    NewerFormat,
    #[error("the snapshot is damaged")]
    Damaged,
    #[error(transparent)]
    Schema(#[from] SchemaError),
}

impl From<bytes::TryGetError> for StateError {
    fn from(_: bytes::TryGetError) -> Self {
        Self::Damaged
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use serde::Deserialize;

    use super::*;
    use crate::{
        EncodedEvent, Event, Json, Manifest, MessagePack, SequenceNr, Timestamp,
        deliveries::{DeliveryEvent, Recorded},
    };

    #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
    struct State {
        names: Vec<String>,
        count: u64,
    }

    #[derive(Serialize, Deserialize)]
    struct Nothing;

    impl Event for Nothing {
        const MANIFEST: &'static str = "nothing";
        const VERSION: u32 = 1;
    }

    struct Model;

    impl EventSourced for Model {
        type Event = Nothing;
        type State = State;
        const STATE_VERSION: u32 = 3;
        fn apply(_: &mut State, _: &Nothing) {}
    }

    fn serializer(codec: SharedCodec<State>) -> StateSerializer<State> {
        StateSerializer::new::<Model>(codec).unwrap()
    }

    fn state() -> State {
        State {
            names: vec!["a".to_owned(), "b".to_owned()],
            count: 7,
        }
    }

    #[test]
    fn what_one_codec_wrote_another_reads() {
        for codec in [Arc::new(MessagePack) as SharedCodec<State>, Arc::new(Json)] {
            let envelope = serializer(codec)
                .encode(&state(), &Deliveries::default())
                .unwrap();
            assert_eq!(
                serializer(Arc::new(MessagePack)).decode(&envelope).unwrap(),
                (state(), Deliveries::default())
            );
        }
    }

    #[test]
    fn the_envelope_is_laid_out_as_documented() {
        let envelope = serializer(Arc::new(Json))
            .encode(&State::default(), &Deliveries::default())
            .unwrap();
        let expected = b"\x01\0\0\0\0\0\0\x02\0\x03\0\0\0\x05\0state{\"names\":[],\"count\":0}";
        assert_eq!(&envelope[..], expected);
    }

    #[test]
    fn bytes_in_an_empty_engine_section_are_passed_over() {
        let mut envelope = serializer(Arc::new(Json))
            .encode(&state(), &Deliveries::default())
            .unwrap()
            .to_vec();
        envelope.splice(3..7, [2, 0, 0, 0, 0xaa, 0xbb]);
        assert_eq!(
            serializer(Arc::new(Json)).decode(&envelope).unwrap(),
            (state(), Deliveries::default())
        );
    }

    fn deliveries() -> Deliveries {
        let mut deliveries = Deliveries::default();
        let delivery = EncodedEvent {
            payload: Bytes::from_static(b"{}"),
            codec: CodecId::JSON,
            manifest: Manifest::from_static("ship"),
            schema_version: 1,
            timestamp: Timestamp(0),
            tags: Vec::new(),
            metadata: Bytes::new(),
        };
        let deliver = DeliveryEvent::Deliver(Recorded::new(delivery).unwrap());
        deliveries.apply(SequenceNr::new(5), deliver);
        deliveries
    }

    #[test]
    fn unconfirmed_deliveries_are_in_the_engine_section() {
        let envelope = serializer(Arc::new(Json))
            .encode(&State::default(), &deliveries())
            .unwrap();
        let expected = b"\x01\x01\0\x1a\0\0\0\
            \x05\0\0\0\0\0\0\0\x0e\0\0\0\x02\0\x01\0\0\0\x04\0ship{}\
            \x02\0\x03\0\0\0\x05\0state{\"names\":[],\"count\":0}";
        assert_eq!(&envelope[..], expected);
        assert_eq!(
            serializer(Arc::new(Json)).decode(&envelope).unwrap(),
            (State::default(), deliveries())
        );
    }

    #[test]
    fn a_damaged_engine_section_makes_the_snapshot_a_damaged_one() {
        let written = serializer(Arc::new(Json))
            .encode(&state(), &deliveries())
            .unwrap();
        let mut damaged = written.to_vec();
        damaged[15] = 200;
        let error = serializer(Arc::new(Json)).decode(&damaged).unwrap_err();
        assert!(matches!(error, StateError::Damaged), "{error}");
    }

    #[test]
    fn a_newer_format_section_or_schema_says_to_upgrade() {
        let written = serializer(Arc::new(Json))
            .encode(&state(), &Deliveries::default())
            .unwrap();
        for (at, byte) in [(0, 2), (1, 2), (9, 4)] {
            let mut newer = written.to_vec();
            newer[at] = byte;
            let error = serializer(Arc::new(Json)).decode(&newer).unwrap_err();
            assert!(error.to_string().contains("upgrade"), "{error}");
        }
    }

    #[test]
    fn a_cut_envelope_is_an_error() {
        let envelope = serializer(Arc::new(MessagePack))
            .encode(&state(), &deliveries())
            .unwrap();
        for length in 0..envelope.len() {
            assert!(
                serializer(Arc::new(MessagePack))
                    .decode(&envelope[..length])
                    .is_err()
            );
        }
    }

    proptest! {
        /// Repeat: `PROPTEST_RNG_SEED=7 cargo test -p journal-core --lib state_snapshot` starts from a given seed.
        #[test]
        fn arbitrary_bytes_are_an_error_or_a_state_and_no_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = serializer(Arc::new(MessagePack)).decode(&bytes);
        }

        #[test]
        fn a_changed_byte_is_no_panic(at in 0..90_usize, byte in any::<u8>()) {
            let mut envelope = serializer(Arc::new(MessagePack)).encode(&state(), &deliveries()).unwrap().to_vec();
            let at = at % envelope.len();
            envelope[at] = byte;
            let _ = serializer(Arc::new(MessagePack)).decode(&envelope);
        }
    }
}
