//! Saves and loads meet the faults that were meant for them.

use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use journal_core::{
    Incarnation, PersistenceId, SelectionCriteria, SequenceNr, Snapshot, SnapshotError, SnapshotMetadata,
    SnapshotStore, Timestamp,
    testing::{FaultySnapshots, Gate, SnapshotFault},
};
use snapshot_store::MemorySnapshotStore;
use tokio::time::Instant;

fn snapshot(of: &str) -> Snapshot {
    Snapshot {
        metadata: SnapshotMetadata {
            persistence_id: PersistenceId::new(of).unwrap(),
            sequence_nr: SequenceNr::FIRST,
            incarnation: Incarnation::from_bytes([1; 16]),
            timestamp: Timestamp(0),
        },
        payload: Bytes::from_static(b"state"),
    }
}

fn store() -> FaultySnapshots {
    FaultySnapshots::new(MemorySnapshotStore::new())
}

async fn load(store: &FaultySnapshots, of: &str) -> Result<Option<Bytes>, SnapshotError> {
    let id = PersistenceId::new(of).unwrap();
    let loaded = store.load(&id, SelectionCriteria::ALL).await?;
    Ok(loaded.snapshot.map(|snapshot| snapshot.payload))
}

#[tokio::test]
async fn the_next_saves_of_the_id_fail_and_no_others() {
    let store = store();
    store.next(SnapshotFault::save_fails().of("a").times(2));
    store.save(snapshot("b")).await.unwrap();
    for left in [1, 0] {
        store.save(snapshot("a")).await.unwrap_err();
        assert_eq!(store.faults_left(), left);
    }
    assert_eq!(load(&store, "a").await.unwrap(), None);
    store.save(snapshot("a")).await.unwrap();
    assert!(load(&store, "a").await.unwrap().is_some());
}

#[tokio::test]
async fn a_load_fails_or_is_garbled_as_asked() {
    let store = store();
    store.next(SnapshotFault::load_is_garbled());
    store.next(SnapshotFault::load_fails());
    assert_eq!(store.save(snapshot("a")).await.ok(), Some(()));
    load(&store, "a").await.unwrap_err();
    assert_eq!(load(&store, "b").await.unwrap(), None);
    assert_eq!(load(&store, "a").await.unwrap().unwrap(), "garbled");
    assert_eq!(load(&store, "a").await.unwrap().unwrap(), "state");
}

#[tokio::test(start_paused = true)]
async fn saves_and_loads_can_be_late() {
    let store = store();
    store.next(SnapshotFault::save_delayed(Duration::from_secs(2)));
    store.next(SnapshotFault::load_delayed(Duration::from_secs(3)));
    let before = Instant::now();
    store.save(snapshot("a")).await.unwrap();
    assert_eq!(before.elapsed(), Duration::from_secs(2));
    load(&store, "a").await.unwrap();
    assert_eq!(before.elapsed(), Duration::from_secs(5));
}

#[tokio::test]
async fn saves_and_loads_hang_until_they_are_let_through() {
    let store = store();
    let (saves, loads) = (Gate::closed(), Gate::closed());
    store.next(SnapshotFault::save_held(&saves));
    store.next(SnapshotFault::load_held(&loads));
    let mut saving = store.save(snapshot("a"));
    let mut loading = Box::pin(load(&store, "a"));
    assert!((&mut saving).now_or_never().is_none());
    assert!((&mut loading).now_or_never().is_none());
    saves.open();
    saving.await.unwrap();
    assert!((&mut loading).now_or_never().is_none());
    loads.open();
    assert!(loading.await.unwrap().is_some());
}

#[tokio::test]
async fn a_deletion_fails_and_deletes_nothing() {
    let store = store();
    store.save(snapshot("a")).await.unwrap();
    let (metadata, id) = (snapshot("a").metadata, PersistenceId::new("a").unwrap());
    store.next(SnapshotFault::deletion_fails().of("a").times(2));
    store.delete(&metadata).await.unwrap_err();
    store
        .delete_matching(&id, SelectionCriteria::ALL)
        .await
        .unwrap_err();
    assert!(load(&store, "a").await.unwrap().is_some());
    store.delete(&metadata).await.unwrap();
    assert_eq!(load(&store, "a").await.unwrap(), None);
}
