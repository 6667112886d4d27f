//! Snapshots in memory, for tests and for states that need not outlive the process.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use journal_core::{Incarnation, PersistenceId, SequenceNr};

use crate::{
    Loaded, SelectionCriteria, Snapshot, SnapshotError, SnapshotMetadata, SnapshotStore, exactly,
    newest_first,
};

type Snapshots = BTreeMap<(SequenceNr, Incarnation), Snapshot>;

/// A [`SnapshotStore`] that lasts as long as the process. Clones share their snapshots.
#[derive(Debug, Clone, Default)]
pub struct MemorySnapshotStore {
    ids: Arc<Mutex<HashMap<PersistenceId, Snapshots>>>,
}

impl MemorySnapshotStore {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn ids(&self) -> MutexGuard<'_, HashMap<PersistenceId, Snapshots>> {
        // No statement below leaves the map half-changed when it panics.
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl SnapshotStore for MemorySnapshotStore {
    async fn save(&self, snapshot: Snapshot) -> Result<(), SnapshotError> {
        let metadata = &snapshot.metadata;
        let key = (metadata.sequence_nr, metadata.incarnation);
        let id = metadata.persistence_id.clone();
        self.ids().entry(id).or_default().insert(key, snapshot);
        Ok(())
    }

    async fn load(&self, id: &PersistenceId, criteria: SelectionCriteria) -> Result<Loaded, SnapshotError> {
        let ids = self.ids();
        let matching = ids.get(id).into_iter().flat_map(BTreeMap::values);
        Ok(Loaded {
            snapshot: matching
                .filter(|snapshot| criteria.matches(&snapshot.metadata))
                .min_by_key(|snapshot| newest_first(&snapshot.metadata))
                .cloned(),
            skipped: Vec::new(),
        })
    }

    async fn list(
        &self,
        id: &PersistenceId,
        criteria: SelectionCriteria,
    ) -> Result<Vec<SnapshotMetadata>, SnapshotError> {
        let ids = self.ids();
        let all = ids.get(id).into_iter().flat_map(BTreeMap::values);
        let mut matching: Vec<_> = all
            .map(|snapshot| &snapshot.metadata)
            .filter(|metadata| criteria.matches(metadata))
            .cloned()
            .collect();
        matching.sort_by_key(newest_first);
        Ok(matching)
    }

    async fn delete(&self, snapshot: &SnapshotMetadata) -> Result<(), SnapshotError> {
        self.delete_matching(&snapshot.persistence_id, exactly(snapshot))
            .await
    }

    async fn delete_matching(
        &self,
        id: &PersistenceId,
        criteria: SelectionCriteria,
    ) -> Result<(), SnapshotError> {
        let mut ids = self.ids();
        if let Some(snapshots) = ids.get_mut(id) {
            snapshots.retain(|_, snapshot| !criteria.matches(&snapshot.metadata));
            if snapshots.is_empty() {
                ids.remove(id);
            }
        }
        Ok(())
    }
}
