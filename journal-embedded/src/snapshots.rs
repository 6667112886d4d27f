//! The snapshot store in the journal's directory. A snapshot has two rows, so that selecting reads no payload:
//!
//! ```text
//! description: version u8 | timestamp u64 | payload length u64 | payload crc32c u32   (little-endian)
//! payload: as given
//! ```

use std::{cmp::Reverse, sync::Arc};

use async_trait::async_trait;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use journal_core::{
    Incarnation, JournalError, Loaded, Operation, PersistenceId, SelectionCriteria, SequenceNr,
    SkippedSnapshot, Snapshot, SnapshotError, SnapshotMetadata, SnapshotStore, Timestamp,
};

use crate::{
    committer::{Change, Request},
    journal::Shared,
    keys::{self, SnapshotRow},
    record::Damaged,
    store::{Store, Table, View},
};

const VERSION: u8 = 1;
const DESCRIPTION: usize = 1 + 8 + 8 + 4;

/// Snapshots in the directory of an [`EmbeddedJournal`](crate::EmbeddedJournal), as durable as its events; from
/// [`EmbeddedJournal::snapshots`](crate::EmbeddedJournal::snapshots). Cloning is cheap; each clone keeps the directory
/// open.
#[derive(Debug, Clone)]
pub struct EmbeddedSnapshots {
    shared: Arc<Shared>,
}

/// What the first row of a snapshot says about the second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Description {
    timestamp: Timestamp,
    len: u64,
    crc: u32,
}

impl Description {
    fn new(snapshot: &Snapshot) -> Self {
        Self {
            timestamp: snapshot.metadata.timestamp,
            len: len(&snapshot.payload),
            crc: crc32c::crc32c(&snapshot.payload),
        }
    }

    fn encode(&self) -> Bytes {
        let mut row = BytesMut::with_capacity(DESCRIPTION);
        row.put_u8(VERSION);
        row.put_u64_le(self.timestamp.0);
        row.put_u64_le(self.len);
        row.put_u32_le(self.crc);
        row.freeze()
    }

    fn decode(mut row: &[u8]) -> Result<Self, Damaged> {
        let version = row.try_get_u8()?;
        if version != VERSION {
            return Err(Damaged::Version(version));
        }
        let description = Self {
            timestamp: Timestamp(row.try_get_u64_le()?),
            len: row.try_get_u64_le()?,
            crc: row.try_get_u32_le()?,
        };
        if row.has_remaining() {
            return Err(Damaged::Trailing);
        }
        Ok(description)
    }

    fn fits(&self, payload: &[u8]) -> bool {
        self.len == len(payload) && self.crc == crc32c::crc32c(payload)
    }
}

fn len(payload: &[u8]) -> u64 {
    u64::try_from(payload.len()).unwrap_or(u64::MAX)
}

/// A snapshot that was found; its description may be damaged.
struct Found {
    incarnation: Incarnation,
    sequence_nr: SequenceNr,
    description: Result<Description, Damaged>,
}

impl Found {
    /// What it is, as far as it can be told; a damaged one counts as the newest of its number.
    fn metadata(&self, id: &PersistenceId) -> SnapshotMetadata {
        SnapshotMetadata {
            persistence_id: id.clone(),
            sequence_nr: self.sequence_nr,
            incarnation: self.incarnation,
            timestamp: self
                .description
                .map_or(Timestamp(u64::MAX), |description| description.timestamp),
        }
    }

    fn skipped(&self, reason: impl ToString) -> SkippedSnapshot {
        SkippedSnapshot {
            location: format!("number {} of life {:?}", self.sequence_nr, self.incarnation),
            reason: reason.to_string(),
        }
    }

    fn rows(&self, id: &PersistenceId) -> [Bytes; 2] {
        rows(id, self.incarnation, self.sequence_nr)
    }
}

fn rows(id: &PersistenceId, incarnation: Incarnation, at: SequenceNr) -> [Bytes; 2] {
    [SnapshotRow::Description, SnapshotRow::Payload].map(|row| keys::snapshot(row, id, incarnation, at))
}

/// All that match, newest first. A damaged one matches whatever its timestamp may be.
fn find(
    store: &Store,
    view: &View,
    id: &PersistenceId,
    criteria: &SelectionCriteria,
) -> Result<Vec<Found>, JournalError> {
    let (least, most) = match criteria.incarnation {
        Some(life) => (life, life),
        None => (
            Incarnation::from_bytes([0; 16]),
            Incarnation::from_bytes([0xff; 16]),
        ),
    };
    let keys = keys::snapshot(SnapshotRow::Description, id, least, SequenceNr::ZERO)
        ..=keys::snapshot(SnapshotRow::Description, id, most, SequenceNr::MAX);
    let mut all = Vec::new();
    for row in store.scan(view, Table::Snapshots, keys) {
        let (key, row) = row.map_err(|error| error.reading(Operation::Replay))?;
        let Some((incarnation, sequence_nr)) = keys::snapshot_of(&key) else {
            continue;
        };
        let found = Found {
            incarnation,
            sequence_nr,
            description: Description::decode(&row),
        };
        let mut metadata = found.metadata(id);
        if found.description.is_err() {
            metadata.timestamp = criteria.max_timestamp;
        }
        if criteria.matches(&metadata) {
            all.push(found);
        }
    }
    all.sort_by_key(|found| Reverse((found.sequence_nr, found.metadata(id).timestamp)));
    Ok(all)
}

fn load(store: &Store, id: &PersistenceId, criteria: &SelectionCriteria) -> Result<Loaded, JournalError> {
    let view = store.view();
    let mut loaded = Loaded::default();
    for found in find(store, &view, id, criteria)? {
        let description = match found.description {
            Ok(description) => description,
            Err(error) => {
                loaded.skipped.push(found.skipped(error));
                continue;
            }
        };
        let [_, payload] = found.rows(id);
        match store.get(&view, Table::Snapshots, &payload) {
            Ok(Some(payload)) if description.fits(&payload) => {
                loaded.snapshot = Some(Snapshot {
                    metadata: found.metadata(id),
                    payload,
                });
                break;
            }
            Ok(Some(_)) => loaded
                .skipped
                .push(found.skipped("the payload does not fit its checksum")),
            Ok(None) => loaded.skipped.push(found.skipped("the payload is missing")),
            Err(error) => {
                let error = error.reading(Operation::Replay);
                if error.kind() != journal_core::ErrorKind::Corrupt {
                    return Err(error);
                }
                loaded.skipped.push(found.skipped(error));
            }
        }
    }
    Ok(loaded)
}

impl EmbeddedSnapshots {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    async fn change(
        &self,
        operation: &'static str,
        id: &PersistenceId,
        changes: Vec<Change>,
    ) -> Result<(), SnapshotError> {
        if changes.is_empty() {
            return Ok(());
        }
        self.shared
            .request(Operation::Append, |done| Request::Snapshots(changes, done))
            .await
            .map_err(|error| failed(operation, id, error))
    }

    async fn find(
        &self,
        operation: &'static str,
        id: &PersistenceId,
        criteria: SelectionCriteria,
    ) -> Result<Vec<Found>, SnapshotError> {
        self.shared
            .read(Operation::Replay, {
                let id = id.clone();
                move |store| find(store, &store.view(), &id, &criteria)
            })
            .await
            .map_err(|error| failed(operation, id, error))
    }

    async fn remove(&self, id: &PersistenceId, found: &[Found]) -> Result<(), SnapshotError> {
        let rows = found.iter().flat_map(|found| found.rows(id)).map(Change::Remove);
        self.change("delete", id, rows.collect()).await
    }
}

fn failed(operation: &'static str, id: &PersistenceId, error: JournalError) -> SnapshotError {
    SnapshotError::new(operation, error.to_string())
        .with_id(id)
        .with_source(error)
}

#[async_trait]
impl SnapshotStore for EmbeddedSnapshots {
    async fn save(&self, snapshot: Snapshot) -> Result<(), SnapshotError> {
        let id = &snapshot.metadata.persistence_id;
        let (size, largest) = (snapshot.payload.len(), self.shared.config.largest_snapshot);
        if size > largest {
            return Err(SnapshotError::new(
                "save",
                format!(
                    "{size} bytes are more than the largest snapshot, {largest}; raise `largest_snapshot`, or use a file \
                     store for snapshots"
                ),
            )
            .with_id(id));
        }
        let description = Description::new(&snapshot).encode();
        let [first, second] = rows(id, snapshot.metadata.incarnation, snapshot.metadata.sequence_nr);
        let changes = vec![
            Change::Put(first, description),
            Change::Put(second, snapshot.payload),
        ];
        self.change("save", id, changes).await
    }

    async fn load(&self, id: &PersistenceId, criteria: SelectionCriteria) -> Result<Loaded, SnapshotError> {
        self.shared
            .read(Operation::Replay, {
                let id = id.clone();
                move |store| load(store, &id, &criteria)
            })
            .await
            .map_err(|error| failed("load", id, error))
    }

    async fn list(
        &self,
        id: &PersistenceId,
        criteria: SelectionCriteria,
    ) -> Result<Vec<SnapshotMetadata>, SnapshotError> {
        let found = self.find("list", id, criteria).await?;
        // A damaged one must not take the place of one that can be loaded.
        let readable = found.iter().filter(|found| found.description.is_ok());
        Ok(readable.map(|found| found.metadata(id)).collect())
    }

    async fn delete(&self, snapshot: &SnapshotMetadata) -> Result<(), SnapshotError> {
        let id = &snapshot.persistence_id;
        let rows = rows(id, snapshot.incarnation, snapshot.sequence_nr);
        self.change("delete", id, rows.map(Change::Remove).into()).await
    }

    async fn delete_matching(
        &self,
        id: &PersistenceId,
        criteria: SelectionCriteria,
    ) -> Result<(), SnapshotError> {
        let found = self.find("delete", id, criteria).await?;
        self.remove(id, &found).await
    }

    /// In one commit.
    async fn keep_newest(
        &self,
        id: &PersistenceId,
        incarnation: Incarnation,
        count: usize,
    ) -> Result<(), SnapshotError> {
        let mut found = self
            .find("delete", id, SelectionCriteria::ALL.of(incarnation))
            .await?;
        let mut kept = 0;
        found.retain(|found| {
            let older = kept >= count;
            // A damaged one takes no place.
            kept += usize::from(found.description.is_ok());
            older
        });
        self.remove(id, &found).await
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_description_is_read_as_it_was_written(timestamp: u64, len: u64, crc: u32) {
            let description = Description { timestamp: Timestamp(timestamp), len, crc };
            prop_assert_eq!(Description::decode(&description.encode()), Ok(description));
        }

        #[test]
        fn arbitrary_bytes_are_an_error_and_no_panic(mut bytes: Vec<u8>) {
            let _ = Description::decode(&bytes);
            bytes.resize(DESCRIPTION, 0);
            bytes[0] = VERSION;
            prop_assert!(Description::decode(&bytes).is_ok());
            bytes.push(0);
            prop_assert!(Description::decode(&bytes).is_err());
        }
    }
}
