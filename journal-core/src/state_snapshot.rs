//! A state inside a snapshot: the envelope that a snapshot store keeps bit for bit.
//!
//! Little endian: format u8 = 1; engine section: version u16, length u32, bytes; codec u16; schema version u32;
//! manifest: length u16, bytes; the state in the codec's encoding. The engine section is the engine's own data beside
//! the state; version 0 is empty.

use bytes::{Buf, BufMut, Bytes};
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    CodecError, CodecId, EventSourced, SharedCodec,
    schema::{Schema, SchemaError},
};

const FORMAT: u8 = 1;
const ENGINE_SECTION_VERSION: u16 = 0;

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

    pub(crate) fn encode(&self, state: &S) -> Result<Bytes, CodecError> {
        let state = self.schema.encode(state)?;
        let manifest = self.schema.manifest();
        let length = u16::try_from(manifest.len())
            .map_err(|_| CodecError::encode::<S>("STATE_MANIFEST is longer than 65 535 bytes"))?;
        let mut envelope = Vec::with_capacity(15 + manifest.len() + state.len());
        envelope.put_u8(FORMAT);
        envelope.put_u16_le(ENGINE_SECTION_VERSION);
        envelope.put_u32_le(0);
        envelope.put_u16_le(self.schema.codec_id().0);
        envelope.put_u32_le(self.schema.version());
        envelope.put_u16_le(length);
        envelope.put_slice(manifest.as_bytes());
        envelope.put_slice(&state);
        Ok(envelope.into())
    }

    pub(crate) fn decode(&self, mut envelope: &[u8]) -> Result<S, StateError> {
        let rest = &mut envelope;
        match rest.try_get_u8()? {
            FORMAT => {}
            newer if newer > FORMAT => return Err(StateError::NewerFormat),
            _ => return Err(StateError::Damaged),
        }
        if rest.try_get_u16_le()? > ENGINE_SECTION_VERSION {
            return Err(StateError::NewerFormat);
        }
        let engine_section = rest.try_get_u32_le()?;
        take(rest, engine_section)?;
        let codec = CodecId(rest.try_get_u16_le()?);
        let version = rest.try_get_u32_le()?;
        let length = rest.try_get_u16_le()?;
        let manifest = take(rest, length.into())?;
        let manifest = std::str::from_utf8(manifest).map_err(|_| StateError::Damaged)?;
        Ok(self.schema.decode(manifest, version, codec, rest)?)
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
    use crate::{Event, Json, MessagePack};

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
            let envelope = serializer(codec).encode(&state()).unwrap();
            assert_eq!(
                serializer(Arc::new(MessagePack)).decode(&envelope).unwrap(),
                state()
            );
        }
    }

    #[test]
    fn the_envelope_is_laid_out_as_documented() {
        let envelope = serializer(Arc::new(Json)).encode(&State::default()).unwrap();
        let expected = b"\x01\0\0\0\0\0\0\x02\0\x03\0\0\0\x05\0state{\"names\":[],\"count\":0}";
        assert_eq!(&envelope[..], expected);
    }

    #[test]
    fn an_engine_section_of_this_version_is_passed_over() {
        let mut envelope = serializer(Arc::new(Json)).encode(&state()).unwrap().to_vec();
        envelope.splice(3..7, [2, 0, 0, 0, 0xaa, 0xbb]);
        assert_eq!(serializer(Arc::new(Json)).decode(&envelope).unwrap(), state());
    }

    #[test]
    fn a_newer_format_section_or_schema_says_to_upgrade() {
        let written = serializer(Arc::new(Json)).encode(&state()).unwrap();
        for (at, byte) in [(0, 2), (1, 1), (9, 4)] {
            let mut newer = written.to_vec();
            newer[at] = byte;
            let error = serializer(Arc::new(Json)).decode(&newer).unwrap_err();
            assert!(error.to_string().contains("upgrade"), "{error}");
        }
    }

    #[test]
    fn a_cut_envelope_is_an_error() {
        let envelope = serializer(Arc::new(MessagePack)).encode(&state()).unwrap();
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
        fn a_changed_byte_is_no_panic(at in 0..60_usize, byte in any::<u8>()) {
            let mut envelope = serializer(Arc::new(MessagePack)).encode(&state()).unwrap().to_vec();
            let at = at % envelope.len();
            envelope[at] = byte;
            let _ = serializer(Arc::new(MessagePack)).decode(&envelope);
        }
    }
}
