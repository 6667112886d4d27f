//! What survives when calls fail and the power goes, on the simulated disk.

use std::io;

use bytes::Bytes;
use journal_core::{Incarnation, PersistenceId, SequenceNr, Timestamp};
use proptest::prelude::*;

use super::simulated::{Fault, SimulatedDisk, Unflushed};
use crate::{
    FileSnapshotStore, SelectionCriteria, Snapshot, SnapshotMetadata, SnapshotStore, exactly,
    model::{Model, Operation, block_on, ids, operation, perform},
};

fn snapshot(number: u64, payload: &'static str) -> Snapshot {
    Snapshot {
        metadata: SnapshotMetadata {
            persistence_id: PersistenceId::new("account|1").unwrap(),
            sequence_nr: SequenceNr::new(number),
            incarnation: Incarnation::from_bytes([7; 16]),
            timestamp: Timestamp(number),
        },
        payload: Bytes::from_static(payload.as_bytes()),
    }
}

async fn load_one(store: &dyn SnapshotStore, of: &Snapshot) -> Option<Snapshot> {
    let id = &of.metadata.persistence_id;
    let loaded = store.load(id, exactly(&of.metadata)).await.unwrap();
    assert_eq!(loaded.skipped, []);
    loaded.snapshot
}

/// More than any operation needs.
const MOST_CALLS: usize = 200;

/// A fault at each call that `operation` makes on the disk, until it makes none that late.
fn each_fault(
    disk: &SimulatedDisk,
    for_ever: bool,
    mut check: impl FnMut(SimulatedDisk, FileSnapshotStore),
) -> usize {
    for after in 0..MOST_CALLS {
        for takes_effect in [false, true] {
            let disk = disk.copy();
            let store = FileSnapshotStore::simulated(&disk, false);
            disk.fail(Fault {
                after,
                kind: io::ErrorKind::StorageFull,
                takes_effect,
                for_ever,
            });
            check(disk.clone(), store);
            if !disk.has_failed() {
                return after;
            }
        }
    }
    panic!("an operation makes more than {MOST_CALLS} calls")
}

const UNFLUSHED: [Unflushed; 6] = [
    Unflushed::Lost,
    Unflushed::Kept,
    Unflushed::Random(0x9e37_79b9_7f4a_7c15),
    Unflushed::Random(0xbf58_476d_1ce4_e5b9),
    Unflushed::Random(0x94d0_49bb_1331_11eb),
    Unflushed::Random(0x2545_f491_4f6c_dd1d),
];

#[test]
fn a_save_that_fails_at_any_call_leaves_the_former_readable_and_can_be_repeated() {
    let disk = SimulatedDisk::new();
    let [former, replacement, newer] = [
        snapshot(1, "former"),
        snapshot(1, "replacement"),
        snapshot(2, "newer"),
    ];
    block_on(FileSnapshotStore::simulated(&disk, false).save(former.clone())).unwrap();
    for saved in [&replacement, &newer] {
        let calls = each_fault(&disk, false, |disk, store| {
            block_on(async {
                let result = store.save(saved.clone()).await;
                assert_eq!(
                    result.is_err(),
                    disk.has_failed(),
                    "a fault is neither hidden nor invented"
                );
                disk.heal();
                let found = load_one(&store, &former).await;
                let allowed = [&former, saved];
                assert!(
                    found.as_ref().is_some_and(|found| allowed.contains(&found)),
                    "{found:?}"
                );
                store.save(saved.clone()).await.unwrap();
                disk.lose_power(Unflushed::Lost);
                let store = FileSnapshotStore::simulated(&disk, false);
                assert_eq!(load_one(&store, saved).await.as_ref(), Some(saved));
            });
        });
        assert!(
            calls >= 6,
            "create, two writes, flush, rename, flush of the folder: {calls}"
        );
    }
}

#[test]
fn a_failed_save_leaves_no_temporary_behind() {
    let disk = SimulatedDisk::new();
    each_fault(&disk, false, |disk, store| {
        drop(block_on(store.save(snapshot(1, "new"))));
        assert!(
            disk.files()
                .iter()
                .all(|file| !file.starts_with("/data/snapshots/tmp")),
            "{disk:?}"
        );
    });
}

#[test]
fn a_saved_snapshot_survives_a_power_loss_at_any_call_of_a_later_operation() {
    let first = snapshot(1, "first");
    let second = snapshot(2, "second");
    let disk = SimulatedDisk::new();
    let store = FileSnapshotStore::simulated(&disk, false);
    block_on(store.save(first.clone())).unwrap();
    let operations = [
        Operation::Save(second.clone()),
        Operation::Save(snapshot(1, "replacement")),
        Operation::Delete(second.metadata.clone()),
        Operation::KeepNewest(
            first.metadata.persistence_id.clone(),
            first.metadata.incarnation,
            1,
        ),
    ];
    for operation in operations {
        for unflushed in UNFLUSHED {
            each_fault(&disk, true, |disk, store| {
                block_on(async {
                    let done = perform(&store, &operation).await.is_ok();
                    disk.lose_power(unflushed);
                    let store = FileSnapshotStore::simulated(&disk, false);
                    let found = load_one(&store, &first).await;
                    match &operation {
                        Operation::Save(saved) if saved.metadata == first.metadata => {
                            let allowed = [&first, saved];
                            assert!(found.as_ref().is_some_and(|found| allowed.contains(&found)));
                            assert!(!done || found.as_ref() == Some(saved));
                        }
                        Operation::Save(saved) => {
                            assert_eq!(found, Some(first.clone()));
                            let new = load_one(&store, saved).await;
                            assert!(new.as_ref().is_none_or(|new| new == saved));
                            assert!(!done || new.is_some());
                        }
                        _ => assert_eq!(found, Some(first.clone())),
                    }
                });
            });
        }
    }
}

#[test]
fn the_first_save_survives_although_all_folders_are_new() {
    for unflushed in UNFLUSHED {
        each_fault(&SimulatedDisk::new(), true, |disk, store| {
            block_on(async {
                let new = snapshot(1, "new");
                let saved = store.save(new.clone()).await.is_ok();
                disk.lose_power(unflushed);
                let store = FileSnapshotStore::simulated(&disk, false);
                let found = load_one(&store, &new).await;
                assert!(!saved || found == Some(new));
            });
        });
    }
}

#[test]
fn folders_of_a_process_that_died_before_it_flushed_them_are_flushed_by_the_next() {
    let disk = SimulatedDisk::new();
    let new = snapshot(1, "new");
    // Each process dies, with the power on, one call later than the one before; what it did stays unflushed.
    for after in 0..MOST_CALLS {
        disk.fail(Fault {
            after,
            kind: io::ErrorKind::Other,
            takes_effect: false,
            for_ever: true,
        });
        let opened = FileSnapshotStore::open_on(Box::new(disk.clone()), "/data/snapshots".into(), |_| 7);
        let saved = opened.and_then(|store| block_on(store.save(new.clone())));
        disk.heal();
        if saved.is_ok() {
            break;
        }
    }
    disk.lose_power(Unflushed::Lost);
    let store = FileSnapshotStore::simulated(&disk, true);
    assert_eq!(block_on(load_one(&store, &new)), Some(new));
}

#[test]
fn opening_fails_at_any_call_with_an_error_and_succeeds_afterwards() {
    for leftover in [false, true] {
        for after in 0..MOST_CALLS {
            let disk = SimulatedDisk::new();
            if leftover {
                let store = FileSnapshotStore::simulated(&disk, false);
                disk.fail(Fault {
                    after: 2,
                    kind: io::ErrorKind::Other,
                    takes_effect: true,
                    for_ever: true,
                });
                block_on(store.save(snapshot(1, "unfinished"))).unwrap_err();
                disk.heal();
                assert_eq!(disk.files().len(), 1);
            }
            disk.fail(Fault {
                after,
                kind: io::ErrorKind::PermissionDenied,
                takes_effect: false,
                for_ever: false,
            });
            let opened = FileSnapshotStore::open_on(Box::new(disk.clone()), "/data/snapshots".into(), |_| 7);
            if !disk.has_failed() {
                break;
            }
            // The parent that existed before may belong to somebody else; flushing it is an extra.
            if let Err(error) = opened {
                assert!(
                    error
                        .to_string()
                        .contains("give this process read and write access"),
                    "{error}"
                );
            }
            disk.heal();
            FileSnapshotStore::simulated(&disk, false);
            assert_eq!(disk.files(), [] as [std::path::PathBuf; 0]);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    /// After a power loss at any call, each id has what it had before the interrupted operation, but for what this
    /// operation itself had begun to change.
    #[test]
    fn any_crash_point_of_any_history_leaves_what_was_acknowledged(
        operations in proptest::collection::vec(operation(), 1..30),
        after in 0_usize..300,
        takes_effect: bool,
        seed: u64,
        same_hash: bool,
    ) {
        let disk = SimulatedDisk::new();
        let store = FileSnapshotStore::simulated(&disk, same_hash);
        disk.fail(Fault { after, kind: io::ErrorKind::Other, takes_effect, for_ever: true });
        let mut before = Model::default();
        let mut later = Model::default();
        block_on(async {
            for operation in &operations {
                later.apply(operation);
                if perform(&store, operation).await.is_err() {
                    break;
                }
                before = later.clone();
            }
            disk.lose_power(Unflushed::Random(seed));
            let store = FileSnapshotStore::simulated(&disk, same_hash);
            for id in ids() {
                let all = SelectionCriteria::ALL;
                let (before, later) = (before.matching(&id, all), later.matching(&id, all));
                let mut found = Vec::new();
                for listed in store.list(&id, all).await.unwrap() {
                    let loaded = store.load(&id, exactly(&listed)).await.unwrap();
                    assert_eq!(loaded.skipped, []);
                    found.push(loaded.snapshot.expect("what is listed can be loaded"));
                }
                for snapshot in &found {
                    assert!(before.contains(snapshot) || later.contains(snapshot), "from nowhere: {snapshot:?}");
                }
                for snapshot in before.iter().filter(|snapshot| later.contains(snapshot)) {
                    assert!(found.contains(snapshot), "lost: {snapshot:?}");
                }
                for snapshot in &later {
                    let same = |other: &&Snapshot| exactly(&snapshot.metadata).matches(&other.metadata);
                    if let Some(former) = before.iter().find(same) {
                        assert!(found.iter().find(same).is_some(), "neither {former:?} nor {snapshot:?}");
                    }
                }
            }
        });
    }
}
