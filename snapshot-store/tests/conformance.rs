//! The contract of snapshot stores, on files.

use std::{fs, path::Path, sync::Arc};

use async_trait::async_trait;
use journal_conformance::{Absent, SnapshotFixture, Verdict};
use snapshot_store::{FileSnapshotStore, SnapshotMetadata, SnapshotStore};
use tempfile::TempDir;

struct Files(TempDir);

#[async_trait]
impl SnapshotFixture for Files {
    async fn create() -> Result<Self, Absent> {
        Ok(Self(
            TempDir::new().expect("there is a folder for temporary files"),
        ))
    }

    async fn open(&self) -> Arc<dyn SnapshotStore> {
        let store = FileSnapshotStore::open(self.0.path()).await;
        Arc::new(store.expect("the store opens"))
    }

    async fn damage(&self, snapshot: &SnapshotMetadata) -> Verdict {
        assert!(damage(self.0.path(), snapshot), "{snapshot:?} has a file");
        Ok(())
    }
}

/// Changes the last byte of the snapshot's file, wherever it is below `dir`; false if it is not there.
fn damage(dir: &Path, snapshot: &SnapshotMetadata) -> bool {
    let name = format!("-{:019}-{:?}-", snapshot.sequence_nr.get(), snapshot.incarnation);
    let id = snapshot.persistence_id.as_str().as_bytes();
    let mut found = false;
    for entry in fs::read_dir(dir).expect("the directory can be listed") {
        let path = entry.expect("the entry can be read").path();
        if path.is_dir() {
            found |= damage(&path, snapshot);
        } else if path.to_string_lossy().contains(&name) {
            let mut bytes = fs::read(&path).expect("the file can be read");
            if bytes.windows(id.len()).any(|window| window == id) {
                *bytes.last_mut().expect("the file is not empty") ^= 1;
                fs::write(&path, bytes).expect("the file can be written");
                found = true;
            }
        }
    }
    found
}

journal_conformance::snapshot_suite!(Files);
