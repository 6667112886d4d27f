//! What a case of the snapshot store contract drives.

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use journal_core::{
    Incarnation, Loaded, PersistenceId, SelectionCriteria, SequenceNr, Snapshot, SnapshotMetadata,
    SnapshotStore, Timestamp,
};

use crate::{
    cases::snapshot::snapshot_cases,
    runner::{self, Absent, Case, NotApplicable, Outcome, Subject, Verdict},
};

/// A snapshot store of its own for each case; dropped after it, so that it can own a temporary directory.
#[async_trait]
pub trait SnapshotFixture: Send + Sync + 'static {
    /// An empty store.
    ///
    /// # Errors
    /// [`Absent`] if the engine is not there.
    async fn create() -> Result<Self, Absent>
    where
        Self: Sized;

    /// Opens the store: at first, and again after each restart, when every handle of the former opening is dropped.
    async fn open(&self) -> Arc<dyn SnapshotStore>;

    /// Whether the store can be opened again with what was saved.
    ///
    /// # Errors
    /// Why not, for a store that ends with its process.
    fn restarts(&self) -> Verdict {
        Ok(())
    }

    /// Damages the payload of a stored snapshot.
    ///
    /// # Errors
    /// By default: this fixture cannot.
    async fn damage(&self, _snapshot: &SnapshotMetadata) -> Verdict {
        NotApplicable::because("the fixture cannot damage stored snapshots")
    }

    /// How long a case may take, 60 seconds unless overridden.
    #[must_use]
    fn deadline() -> Duration
    where
        Self: Sized,
    {
        Duration::from_secs(60)
    }
}

/// An opened snapshot store and what is behind it.
#[expect(missing_debug_implementations, reason = "fixtures need not implement Debug")]
pub struct SnapshotsUnderTest {
    fixture: Box<dyn SnapshotFixture>,
    snapshots: Option<Arc<dyn SnapshotStore>>,
}

impl SnapshotsUnderTest {
    /// Opens the store of `fixture`.
    pub async fn open(fixture: impl SnapshotFixture) -> Self {
        let snapshots = Some(fixture.open().await);
        Self {
            fixture: Box::new(fixture),
            snapshots,
        }
    }

    pub(crate) fn store(&self) -> &dyn SnapshotStore {
        let snapshots = self.snapshots.as_deref();
        snapshots.expect("only a failed restart leaves no store")
    }

    pub(crate) async fn restart(&mut self) -> Verdict {
        self.fixture.restarts()?;
        drop(self.snapshots.take());
        self.snapshots = Some(self.fixture.open().await);
        Ok(())
    }

    pub(crate) async fn damage(&self, snapshot: &SnapshotMetadata) -> Verdict {
        self.fixture.damage(snapshot).await
    }

    pub(crate) async fn save(&self, snapshot: &Snapshot) {
        let saved = self.store().save(snapshot.clone()).await;
        saved.unwrap_or_else(|error| panic!("a save failed: {error}"));
    }

    pub(crate) async fn loaded(&self, id: &PersistenceId, criteria: SelectionCriteria) -> Loaded {
        let loaded = self.store().load(id, criteria).await;
        loaded.unwrap_or_else(|error| panic!("a load failed: {error}"))
    }

    /// The snapshot loaded, where no damage is expected.
    pub(crate) async fn load(&self, id: &PersistenceId, criteria: SelectionCriteria) -> Option<Snapshot> {
        let loaded = self.loaded(id, criteria).await;
        assert_eq!(loaded.skipped, [], "nothing is damaged");
        loaded.snapshot
    }

    /// The text of the snapshot loaded.
    pub(crate) async fn text(&self, id: &PersistenceId, criteria: SelectionCriteria) -> Option<String> {
        let snapshot = self.load(id, criteria).await?;
        Some(String::from_utf8_lossy(&snapshot.payload).into_owned())
    }

    pub(crate) async fn list(&self, id: &PersistenceId) -> Vec<SnapshotMetadata> {
        let listed = self.store().list(id, SelectionCriteria::ALL).await;
        listed.unwrap_or_else(|error| panic!("a list failed: {error}"))
    }

    pub(crate) async fn numbers(&self, id: &PersistenceId) -> Vec<u64> {
        let listed = self.list(id).await;
        listed.iter().map(|snapshot| snapshot.sequence_nr.get()).collect()
    }

    /// Saves `s-1` to `s-5` at the numbers 11 to 15 and the times 1100 to 1500, oldest first.
    pub(crate) async fn five(&self, id: &PersistenceId) -> Vec<Snapshot> {
        let mut saved = Vec::new();
        for (text, number) in ["s-1", "s-2", "s-3", "s-4", "s-5"].into_iter().zip(11..) {
            let snapshot = snapshot(id, number, number * 100, text);
            self.save(&snapshot).await;
            saved.push(snapshot);
        }
        saved
    }
}

/// The life of most snapshots of the cases.
pub(crate) const LIFE: Incarnation = Incarnation::from_bytes([7; 16]);
/// Another one; greater, so that an order by incarnation does not look like one by number.
pub(crate) const OTHER_LIFE: Incarnation = Incarnation::from_bytes([9; 16]);

pub(crate) fn snapshot(id: &PersistenceId, number: u64, time: u64, payload: impl Into<Bytes>) -> Snapshot {
    Snapshot {
        metadata: SnapshotMetadata {
            persistence_id: id.clone(),
            sequence_nr: SequenceNr::new(number),
            incarnation: LIFE,
            timestamp: Timestamp(time),
        },
        payload: payload.into(),
    }
}

pub(crate) fn of_other_life(mut snapshot: Snapshot) -> Snapshot {
    snapshot.metadata.incarnation = OTHER_LIFE;
    snapshot
}

pub(crate) fn up_to(number: u64) -> SelectionCriteria {
    SelectionCriteria::ALL.up_to(SequenceNr::new(number))
}

pub(crate) fn until(time: u64) -> SelectionCriteria {
    SelectionCriteria {
        max_timestamp: Timestamp(time),
        ..SelectionCriteria::ALL
    }
}

type Creation = Pin<Box<dyn Future<Output = Result<SnapshotsUnderTest, Absent>>>>;

/// Runs one case on the store that `create` makes; for tests of the suite itself.
pub fn check_snapshots<F: SnapshotFixture>(
    case: Case<SnapshotsUnderTest>,
    subject: &Subject,
    create: impl FnOnce() -> F + Send + 'static,
) -> Outcome {
    runner::check(case, subject, move || -> Creation {
        Box::pin(async move { Ok(SnapshotsUnderTest::open(create()).await) })
    })
}

/// Runs the case of this name as the test that the macro expanded.
pub fn test_snapshots<F: SnapshotFixture>(case: &str, module_path: &str, test: &str) {
    let subject = Subject::new(std::any::type_name::<F>(), module_path, test, F::deadline());
    runner::require(runner::find(&snapshot_cases(), case), &subject, || -> Creation {
        Box::pin(async { Ok(SnapshotsUnderTest::open(F::create().await?).await) })
    });
}
