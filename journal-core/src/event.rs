//! Events as a journal sees them: encoded, described by a manifest, never interpreted.

use std::{borrow::Borrow, fmt};

use bytes::Bytes;
use bytestring::ByteString;

use crate::{CodecId, Epoch, SequenceNr, WriterId};

macro_rules! text {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
        pub struct $name(ByteString);

        impl $name {
            /// Without an allocation, for names known at compile time.
            #[must_use]
            pub const fn from_static(name: &'static str) -> Self {
                Self(ByteString::from_static(name))
            }

            /// A slice of a record just read; shares its memory.
            ///
            /// # Errors
            /// If the bytes are no UTF-8.
            pub fn from_utf8(bytes: Bytes) -> Result<Self, std::str::Utf8Error> {
                ByteString::try_from(bytes).map(Self)
            }

            /// The name as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(name: &str) -> Self {
                Self(ByteString::from(name))
            }
        }

        impl From<String> for $name {
            fn from(name: String) -> Self {
                Self(ByteString::from(name))
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                self.as_str()
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(self.as_str(), f)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self.as_str(), f)
            }
        }
    };
}

text! {
    /// The name of a payload's type in the journal; it outlives the Rust type's name.
    Manifest
}
impl Manifest {
    /// Manifests that begin so are those of the engine's own events, which take part in an id's numbers and are shown
    /// neither to `apply` nor in queries. No type of an application may have one.
    pub const RESERVED_PREFIX: &'static str = "actor-journal/";

    /// True for the engine's own events.
    #[must_use]
    pub fn is_reserved(&self) -> bool {
        self.as_str().starts_with(Self::RESERVED_PREFIX)
    }
}

text! {
    /// A label under which events of many ids can be queried.
    Tag
}

/// Milliseconds since the Unix epoch, by the injected [`Clock`](crate::Clock) when the event was encoded. Not
/// monotonic: order events by their sequence numbers, never by time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(pub u64);

/// One event, encoded. A journal stores and returns it bit for bit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedEvent {
    /// The event in the encoding `codec` names.
    pub payload: Bytes,
    /// Which codec can read the payload.
    pub codec: CodecId,
    /// Which type the payload is.
    pub manifest: Manifest,
    /// Which version of that type; 0 if its author declared none.
    pub schema_version: u32,
    /// When it was encoded.
    pub timestamp: Timestamp,
    /// Labels for queries.
    pub tags: Vec<Tag>,
    /// Bytes of the application that travel with the event, uninterpreted.
    pub metadata: Bytes,
}

impl EncodedEvent {
    /// What counts against a journal's limits: the bytes of payload, manifest, tags and metadata.
    #[must_use]
    pub fn size(&self) -> usize {
        let tags: usize = self.tags.iter().map(|tag| tag.as_str().len()).sum();
        self.payload.len() + self.manifest.as_str().len() + tags + self.metadata.len()
    }
}

/// Events of one persistence id that are stored together or not at all, also across a crash and for every reader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AtomicWrite {
    /// The events, in order. A journal rejects an empty list.
    pub events: Vec<EncodedEvent>,
}

impl AtomicWrite {
    /// The number of events.
    #[must_use]
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// True if there is nothing to write; a journal rejects that.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// The sum of the events' sizes, in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.events.iter().map(EncodedEvent::size).sum()
    }
}

impl From<EncodedEvent> for AtomicWrite {
    fn from(event: EncodedEvent) -> Self {
        Self { events: vec![event] }
    }
}

impl From<Vec<EncodedEvent>> for AtomicWrite {
    fn from(events: Vec<EncodedEvent>) -> Self {
        Self { events }
    }
}

/// An event as it comes back from a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its number within its persistence id.
    pub sequence_nr: SequenceNr,
    /// Who wrote it.
    pub writer: WriterId,
    /// Under which claim.
    pub epoch: Epoch,
    /// Its atomic write's place in the order of all writes of the journal, where the backend has one.
    pub commit_order: Option<u64>,
    /// The event.
    pub event: EncodedEvent,
}
