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
