//! How events and states become bytes. Every record names its codec: any compiled-in codec can be read, only the
//! configured one writes.

use std::{fmt::Debug, sync::Arc};

use serde::{Serialize, de::DeserializeOwned};

type Source = Box<dyn std::error::Error + Send + Sync>;

/// A codec's name in every record. Numbers below 256 belong to this crate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CodecId(pub u16);

impl CodecId {
    /// The engine's own events, whose layout their schema version names.
    pub(crate) const ENGINE: Self = Self(0);
    /// MessagePack with field names.
    pub const MESSAGE_PACK: Self = Self(1);
    /// JSON.
    pub const JSON: Self = Self(2);
    /// bincode 2, standard configuration.
    pub const BINCODE: Self = Self(3);
}

/// Turns a `T` into bytes and back.
pub trait Codec<T>: Send + Sync + Debug + 'static {
    /// Its name in every record; never reused for another encoding.
    fn id(&self) -> CodecId;

    /// True if an old payload can be read after a field was added or removed. A codec that cannot demands a declared
    /// schema version, and a payload of another version is an error.
    fn tolerates_changes(&self) -> bool;

    /// Appends the encoding of `value` to `buffer`.
    ///
    /// # Errors
    /// If the value cannot be expressed in this encoding.
    fn encode(&self, value: &T, buffer: &mut Vec<u8>) -> Result<(), CodecError>;

    /// Decodes a whole payload.
    ///
    /// # Errors
    /// On any bytes that this codec did not make of a `T`; never panics, never allocates what the input dictates.
    fn decode(&self, payload: &[u8]) -> Result<T, CodecError>;
}

/// MessagePack with field names: a removed field is dropped, a new one takes its serde default. The default codec.
#[derive(Debug, Clone, Copy, Default)]
pub struct MessagePack;

/// JSON.
#[derive(Debug, Clone, Copy, Default)]
pub struct Json;

/// bincode 2: compact, but a changed type reads old bytes as something else, so every type needs a schema version.
///
/// Not for types that contain themselves (a tree) nor for lists of elements without content (`Vec<()>`): damaged bytes
/// can nest the former, and lengthen the latter, without end.
#[cfg(feature = "bincode")]
#[derive(Debug, Clone, Copy, Default)]
pub struct Bincode;

impl<T: Serialize + DeserializeOwned> Codec<T> for MessagePack {
    fn id(&self) -> CodecId {
        CodecId::MESSAGE_PACK
    }
    fn tolerates_changes(&self) -> bool {
        true
    }
    fn encode(&self, value: &T, buffer: &mut Vec<u8>) -> Result<(), CodecError> {
        let start = buffer.len();
        value
            .serialize(&mut rmp_serde::Serializer::new(&mut *buffer).with_struct_map())
            .map_err(CodecError::encode::<T>)?;
        let encoded = buffer.get(start..).unwrap_or_default();
        skip_message_pack(encoded, MAX_NESTING).ok_or_else(CodecError::too_deep::<T>)?;
        Ok(())
    }
    fn decode(&self, payload: &[u8]) -> Result<T, CodecError> {
        decode_compiled_in(CodecId::MESSAGE_PACK, payload)
    }
}

impl<T: Serialize + DeserializeOwned> Codec<T> for Json {
    fn id(&self) -> CodecId {
        CodecId::JSON
    }
    fn tolerates_changes(&self) -> bool {
        true
    }
    fn encode(&self, value: &T, buffer: &mut Vec<u8>) -> Result<(), CodecError> {
        let start = buffer.len();
        serde_json::to_writer(&mut *buffer, value).map_err(CodecError::encode::<T>)?;
        if json_nesting(buffer.get(start..).unwrap_or_default()) > MAX_NESTING {
            return Err(CodecError::too_deep::<T>());
        }
        Ok(())
    }
    fn decode(&self, payload: &[u8]) -> Result<T, CodecError> {
        decode_compiled_in(CodecId::JSON, payload)
    }
}

#[cfg(feature = "bincode")]
impl<T: Serialize + DeserializeOwned> Codec<T> for Bincode {
    fn id(&self) -> CodecId {
        CodecId::BINCODE
    }
    fn tolerates_changes(&self) -> bool {
        false
    }
    fn encode(&self, value: &T, buffer: &mut Vec<u8>) -> Result<(), CodecError> {
        bincode::serde::encode_into_std_write(value, buffer, bincode::config::standard())
            .map(drop)
            .map_err(CodecError::encode::<T>)
    }
    fn decode(&self, payload: &[u8]) -> Result<T, CodecError> {
        decode_compiled_in(CodecId::BINCODE, payload)
    }
}

/// Whether a codec that this build can read tolerates changes; `None` for one it cannot read.
pub(crate) fn compiled_in_tolerates_changes(codec: CodecId) -> Option<bool> {
    match codec {
        CodecId::MESSAGE_PACK | CodecId::JSON => Some(true),
        #[cfg(feature = "bincode")]
        CodecId::BINCODE => Some(false),
        _ => None,
    }
}

/// Decodes with a codec that is part of this build.
pub(crate) fn decode_compiled_in<T: DeserializeOwned>(
    codec: CodecId,
    payload: &[u8],
) -> Result<T, CodecError> {
    match codec {
        CodecId::MESSAGE_PACK => {
            let rest = skip_message_pack(payload, MAX_NESTING).ok_or_else(|| {
                CodecError::decode::<T>(format!("cut off, or nested deeper than {MAX_NESTING} levels"))
            })?;
            if !rest.is_empty() {
                return Err(CodecError::trailing::<T>(rest.len()));
            }
            rmp_serde::from_slice(payload).map_err(CodecError::decode::<T>)
        }
        CodecId::JSON => serde_json::from_slice(payload).map_err(CodecError::decode::<T>),
        #[cfg(feature = "bincode")]
        CodecId::BINCODE => {
            let (value, read) = decode_bincode(payload).map_err(CodecError::decode::<T>)?;
            match payload.len() - read {
                0 => Ok(value),
                rest => Err(CodecError::trailing::<T>(rest)),
            }
        }
        unknown => Err(CodecError::UnknownCodec { codec: unknown }),
    }
}

/// How deep a value may be nested in MessagePack and JSON: decoders recurse, and an overflowing stack ends the process.
/// What could not be decoded again is not encoded either. It is the limit of `serde_json`.
const MAX_NESTING: usize = 127;

/// What follows the first MessagePack value; `None` if that is cut off or nested deeper than `levels`.
fn skip_message_pack(bytes: &[u8], levels: usize) -> Option<&[u8]> {
    fn length(bytes: &[u8], width: usize) -> Option<(usize, &[u8])> {
        let (length, rest) = bytes.split_at_checked(width)?;
        let length = length
            .iter()
            .fold(0, |length, byte| (length << 8) | u64::from(*byte));
        Some((usize::try_from(length).ok()?, rest))
    }
    let (marker, rest) = bytes.split_first()?;
    // The bytes and the values that belong to this one, and what follows its marker and length.
    let (bytes, values, rest) = match *marker {
        0x00..=0x7f | 0xc0 | 0xc2 | 0xc3 | 0xe0..=0xff => (0, 0, rest),
        map @ 0x80..=0x8f => (0, 2 * usize::from(map & 0x0f), rest),
        array @ 0x90..=0x9f => (0, usize::from(array & 0x0f), rest),
        text @ 0xa0..=0xbf => (usize::from(text & 0x1f), 0, rest),
        0xc1 => return None,
        bytes @ (0xc4..=0xc6 | 0xd9..=0xdb) => {
            let width = 1 << (if bytes < 0xd9 { bytes - 0xc4 } else { bytes - 0xd9 });
            let (length, rest) = length(rest, width)?;
            (length, 0, rest)
        }
        extension @ 0xc7..=0xc9 => {
            let (length, rest) = length(rest, 1 << (extension - 0xc7))?;
            (length.checked_add(1)?, 0, rest)
        }
        float @ 0xca..=0xcb => (4 << (float - 0xca), 0, rest),
        unsigned @ 0xcc..=0xcf => (1 << (unsigned - 0xcc), 0, rest),
        signed @ 0xd0..=0xd3 => (1 << (signed - 0xd0), 0, rest),
        extension @ 0xd4..=0xd8 => ((1 << (extension - 0xd4)) + 1, 0, rest),
        array @ 0xdc..=0xdd => {
            let (length, rest) = length(rest, 2 << (array - 0xdc))?;
            (0, length, rest)
        }
        map @ 0xde..=0xdf => {
            let (length, rest) = length(rest, 2 << (map - 0xde))?;
            (0, length.checked_mul(2)?, rest)
        }
    };
    let mut rest = rest.get(bytes..)?;
    if values > 0 {
        let levels = levels.checked_sub(1)?;
        for _ in 0..values {
            rest = skip_message_pack(rest, levels)?;
        }
    }
    Some(rest)
}

/// The deepest level of a valid JSON text.
fn json_nesting(text: &[u8]) -> usize {
    let (mut level, mut deepest) = (0_usize, 0);
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'[' | b'{' => {
                level += 1;
                deepest = deepest.max(level);
            }
            b']' | b'}' => level = level.saturating_sub(1),
            b'"' => {
                while let Some(byte) = bytes.next() {
                    match byte {
                        b'\\' => drop(bytes.next()),
                        b'"' => break,
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    deepest
}

/// bincode allocates what a length in the payload says, up to a limit that it wants to know at compile time. Numbers count
/// against that limit in their full width, which is up to 16 times what they take, so a limit follows the payload's size
/// in steps.
#[cfg(feature = "bincode")]
fn decode_bincode<T: DeserializeOwned>(payload: &[u8]) -> Result<(T, usize), bincode::error::DecodeError> {
    const WIDENING: usize = 16;
    const SMALL: usize = 4 << 10;
    const MEDIUM: usize = 512 << 10;
    const LARGE: usize = 64 << 20;
    fn within<T: DeserializeOwned, const LIMIT: usize>(
        payload: &[u8],
    ) -> Result<(T, usize), bincode::error::DecodeError> {
        bincode::serde::decode_from_slice(payload, bincode::config::standard().with_limit::<LIMIT>())
    }
    let size = payload.len();
    if size <= SMALL {
        within::<T, { SMALL * WIDENING }>(payload)
    } else if size <= MEDIUM {
        within::<T, { MEDIUM * WIDENING }>(payload)
    } else if size <= LARGE {
        within::<T, { LARGE * WIDENING }>(payload)
    } else {
        within::<T, { isize::MAX.unsigned_abs() }>(payload)
    }
}

/// Why a value could not be encoded or a payload not be decoded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CodecError {
    /// The value has no expression in the codec's format.
    #[error("a {type_name} cannot be encoded; check its `Serialize` implementation")]
    Encode {
        /// The Rust type.
        type_name: &'static str,
        /// What the codec says.
        source: Source,
    },
    /// The bytes are no such value.
    #[error(
        "the payload is no {type_name}; if the type has changed, raise its version and register an upcaster for the old one"
    )]
    Decode {
        /// The Rust type.
        type_name: &'static str,
        /// What the codec says.
        source: Source,
    },
    /// This build has no codec of that number.
    #[error("codec {} is not part of this build; enable its feature or configure it", codec.0)]
    UnknownCodec {
        /// The number.
        codec: CodecId,
    },
}

impl CodecError {
    /// For codecs of other crates: the value of type `T` cannot be encoded.
    pub fn encode<T>(source: impl Into<Source>) -> Self {
        Self::Encode {
            type_name: std::any::type_name::<T>(),
            source: source.into(),
        }
    }

    /// For codecs of other crates: the payload is no `T`.
    pub fn decode<T>(source: impl Into<Source>) -> Self {
        Self::Decode {
            type_name: std::any::type_name::<T>(),
            source: source.into(),
        }
    }

    fn too_deep<T>() -> Self {
        Self::encode::<T>(format!("it is nested deeper than {MAX_NESTING} levels"))
    }

    fn trailing<T>(bytes: usize) -> Self {
        Self::decode::<T>(format!("{bytes} bytes follow the value"))
    }
}

/// The codec that writes, and through which its own payloads are read again.
pub type SharedCodec<T> = Arc<dyn Codec<T>>;
