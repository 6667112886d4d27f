//! A snapshot store that fails, delays or holds back the calls that a test names.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use tokio::time::sleep;

use super::{Gate, fault::Wait, faulty_journal::locked};
use crate::{
    Loaded, PersistenceId, SelectionCriteria, Snapshot, SnapshotError, SnapshotMetadata, SnapshotStore,
};

/// What happens to the next save, load or deletion; of all ids and once, unless it says otherwise.
///
/// The first wait that a call meets is kept, and then the first failure that it meets.
#[derive(Debug, Clone)]
pub struct SnapshotFault {
    call: Call,
    id: Option<Box<str>>,
    times: usize,
    action: Action,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Call {
    Save,
    Load,
    Delete,
}

#[derive(Debug, Clone)]
enum Action {
    Wait(Wait),
    Fail,
    Garble,
}

impl SnapshotFault {
    fn new(call: Call, action: Action) -> Self {
        Self {
            call,
            id: None,
            times: 1,
            action,
        }
    }

    /// A save fails; nothing is saved.
    #[must_use]
    pub fn save_fails() -> Self {
        Self::new(Call::Save, Action::Fail)
    }

    /// A deletion fails; nothing is deleted.
    #[must_use]
    pub fn deletion_fails() -> Self {
        Self::new(Call::Delete, Action::Fail)
    }

    /// A load fails.
    #[must_use]
    pub fn load_fails() -> Self {
        Self::new(Call::Load, Action::Fail)
    }

    /// A load that finds a snapshot gives it with a payload that is not what was saved.
    #[must_use]
    pub fn load_is_garbled() -> Self {
        Self::new(Call::Load, Action::Garble)
    }

    /// A save takes this much longer, in tokio's time.
    #[must_use]
    pub fn save_delayed(by: Duration) -> Self {
        Self::new(Call::Save, Action::Wait(Wait::Delay(by)))
    }

    /// A load takes this much longer, in tokio's time.
    #[must_use]
    pub fn load_delayed(by: Duration) -> Self {
        Self::new(Call::Load, Action::Wait(Wait::Delay(by)))
    }

    /// A save hangs until the gate lets it through.
    #[must_use]
    pub fn save_held(gate: &Gate) -> Self {
        Self::new(Call::Save, Action::Wait(Wait::Gate(gate.clone())))
    }

    /// A load hangs until the gate lets it through.
    #[must_use]
    pub fn load_held(gate: &Gate) -> Self {
        Self::new(Call::Load, Action::Wait(Wait::Gate(gate.clone())))
    }

    /// Only calls of this id.
    #[must_use]
    pub fn of(mut self, id: impl AsRef<str>) -> Self {
        self.id = Some(id.as_ref().into());
        self
    }

    /// The next `calls` calls.
    #[must_use]
    pub fn times(mut self, calls: usize) -> Self {
        self.times = calls;
        self
    }
}

/// A snapshot store whose next calls a test decides, around any other.
#[derive(Debug)]
pub struct FaultySnapshots {
    inner: Arc<dyn SnapshotStore>,
    faults: Mutex<Vec<SnapshotFault>>,
}

impl FaultySnapshots {
    /// As `inner` until told otherwise.
    pub fn new(inner: impl SnapshotStore) -> Self {
        Self::shared(Arc::new(inner))
    }

    /// As [`new`](Self::new), around a store that others use too.
    pub fn shared(inner: Arc<dyn SnapshotStore>) -> Self {
        Self {
            inner,
            faults: Mutex::default(),
        }
    }

    /// The store behind it.
    #[must_use]
    pub fn inner(&self) -> &Arc<dyn SnapshotStore> {
        &self.inner
    }

    /// What happens to the next call that meets it, behind the faults that are there.
    pub fn next(&self, fault: SnapshotFault) {
        if fault.times > 0 {
            locked(&self.faults).push(fault);
        }
    }

    /// How many calls are still to meet a fault.
    #[must_use]
    pub fn faults_left(&self) -> usize {
        locked(&self.faults).iter().map(|fault| fault.times).sum()
    }

    fn take(&self, call: Call, id: &PersistenceId, wanted: impl Fn(&Action) -> bool) -> Option<Action> {
        let mut faults = locked(&self.faults);
        let (at, fault) = faults.iter_mut().enumerate().find(|(_, fault)| {
            let of_it = fault.id.as_deref().is_none_or(|of| of == id.as_str());
            fault.call == call && of_it && wanted(&fault.action)
        })?;
        let action = fault.action.clone();
        fault.times -= 1;
        if fault.times == 0 {
            faults.remove(at);
        }
        Some(action)
    }

    async fn strike(&self, call: Call, name: &'static str, id: &PersistenceId) -> Result<(), SnapshotError> {
        match self.take(call, id, |action| matches!(action, Action::Wait(_))) {
            Some(Action::Wait(Wait::Delay(by))) => sleep(by).await,
            Some(Action::Wait(Wait::Gate(gate))) => gate.pass().await,
            _ => {}
        }
        match self.take(call, id, |action| matches!(action, Action::Fail)) {
            Some(_) => Err(SnapshotError::new(name, "the test refused it")),
            None => Ok(()),
        }
    }
}

#[async_trait]
impl SnapshotStore for FaultySnapshots {
    async fn save(&self, snapshot: Snapshot) -> Result<(), SnapshotError> {
        self.strike(Call::Save, "save", &snapshot.metadata.persistence_id)
            .await?;
        self.inner.save(snapshot).await
    }

    async fn load(&self, id: &PersistenceId, criteria: SelectionCriteria) -> Result<Loaded, SnapshotError> {
        self.strike(Call::Load, "load", id).await?;
        let mut loaded = self.inner.load(id, criteria).await?;
        if let Some(snapshot) = &mut loaded.snapshot
            && self
                .take(Call::Load, id, |action| matches!(action, Action::Garble))
                .is_some()
        {
            snapshot.payload = Bytes::from_static(b"garbled");
        }
        Ok(loaded)
    }

    async fn list(
        &self,
        id: &PersistenceId,
        criteria: SelectionCriteria,
    ) -> Result<Vec<SnapshotMetadata>, SnapshotError> {
        self.inner.list(id, criteria).await
    }

    async fn delete(&self, snapshot: &SnapshotMetadata) -> Result<(), SnapshotError> {
        self.strike(Call::Delete, "delete", &snapshot.persistence_id)
            .await?;
        self.inner.delete(snapshot).await
    }

    async fn delete_matching(
        &self,
        id: &PersistenceId,
        criteria: SelectionCriteria,
    ) -> Result<(), SnapshotError> {
        self.strike(Call::Delete, "delete", id).await?;
        self.inner.delete_matching(id, criteria).await
    }
}
