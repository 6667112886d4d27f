//! A type as it is stored: its codec, manifest and version. Events and states share these rules.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde::de::DeserializeOwned;

use crate::{
    CodecError, CodecId, SharedCodec,
    codec::{compiled_in_tolerates_changes, decode_compiled_in},
};

#[derive(Debug)]
pub(crate) struct Schema<T> {
    codec: SharedCodec<T>,
    manifest: &'static str,
    version: u32,
    /// The length of the last payload, which is the best guess of the next one's.
    length: AtomicUsize,
}

impl<T: DeserializeOwned + 'static> Schema<T> {
    pub(crate) fn new(
        codec: SharedCodec<T>,
        manifest: &'static str,
        version: u32,
    ) -> Result<Self, SchemaError> {
        if version == 0 && !codec.tolerates_changes() {
            return Err(SchemaError::UndeclaredVersion { manifest });
        }
        Ok(Self {
            codec,
            manifest,
            version,
            length: AtomicUsize::new(0),
        })
    }

    pub(crate) fn codec_id(&self) -> CodecId {
        self.codec.id()
    }

    pub(crate) fn manifest(&self) -> &'static str {
        self.manifest
    }

    pub(crate) fn version(&self) -> u32 {
        self.version
    }

    pub(crate) fn encode(&self, value: &T) -> Result<Vec<u8>, CodecError> {
        let mut payload = Vec::with_capacity(self.length.load(Ordering::Relaxed));
        self.codec.encode(value, &mut payload)?;
        self.length.store(payload.len(), Ordering::Relaxed);
        Ok(payload)
    }

    pub(crate) fn decode(
        &self,
        manifest: &str,
        version: u32,
        codec: CodecId,
        payload: &[u8],
    ) -> Result<T, SchemaError> {
        if manifest != self.manifest {
            return Err(SchemaError::UnknownManifest {
                found: manifest.to_owned(),
                known: self.manifest,
            });
        }
        if version > self.version {
            return Err(SchemaError::NewerVersion {
                manifest: self.manifest,
                found: version,
                known: self.version,
            });
        }
        if codec == self.codec.id() {
            self.check_older(version, self.codec.tolerates_changes())?;
            return Ok(self.codec.decode(payload)?);
        }
        self.check_older(version, compiled_in_tolerates_changes(codec).unwrap_or(true))?;
        Ok(decode_compiled_in(codec, payload)?)
    }

    fn check_older(&self, version: u32, tolerant: bool) -> Result<(), SchemaError> {
        if version == self.version || tolerant {
            return Ok(());
        }
        Err(SchemaError::OlderVersion {
            manifest: self.manifest,
            found: version,
            known: self.version,
        })
    }
}

/// Why a stored payload does not become the type asked for.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SchemaError {
    #[error(
        "{manifest:?} declares no version, which its codec needs to tell old payloads from new ones; \
         declare one, for example `#[event(version = 1)]` or `const STATE_VERSION: u32 = 1`"
    )]
    UndeclaredVersion { manifest: &'static str },
    #[error("unknown manifest {found:?}, this actor knows {known:?}; register an upcaster for it")]
    UnknownManifest { found: String, known: &'static str },
    #[error("{manifest:?} version {found} is newer than this program's {known}; upgrade the program")]
    NewerVersion {
        manifest: &'static str,
        found: u32,
        known: u32,
    },
    #[error(
        "{manifest:?} version {found} is older than this program's {known} and its codec cannot bridge that; \
         register an upcaster for version {found}"
    )]
    OlderVersion {
        manifest: &'static str,
        found: u32,
        known: u32,
    },
    #[error(transparent)]
    Codec(#[from] CodecError),
}
