//! What an application's event type declares, and how its values become records and records its values.

use bytes::Bytes;
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    CodecError, CodecId, DeliveryId, EncodedEvent, ErrorKind, JournalError, Manifest, Operation,
    PersistenceId, Record, SequenceNr, SharedCodec, Tag, Timestamp, Upcasters,
    deliveries::Recorded,
    schema::{Schema, SchemaError},
};

/// An event type of an application. `#[derive(Event)]` implements it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an event type",
    note = "derive it: `#[derive(Serialize, Deserialize, Event)] #[event(manifest = \"..\", version = 1)]`"
)]
pub trait Event: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// The type's name in the journal; never changed once events are stored.
    const MANIFEST: &'static str;

    /// The version of the type's schema, raised when old payloads no longer decode to what they meant. 0 = undeclared,
    /// which codecs that do not tolerate changes refuse.
    const VERSION: u32;

    /// Labels under which this event can be queried.
    fn tags(&self) -> Vec<Tag> {
        Vec::new()
    }

    /// How payloads of older versions and other manifests are read.
    #[must_use]
    fn upcasters() -> Upcasters<Self> {
        Upcasters::new()
    }
}

/// Encodes and decodes one event type.
#[derive(Debug)]
pub struct EventSerializer<E> {
    schema: Schema<E>,
    upcasters: Upcasters<E>,
}

impl<E: Event> EventSerializer<E> {
    /// Writes with `codec`.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if the codec does not tolerate changes and the type declares no version, or if its
    /// manifest is reserved.
    pub fn new(codec: SharedCodec<E>) -> Result<Self, JournalError> {
        let config = |message: String| JournalError::not_stored(ErrorKind::Config, Operation::Open, message);
        if Manifest::from_static(E::MANIFEST).is_reserved() {
            return Err(config(format!(
                "the manifest {:?} is reserved for events of the engine; name it without {:?}",
                E::MANIFEST,
                Manifest::RESERVED_PREFIX
            )));
        }
        let schema =
            Schema::new(codec, E::MANIFEST, E::VERSION).map_err(|error| config(error.to_string()))?;
        Ok(Self {
            schema,
            upcasters: E::upcasters(),
        })
    }

    /// Encodes an event.
    ///
    /// # Errors
    /// If the codec cannot express it.
    pub fn encode(&self, event: &E, timestamp: Timestamp) -> Result<EncodedEvent, CodecError> {
        Ok(EncodedEvent {
            payload: self.schema.encode(event)?.into(),
            codec: self.schema.codec_id(),
            manifest: Manifest::from_static(E::MANIFEST),
            schema_version: E::VERSION,
            timestamp,
            tags: event.tags(),
            metadata: Bytes::new(),
        })
    }

    /// Decodes a record of `id`: by an upcaster of its manifest and version if there is one, otherwise as an `E`.
    ///
    /// # Errors
    /// [`ErrorKind::Undecodable`], naming id, number and manifest, on an unknown manifest or codec, a newer version, an
    /// older version that has neither an upcaster nor a tolerant codec, or bytes that do not decode.
    pub fn decode(&self, id: &PersistenceId, record: &Record) -> Result<E, JournalError> {
        let EncodedEvent {
            manifest,
            schema_version,
            codec,
            payload,
            ..
        } = &record.event;
        self.read(manifest, *schema_version, *codec, payload)
            .map_err(|error| undecodable("event", manifest, *schema_version, id, record.sequence_nr, error))
    }

    /// Decodes a delivery of `of`.
    ///
    /// # Errors
    /// Those of [`decode`](Self::decode).
    pub(crate) fn decode_delivery(
        &self,
        of: &PersistenceId,
        id: DeliveryId,
        delivery: &Recorded,
    ) -> Result<E, JournalError> {
        let Recorded {
            manifest,
            schema_version,
            codec,
            payload,
            ..
        } = delivery;
        self.read(manifest, *schema_version, *codec, payload)
            .map_err(|error| {
                undecodable(
                    "delivery",
                    manifest,
                    *schema_version,
                    of,
                    SequenceNr::new(id.get()),
                    error,
                )
            })
    }

    fn read(
        &self,
        manifest: &Manifest,
        version: u32,
        codec: CodecId,
        payload: &[u8],
    ) -> Result<E, SchemaError> {
        let manifest = manifest.as_str();
        match self.upcasters.find(manifest, version) {
            Some(upcast) => Ok(upcast(codec, payload)?),
            None => self.schema.decode(manifest, version, codec, payload),
        }
    }
}

fn undecodable(
    what: &str,
    manifest: &Manifest,
    version: u32,
    id: &PersistenceId,
    sequence_nr: SequenceNr,
    error: SchemaError,
) -> JournalError {
    let message = format!("{what} {manifest:?} version {version}: {error}");
    JournalError::not_stored(ErrorKind::Undecodable, Operation::Replay, message)
        .with_id(id)
        .with_sequence_nr(sequence_nr)
        .with_source(error)
}
