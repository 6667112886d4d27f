//! Identities and positions: who is persisted, by whom, in which life, at which number.

use std::{fmt, str::FromStr, sync::Arc};

/// The stable identity of one event-sourced actor.
///
/// Any non-empty UTF-8 of at most [`PersistenceId::MAX_BYTES`] bytes; unicode, NUL and separators mean nothing to a
/// journal and are never aliased. Cloning is cheap.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PersistenceId(Arc<str>);

impl PersistenceId {
    /// The longest id, in bytes of UTF-8.
    pub const MAX_BYTES: usize = 1_024;

    /// Checks and wraps `id`.
    ///
    /// # Errors
    /// [`InvalidPersistenceId`] if it is empty or longer than [`Self::MAX_BYTES`].
    pub fn new(id: impl Into<Arc<str>>) -> Result<Self, InvalidPersistenceId> {
        let id = id.into();
        match id.len() {
            0 => Err(InvalidPersistenceId::Empty),
            length if length > Self::MAX_BYTES => Err(InvalidPersistenceId::TooLong { length }),
            _ => Ok(Self(id)),
        }
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for PersistenceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for PersistenceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Control characters would tear a log line; Debug escapes them, the quotes it adds are dropped.
        write!(f, "{}", self.0.escape_debug())
    }
}

impl AsRef<str> for PersistenceId {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl From<PersistenceId> for String {
    fn from(id: PersistenceId) -> Self {
        id.as_str().to_owned()
    }
}

impl TryFrom<&str> for PersistenceId {
    type Error = InvalidPersistenceId;
    fn try_from(id: &str) -> Result<Self, Self::Error> {
        Self::new(id)
    }
}

impl TryFrom<String> for PersistenceId {
    type Error = InvalidPersistenceId;
    fn try_from(id: String) -> Result<Self, Self::Error> {
        Self::new(id)
    }
}

impl FromStr for PersistenceId {
    type Err = InvalidPersistenceId;
    fn from_str(id: &str) -> Result<Self, Self::Err> {
        Self::new(id)
    }
}

/// Why a text is no [`PersistenceId`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidPersistenceId {
    /// The text is empty.
    #[error("a persistence id must not be empty; name the actor, for example \"account|42\"")]
    Empty,
    /// The text is too long.
    #[error(
        "a persistence id of {length} bytes is longer than {} bytes; shorten it or use a hash of it",
        PersistenceId::MAX_BYTES
    )]
    TooLong {
        /// Its length in bytes.
        length: usize,
    },
}

/// The position of an event within one persistence id. The first event has number 1; numbers are contiguous and never
/// used twice. [`SequenceNr::ZERO`] stands for "none yet".
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct SequenceNr(u64);

impl SequenceNr {
    /// No event yet.
    pub const ZERO: Self = Self(0);
    /// The number of the first event.
    pub const FIRST: Self = Self(1);
    /// The largest number: what a signed 64-bit column holds, so that every store can keep it.
    pub const MAX: Self = Self(i64::MAX as u64);

    /// Wraps `number`, cut to [`Self::MAX`].
    #[must_use]
    pub const fn new(number: u64) -> Self {
        if number > Self::MAX.0 {
            Self::MAX
        } else {
            Self(number)
        }
    }

    /// The plain number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The number `count` places further on, or `None` beyond [`Self::MAX`].
    #[must_use]
    pub fn checked_add(self, count: u64) -> Option<Self> {
        self.0
            .checked_add(count)
            .map(Self)
            .filter(|sum| *sum <= Self::MAX)
    }

    /// The following number; stays at [`Self::MAX`].
    #[must_use]
    pub const fn next(self) -> Self {
        Self::new(self.0 + 1)
    }

    /// The number before; stays at zero.
    #[must_use]
    pub const fn previous(self) -> Self {
        Self(self.0.saturating_sub(1))
    }
}

impl fmt::Debug for SequenceNr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Display for SequenceNr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

macro_rules! random_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name([u8; 16]);

        impl $name {
            /// A fresh one from the operating system's random numbers.
            ///
            /// # Panics
            /// If the operating system has none to give.
            #[must_use]
            pub fn random() -> Self {
                let mut bytes = [0; 16];
                getrandom::fill(&mut bytes).expect("the operating system gives random numbers");
                Self(bytes)
            }

            /// As read back from a store.
            #[must_use]
            pub const fn from_bytes(bytes: [u8; 16]) -> Self {
                Self(bytes)
            }

            /// As written to a store.
            #[must_use]
            pub const fn to_bytes(self) -> [u8; 16] {
                self.0
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }
    };
}

random_id! {
    /// One ledger: 16 random bytes that every record it writes carries.
    WriterId
}
random_id! {
    /// One life of a persistence id, from its first event to its purge. Snapshots carry it, so that a snapshot of an
    /// earlier life is never taken for the state of this one.
    Incarnation
}

/// The age of a claim: later claims of the same id compare greater. At most [`Epoch::MAX_BYTES`] bytes that only the
/// backend understands, compared as bytes (big-endian numbers keep their order).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Epoch {
    length: u8,
    bytes: [u8; Self::MAX_BYTES],
}

impl Epoch {
    /// The longest epoch in bytes.
    pub const MAX_BYTES: usize = 31;

    /// Wraps the backend's bytes; `None` if there are more than [`Self::MAX_BYTES`].
    #[must_use]
    pub fn new(epoch: &[u8]) -> Option<Self> {
        let mut bytes = [0; Self::MAX_BYTES];
        bytes.get_mut(..epoch.len())?.copy_from_slice(epoch);
        Some(Self {
            length: u8::try_from(epoch.len()).ok()?,
            bytes,
        })
    }

    /// An epoch of one counter.
    #[must_use]
    pub fn from_u64(counter: u64) -> Self {
        let mut bytes = [0; Self::MAX_BYTES];
        for (to, from) in bytes.iter_mut().zip(counter.to_be_bytes()) {
            *to = from;
        }
        Self { length: 8, bytes }
    }

    /// The backend's bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.length)).unwrap_or(&self.bytes)
    }
}

impl PartialOrd for Epoch {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Epoch {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

impl fmt::Debug for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_bytes()
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_neither_empty_nor_oversized() {
        assert_eq!(PersistenceId::new(""), Err(InvalidPersistenceId::Empty));
        assert_eq!(
            PersistenceId::new("ä".repeat(513)),
            Err(InvalidPersistenceId::TooLong { length: 1_026 })
        );
        assert!(PersistenceId::new("ä".repeat(512)).is_ok());
    }

    #[test]
    fn an_id_with_control_characters_prints_on_one_line() {
        let id = PersistenceId::new("a\n\0|ü").unwrap();
        assert_eq!(id.to_string(), "a\\n\\0|ü");
        assert_eq!(id.as_str(), "a\n\0|ü");
    }

    #[test]
    fn sequence_numbers_end_at_the_largest_signed_number() {
        assert_eq!(SequenceNr::new(u64::MAX), SequenceNr::MAX);
        assert_eq!(SequenceNr::MAX.checked_add(1), None);
        assert_eq!(SequenceNr::MAX.next(), SequenceNr::MAX);
        assert_eq!(SequenceNr::ZERO.previous(), SequenceNr::ZERO);
    }

    #[test]
    fn epochs_compare_by_their_bytes() {
        assert!(Epoch::from_u64(255) < Epoch::from_u64(256));
        assert!(Epoch::new(&[1]).unwrap() < Epoch::new(&[1, 0]).unwrap());
        assert_eq!(Epoch::new(&[0; 32]), None);
    }
}
