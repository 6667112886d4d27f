//! The bytes of a snapshot file, as `docs.md` specifies them.

use bytes::Bytes;
use journal_core::{
    Incarnation, InvalidPersistenceId, PersistenceId, SequenceNr, Snapshot, SnapshotMetadata, Timestamp,
};

const MAGIC: [u8; 8] = *b"AJSNAP\x1a\n";
const VERSION: u16 = 1;
/// The header without the id and its own checksum.
const FIXED: usize = 56;
const CHECKSUM: usize = 4;

/// No header is longer, in bytes.
pub(super) const MAX_HEADER: usize = FIXED + PersistenceId::MAX_BYTES + CHECKSUM;

/// What the header of a file says. It has the same layout in all versions that keep the magic.
#[derive(Debug)]
pub(super) struct Header {
    pub(super) metadata: SnapshotMetadata,
    version: u16,
    payload_length: u64,
    payload_checksum: u32,
}

/// Why a file is no snapshot.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Damage {
    #[error("it does not start like a snapshot")]
    Magic,
    #[error("it ends within its header")]
    TruncatedHeader,
    #[error("the checksum of its header does not fit")]
    HeaderChecksum,
    #[error("its id is none: {0}")]
    Id(#[from] InvalidPersistenceId),
    #[error("its id is no UTF-8")]
    IdEncoding(#[from] std::str::Utf8Error),
    #[error("its sequence number {0} is larger than any")]
    SequenceNr(u64),
    #[error("its format version {found} is not this program's {VERSION}; upgrade the program to read it")]
    Version { found: u16 },
    #[error("it has {found} bytes instead of {expected}")]
    Length { found: u64, expected: u64 },
    #[error("the checksum of its payload does not fit")]
    PayloadChecksum,
}

/// The bytes in front of the payload.
pub(super) fn encode_header(snapshot: &Snapshot) -> Vec<u8> {
    let metadata = &snapshot.metadata;
    let id = metadata.persistence_id.as_str().as_bytes();
    let id_length = u16::try_from(id.len()).expect("a persistence id has at most 1 024 bytes");
    let mut header = Vec::with_capacity(FIXED + id.len() + CHECKSUM);
    header.extend(MAGIC);
    header.extend(VERSION.to_be_bytes());
    header.extend(id_length.to_be_bytes());
    header.extend(metadata.sequence_nr.get().to_be_bytes());
    header.extend(metadata.incarnation.to_bytes());
    header.extend(metadata.timestamp.0.to_be_bytes());
    header.extend((snapshot.payload.len() as u64).to_be_bytes());
    header.extend(crc32c::crc32c(&snapshot.payload).to_be_bytes());
    header.extend(id);
    header.extend(crc32c::crc32c(&header).to_be_bytes());
    header
}

impl Header {
    /// Reads the header at the start of `file`, which may end anywhere behind it.
    pub(super) fn decode(file: &[u8]) -> Result<Self, Damage> {
        let mut rest = file;
        if take(&mut rest)? != MAGIC {
            return Err(Damage::Magic);
        }
        let version = u16::from_be_bytes(take(&mut rest)?);
        let id_length = usize::from(u16::from_be_bytes(take(&mut rest)?));
        let sequence_nr = u64::from_be_bytes(take(&mut rest)?);
        let incarnation = Incarnation::from_bytes(take(&mut rest)?);
        let timestamp = Timestamp(u64::from_be_bytes(take(&mut rest)?));
        let payload_length = u64::from_be_bytes(take(&mut rest)?);
        let payload_checksum = u32::from_be_bytes(take(&mut rest)?);
        let (id, mut rest) = rest.split_at_checked(id_length).ok_or(Damage::TruncatedHeader)?;
        let checksum = u32::from_be_bytes(take(&mut rest)?);
        let checked = file.get(..FIXED + id_length).ok_or(Damage::TruncatedHeader)?;
        if crc32c::crc32c(checked) != checksum {
            return Err(Damage::HeaderChecksum);
        }
        if sequence_nr > SequenceNr::MAX.get() {
            return Err(Damage::SequenceNr(sequence_nr));
        }
        Ok(Self {
            metadata: SnapshotMetadata {
                persistence_id: PersistenceId::new(std::str::from_utf8(id)?)?,
                sequence_nr: SequenceNr::new(sequence_nr),
                incarnation,
                timestamp,
            },
            version,
            payload_length,
            payload_checksum,
        })
    }

    /// Checks what can be checked without the payload: the version and the length of the file.
    pub(super) fn check(&self, file_length: u64) -> Result<(), Damage> {
        if self.version != VERSION {
            return Err(Damage::Version { found: self.version });
        }
        let expected = self.file_length();
        if file_length != expected {
            return Err(Damage::Length {
                found: file_length,
                expected,
            });
        }
        Ok(())
    }

    /// The payload of `file`, which must be whole.
    pub(super) fn payload(&self, file: Bytes) -> Result<Bytes, Damage> {
        self.check(file.len() as u64)?;
        let payload = file.slice(self.length()..);
        if crc32c::crc32c(&payload) != self.payload_checksum {
            return Err(Damage::PayloadChecksum);
        }
        Ok(payload)
    }

    /// The length of the file, in bytes.
    pub(super) fn file_length(&self) -> u64 {
        self.payload_length.saturating_add(self.length() as u64)
    }

    fn length(&self) -> usize {
        FIXED + self.metadata.persistence_id.as_str().len() + CHECKSUM
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], Damage> {
    let (taken, behind) = rest.split_first_chunk().ok_or(Damage::TruncatedHeader)?;
    *rest = behind;
    Ok(*taken)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn snapshot() -> Snapshot {
        Snapshot {
            metadata: SnapshotMetadata {
                persistence_id: PersistenceId::new("a|1").unwrap(),
                sequence_nr: SequenceNr::new(258),
                incarnation: Incarnation::from_bytes(*b"0123456789abcdef"),
                timestamp: Timestamp(0x0102_0304),
            },
            payload: Bytes::from_static(b"123456789"),
        }
    }

    fn file(snapshot: &Snapshot) -> Vec<u8> {
        [encode_header(snapshot), snapshot.payload.to_vec()].concat()
    }

    fn decode(file: Vec<u8>) -> Result<Snapshot, Damage> {
        let header = Header::decode(&file)?;
        let payload = header.payload(file.into())?;
        Ok(Snapshot {
            metadata: header.metadata,
            payload,
        })
    }

    #[test]
    fn the_bytes_are_those_of_the_specification() {
        let expected = [
            b"AJSNAP\x1a\n".as_slice(),
            &[0, 1],                   // format version
            &[0, 3],                   // id length
            &[0, 0, 0, 0, 0, 0, 1, 2], // sequence number
            b"0123456789abcdef",       // incarnation
            &[0, 0, 0, 0, 1, 2, 3, 4], // timestamp
            &[0, 0, 0, 0, 0, 0, 0, 9], // payload length
            &[0xe3, 0x06, 0x92, 0x83], // the check value of CRC-32C
            b"a|1",                    // id
            &[0x6a, 0x06, 0x62, 0xba], // checksum of the header
            b"123456789",
        ]
        .concat();
        assert_eq!(file(&snapshot()), expected);
        assert_eq!(decode(expected), Ok(snapshot()));
    }

    #[test]
    fn a_changed_byte_is_noticed_wherever_it_is() {
        let whole = file(&snapshot());
        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut changed = whole.clone();
                changed[at] ^= 1 << bit;
                assert!(decode(changed).is_err(), "bit {bit} of byte {at}");
            }
        }
    }

    #[test]
    fn a_truncated_or_extended_file_is_noticed_wherever_it_ends() {
        let whole = file(&snapshot());
        for length in 0..whole.len() {
            assert!(decode(whole[..length].to_vec()).is_err(), "{length} bytes");
        }
        assert!(decode([whole, vec![0]].concat()).is_err());
    }

    #[test]
    fn a_newer_version_still_tells_whose_it_is() {
        let mut newer = file(&snapshot());
        newer[9] = 2;
        let end = FIXED + 3;
        let checksum = crc32c::crc32c(&newer[..end]).to_be_bytes();
        newer[end..end + CHECKSUM].copy_from_slice(&checksum);
        let header = Header::decode(&newer).unwrap();
        assert_eq!(header.metadata, snapshot().metadata);
        assert_eq!(
            header.check(newer.len() as u64),
            Err(Damage::Version { found: 2 })
        );
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_are_an_error_or_a_snapshot_that_encodes_to_them(
            header in proptest::collection::vec(any::<u8>(), 0..200),
            with_magic: bool,
            with_checksum: bool,
            id_length in 0_u16..80,
        ) {
            let mut bytes = header;
            if with_magic && bytes.len() > 12 {
                bytes[..8].copy_from_slice(&MAGIC);
                bytes[8..10].copy_from_slice(&VERSION.to_be_bytes());
                bytes[10..12].copy_from_slice(&id_length.to_be_bytes());
            }
            let end = FIXED + usize::from(id_length);
            if with_checksum && bytes.len() > end + CHECKSUM {
                let checksum = crc32c::crc32c(&bytes[..end]).to_be_bytes();
                bytes[end..end + CHECKSUM].copy_from_slice(&checksum);
            }
            if let Ok(snapshot) = decode(bytes.clone()) {
                prop_assert_eq!(file(&snapshot), bytes);
            }
        }

        #[test]
        fn every_snapshot_comes_back(
            id in "\\PC{1,64}",
            number in 0..=SequenceNr::MAX.get(),
            incarnation: [u8; 16],
            timestamp: u64,
            payload in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            let snapshot = Snapshot {
                metadata: SnapshotMetadata {
                    persistence_id: PersistenceId::new(id).unwrap(),
                    sequence_nr: SequenceNr::new(number),
                    incarnation: Incarnation::from_bytes(incarnation),
                    timestamp: Timestamp(timestamp),
                },
                payload: payload.into(),
            };
            prop_assert_eq!(decode(file(&snapshot)), Ok(snapshot));
        }
    }
}
