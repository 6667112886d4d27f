//! The contract of snapshot stores on files.

use std::{fs, path::Path, sync::Arc};

use async_trait::async_trait;
use journal_conformance::{Absent, SnapshotFixture, Verdict};
use snapshot_store::{FileSnapshotStore, SnapshotMetadata, SnapshotStore};
use tempfile::TempDir;

struct Files(TempDir);

#[async_trait]
impl SnapshotFixture for Files {
    async fn create() -> Result<Self, Absent> {
        Ok(Self(tempfile::tempdir().expect("a directory can be made")))
    }

    async fn open(&self) -> Arc<dyn SnapshotStore> {
        let store = FileSnapshotStore::open(self.0.path()).await;
        Arc::new(store.expect("the directory can be opened"))
    }

    /// Flips the last bit of the file; the cases that damage use one id.
    async fn damage(&self, snapshot: &SnapshotMetadata) -> Verdict {
        let number = format!("-{:019}-", snapshot.sequence_nr.get());
        let path = files(self.0.path())
            .into_iter()
            .find(|path| path.contains(&number));
        let path = path.expect("each snapshot has a file");
        let mut bytes = fs::read(&path).expect("the file is there");
        *bytes.last_mut().expect("the file has a header") ^= 1;
        fs::write(&path, bytes).expect("the file can be written");
        Ok(())
    }
}

/// All files below `directory`.
fn files(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("the directory can be read");
    entries
        .map(|entry| entry.expect("the directory can be read").path())
        .flat_map(|path| match path.is_dir() {
            true => files(&path),
            false => vec![path.display().to_string()],
        })
        .collect()
}

journal_conformance::snapshot_suite!(Files);
