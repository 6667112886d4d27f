//! What a snapshot's file is called.

use std::fmt;

use journal_core::{Incarnation, SequenceNr, SnapshotMetadata};

/// The name of a file: it tells apart all snapshots of one id. Ids share a hash now and then; then their slots differ.
/// Digits and small letters only, so that names stay distinct on file systems that ignore case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) hash: u64,
    pub(super) sequence_nr: SequenceNr,
    pub(super) incarnation: Incarnation,
    pub(super) slot: u32,
}

impl Name {
    /// The name in the first slot.
    pub(super) fn new(hash: u64, metadata: &SnapshotMetadata) -> Self {
        Self {
            hash,
            sequence_nr: metadata.sequence_nr,
            incarnation: metadata.incarnation,
            slot: 0,
        }
    }

    /// Reads a name; `None` for a file that is not ours.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.strip_suffix(".snapshot")?.split('-');
        let name = Self {
            hash: u64::from_str_radix(parts.next()?, 16).ok()?,
            sequence_nr: SequenceNr::new(parts.next()?.parse().ok()?),
            incarnation: Incarnation::from_bytes(u128::from_str_radix(parts.next()?, 16).ok()?.to_be_bytes()),
            slot: parts.next()?.parse().ok()?,
        };
        // Only what Display writes: no sign, no capitals, no missing zeros, nothing behind.
        (name.to_string() == text).then_some(name)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            hash,
            sequence_nr,
            incarnation,
            slot,
        } = self;
        let number = sequence_nr.get();
        let incarnation = u128::from_be_bytes(incarnation.to_bytes());
        write!(f, "{hash:016x}-{number:019}-{incarnation:032x}-{slot}.snapshot")
    }
}

/// FNV-1a, 64 bits.
pub(super) fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_hash_is_that_of_the_specification() {
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn a_name_is_read_only_if_it_is_written_like_that() {
        let name = "85944171f73967e8-0000000000000000042-000102030405060708090a0b0c0d0e0f-0.snapshot";
        let parsed = Name::parse(name).unwrap();
        assert_eq!(parsed.sequence_nr, SequenceNr::new(42));
        assert_eq!(parsed.to_string(), name);
        for other in [
            name.to_uppercase(),
            name.replace("-00000", "-+0000"),
            name.replace("-0.", "-00."),
            name.replace("-0.", "-0-0."),
            name.replace("0000000042", "42"),
            name.replace("0000000000000000042", "9999999999999999999"),
            format!("{name}~"),
            String::new(),
        ] {
            assert_eq!(Name::parse(&other), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn a_parsed_name_is_written_the_same(text in "[0-9a-f]{16}-[0-9]{19}-[0-9a-f]{32}-[0-9]{1,11}.snapshot|\\PC*") {
            if let Some(name) = Name::parse(&text) {
                prop_assert_eq!(name.to_string(), text);
            }
        }
    }
}
