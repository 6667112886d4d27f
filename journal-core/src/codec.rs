//! How events and states become bytes. Every record names its codec: any compiled-in codec can be read, only the
//! configured one writes.

use std::{fmt::Debug, sync::Arc};

use serde::{Serialize, de::DeserializeOwned};

type Source = Box<dyn std::error::Error + Send + Sync>;

/// A codec's name in every record. Numbers below 256 belong to this crate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CodecId(pub u16);

impl CodecId {
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
        value
            .serialize(&mut rmp_serde::Serializer::new(buffer).with_struct_map())
            .map_err(CodecError::encode::<T>)
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
        serde_json::to_writer(buffer, value).map_err(CodecError::encode::<T>)
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
            let mut rest = payload;
            let value = rmp_serde::from_read(&mut rest).map_err(CodecError::decode::<T>)?;
            if rest.is_empty() {
                Ok(value)
            } else {
                Err(CodecError::trailing::<T>(rest.len()))
            }
        }
        CodecId::JSON => serde_json::from_slice(payload).map_err(CodecError::decode::<T>),
        #[cfg(feature = "bincode")]
        CodecId::BINCODE => {
            let config = bincode::config::standard().with_limit::<BINCODE_LIMIT>();
            let (value, read) =
                bincode::serde::decode_from_slice(payload, config).map_err(CodecError::decode::<T>)?;
            match payload.len() - read {
                0 => Ok(value),
                rest => Err(CodecError::trailing::<T>(rest)),
            }
        }
        unknown => Err(CodecError::UnknownCodec { codec: unknown }),
    }
}

/// What a bincode payload may make its decoder allocate, in bytes.
#[cfg(feature = "bincode")]
const BINCODE_LIMIT: usize = 1 << 30;

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

    fn trailing<T>(bytes: usize) -> Self {
        Self::decode::<T>(format!("{bytes} bytes follow the value"))
    }
}

/// The codec that writes, and through which its own payloads are read again.
pub type SharedCodec<T> = Arc<dyn Codec<T>>;
