//! What is special to files.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
    task::{Context, Waker},
};

use bytes::Bytes;
use journal_core::{Incarnation, PersistenceId, SequenceNr, Timestamp};
use proptest::prelude::*;
use tempfile::TempDir;

use super::simulated::{Fault, SimulatedDisk};
use crate::{
    FileSnapshotStore, Loaded, SelectionCriteria, Snapshot, SnapshotMetadata, SnapshotStore, exactly,
    model::block_on,
};

fn snapshot(id: &str, number: u64, payload: impl Into<Bytes>) -> Snapshot {
    Snapshot {
        metadata: SnapshotMetadata {
            persistence_id: PersistenceId::new(id).unwrap(),
            sequence_nr: SequenceNr::new(number),
            incarnation: Incarnation::from_bytes([7; 16]),
            timestamp: Timestamp(number),
        },
        payload: payload.into(),
    }
}

async fn load_all(store: &FileSnapshotStore, id: &str) -> Loaded {
    store
        .load(&PersistenceId::new(id).unwrap(), SelectionCriteria::ALL)
        .await
        .unwrap()
}

/// Snapshots 1 to 3 of `a`, all files' names ending in what follows their hash.
async fn three(disk: &SimulatedDisk) -> (FileSnapshotStore, [Snapshot; 3]) {
    let store = FileSnapshotStore::simulated(disk, true);
    let snapshots = [1, 2, 3].map(|number| snapshot("a", number, format!("state {number}")));
    for snapshot in &snapshots {
        store.save(snapshot.clone()).await.unwrap();
    }
    (store, snapshots)
}

fn file_of(number: u64) -> String {
    format!("-{number:019}-{}-0.snapshot", "07".repeat(16))
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(self::files(&path));
        } else {
            files.push(path);
        }
    }
    files
}

#[tokio::test]
async fn a_reopened_store_has_what_was_saved_and_creates_missing_parents() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("missing/parents/snapshots");
    let saved = snapshot("account|1", 5, "state");
    FileSnapshotStore::open(&path)
        .await
        .unwrap()
        .save(saved.clone())
        .await
        .unwrap();
    let reopened = FileSnapshotStore::open(&path).await.unwrap();
    assert_eq!(load_all(&reopened, "account|1").await.snapshot, Some(saved));
}

#[tokio::test]
async fn leftover_temporaries_are_removed_at_open_and_snapshots_are_not() {
    let dir = TempDir::new().unwrap();
    let store = FileSnapshotStore::open(dir.path()).await.unwrap();
    store.save(snapshot("a", 1, "state")).await.unwrap();
    let leftover = dir.path().join("tmp/0");
    fs::write(&leftover, "half").unwrap();
    let reopened = FileSnapshotStore::open(dir.path()).await.unwrap();
    assert!(!leftover.exists());
    assert!(load_all(&reopened, "a").await.snapshot.is_some());
}

#[tokio::test]
async fn ids_that_a_file_system_would_confuse_or_refuse_stay_apart() {
    let dir = TempDir::new().unwrap();
    let store = FileSnapshotStore::open(dir.path()).await.unwrap();
    let long = "x".repeat(PersistenceId::MAX_BYTES);
    let other_long = format!("{}y", "x".repeat(PersistenceId::MAX_BYTES - 1));
    let ids = [
        "a",
        "A",
        "a.",
        "a ",
        ".",
        "..",
        "../a",
        "/",
        "/etc/passwd",
        "a/b",
        "a\\b",
        "a\0",
        "a\0b",
        "\0",
        "CON",
        "nul.txt",
        "tmp",
        "a:b",
        "*",
        "ä",
        "a\u{308}",
        "Ä",
        "ß",
        "SS",
        "\u{1f980}",
        "%61",
        "-",
        "\n",
        &long,
        &other_long,
    ];
    for id in ids {
        store.save(snapshot(id, 1, id.to_owned())).await.unwrap();
    }
    let reopened = FileSnapshotStore::open(dir.path()).await.unwrap();
    for id in ids {
        assert_eq!(
            load_all(&reopened, id).await.snapshot,
            Some(snapshot(id, 1, id.to_owned()))
        );
    }
    let files = files(dir.path());
    assert_eq!(files.len(), ids.len());
    assert!(files.iter().all(|file| file.starts_with(dir.path())));
}

#[tokio::test]
async fn many_ids_are_spread_over_many_folders() {
    let disk = SimulatedDisk::new();
    let store = FileSnapshotStore::simulated(&disk, false);
    for number in 0..10_000 {
        store
            .save(snapshot(&format!("account|{number}"), 1, ""))
            .await
            .unwrap();
    }
    let mut folders: Vec<_> = disk
        .files()
        .iter()
        .map(|file| file.parent().unwrap().to_owned())
        .collect();
    folders.sort();
    let fullest = folders.chunk_by(PartialEq::eq).map(<[_]>::len).max().unwrap();
    assert!(fullest <= 16, "{fullest} files in one folder");
}

#[tokio::test]
async fn damaged_files_are_skipped_in_favour_of_an_older_one_and_reported() {
    type Damage = fn(&mut Vec<u8>);
    let damages: [(&str, Damage); 6] = [
        ("does not start like a snapshot", |file| file[0] = b'X'),
        ("ends within its header", |file| file.truncate(20)),
        ("checksum of its header", |file| file[15] ^= 1),
        ("bytes instead of", |file| file.truncate(file.len() - 1)),
        ("bytes instead of", |file| file.push(0)),
        ("checksum of its payload", |file| *file.last_mut().unwrap() ^= 1),
    ];
    for (reason, damage) in damages {
        let disk = SimulatedDisk::new();
        let (store, [first, ..]) = three(&disk).await;
        disk.tamper(&file_of(3), damage);
        disk.tamper(&file_of(2), |file| file.clear());
        let loaded = load_all(&store, "a").await;
        assert_eq!(loaded.snapshot, Some(first));
        let [newest, older] = &loaded.skipped[..] else {
            panic!("{:?}", loaded.skipped)
        };
        assert!(newest.location.ends_with(&file_of(3)), "{newest:?}");
        assert!(newest.reason.contains(reason), "{newest:?}");
        assert!(older.location.ends_with(&file_of(2)), "{older:?}");
    }
}

#[tokio::test]
async fn a_damaged_file_older_than_the_one_found_is_no_news() {
    let disk = SimulatedDisk::new();
    let (store, [_, _, third]) = three(&disk).await;
    disk.tamper(&file_of(2), |file| file.clear());
    let loaded = load_all(&store, "a").await;
    assert_eq!((loaded.snapshot, loaded.skipped), (Some(third), vec![]));
}

#[tokio::test]
async fn a_damaged_file_is_replaced_by_a_save_and_removed_by_a_deletion() {
    let disk = SimulatedDisk::new();
    let (store, [first, second, third]) = three(&disk).await;
    disk.tamper(&file_of(3), |file| file.truncate(30));
    disk.tamper(&file_of(2), |file| file.clear());
    store.save(third.clone()).await.unwrap();
    store.delete(&second.metadata).await.unwrap();
    assert_eq!(disk.files().len(), 2);
    let id = &first.metadata.persistence_id;
    let listed = store.list(id, SelectionCriteria::ALL).await.unwrap();
    assert_eq!(listed, [third.metadata, first.metadata.clone()]);
    disk.tamper(&file_of(1), |file| file.clear());
    store.delete_matching(id, SelectionCriteria::ALL).await.unwrap();
    assert_eq!(disk.files().len(), 0);
}

#[tokio::test]
async fn a_newer_format_is_skipped_with_a_reason() {
    let disk = SimulatedDisk::new();
    let (store, [_, second, _]) = three(&disk).await;
    disk.tamper(&file_of(3), |file| {
        file[9] = 2;
        let end = 56 + 1;
        let checksum = crc32c::crc32c(&file[..end]).to_be_bytes();
        file[end..end + 4].copy_from_slice(&checksum);
    });
    let loaded = load_all(&store, "a").await;
    assert_eq!(loaded.snapshot, Some(second));
    assert!(
        loaded.skipped[0].reason.contains("upgrade the program"),
        "{:?}",
        loaded.skipped
    );
}

#[tokio::test]
async fn a_file_of_another_id_or_number_is_not_taken_for_this_one() {
    let dir = TempDir::new().unwrap();
    let store = FileSnapshotStore::open(dir.path()).await.unwrap();
    let [mine, older, other] = [
        snapshot("a", 2, "mine"),
        snapshot("a", 1, "older"),
        snapshot("b", 2, "other"),
    ];
    let mut paths = Vec::new();
    for snapshot in [&other, &older, &mine] {
        store.save(snapshot.clone()).await.unwrap();
        paths.extend(files(dir.path()).into_iter().find(|file| !paths.contains(file)));
    }
    let [other_file, older_file, mine_file] = &paths[..] else {
        panic!("{paths:?}")
    };
    for (misplaced, name) in [(other_file, "number 2 of b"), (older_file, "number 1 of a")] {
        fs::copy(misplaced, mine_file).unwrap();
        let loaded = load_all(&store, "a").await;
        assert_eq!(loaded.snapshot.as_ref(), Some(&older));
        assert!(loaded.skipped[0].reason.contains(name), "{:?}", loaded.skipped);
    }
}

#[tokio::test]
async fn ids_with_the_same_hash_keep_their_slots_when_others_come_and_go() {
    let disk = SimulatedDisk::new();
    let store = FileSnapshotStore::simulated(&disk, true);
    let [a, b, c] = ["a", "b", "c"].map(|id| snapshot(id, 1, id.to_owned()));
    for snapshot in [&a, &b] {
        store.save(snapshot.clone()).await.unwrap();
    }
    store.delete(&a.metadata).await.unwrap();
    let replacement = snapshot("b", 1, "replacement");
    store.save(replacement.clone()).await.unwrap();
    assert_eq!(disk.files().len(), 1);
    store.save(c.clone()).await.unwrap();
    assert_eq!(load_all(&store, "a").await, Loaded::default());
    assert_eq!(load_all(&store, "b").await.snapshot, Some(replacement));
    assert_eq!(load_all(&store, "c").await.snapshot, Some(c));
}

#[tokio::test]
async fn files_that_are_no_snapshots_are_left_alone() {
    let dir = TempDir::new().unwrap();
    let store = FileSnapshotStore::open(dir.path()).await.unwrap();
    let saved = snapshot("a", 1, "state");
    store.save(saved.clone()).await.unwrap();
    let file = files(dir.path()).remove(0);
    let strangers = [file.with_extension("bak"), file.with_file_name(".DS_Store")];
    for stranger in &strangers {
        fs::write(stranger, "x").unwrap();
    }
    let loaded = load_all(&store, "a").await;
    assert_eq!((loaded.snapshot, loaded.skipped), (Some(saved.clone()), vec![]));
    let id = &saved.metadata.persistence_id;
    store.delete_matching(id, SelectionCriteria::ALL).await.unwrap();
    assert!(strangers.iter().all(|stranger| stranger.exists()));
}

#[tokio::test]
async fn a_file_where_a_directory_should_be_is_an_error_that_says_so() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    for path in [file.clone(), file.join("below")] {
        let error = FileSnapshotStore::open(&path).await.unwrap_err();
        assert_eq!(error.operation(), "open");
        assert!(
            error
                .to_string()
                .contains("a file stands where a directory should be"),
            "{error}"
        );
    }
    let store = FileSnapshotStore::open(dir.path().join("store")).await.unwrap();
    let saved = snapshot("a", 1, "");
    store.save(saved.clone()).await.unwrap();
    let folder = files(dir.path())
        .iter()
        .find(|path| **path != file)
        .unwrap()
        .parent()
        .unwrap()
        .to_owned();
    fs::remove_dir_all(&folder).unwrap();
    fs::write(&folder, "").unwrap();
    let error = store.save(saved.clone()).await.unwrap_err();
    assert_eq!(error.persistence_id(), Some(&saved.metadata.persistence_id));
    assert!(
        error
            .to_string()
            .contains("a file stands where a directory should be"),
        "{error}"
    );
    let id = &saved.metadata.persistence_id;
    let error = store.load(id, SelectionCriteria::ALL).await.unwrap_err();
    assert!(
        error
            .to_string()
            .contains("a file stands where a directory should be"),
        "{error}"
    );
}

#[tokio::test]
async fn an_empty_path_is_an_error_that_says_so() {
    let error = FileSnapshotStore::open("").await.unwrap_err();
    assert!(error.to_string().contains("choose another directory"), "{error}");
}

#[tokio::test]
async fn a_directory_that_is_gone_is_an_error_and_not_an_empty_store() {
    let dir = TempDir::new().unwrap();
    let store = FileSnapshotStore::open(dir.path().join("store")).await.unwrap();
    let saved = snapshot("a", 1, "state");
    store.save(saved.clone()).await.unwrap();
    fs::remove_dir_all(dir.path().join("store")).unwrap();
    let id = &saved.metadata.persistence_id;
    for error in [
        store.load(id, SelectionCriteria::ALL).await.unwrap_err(),
        store.list(id, SelectionCriteria::ALL).await.unwrap_err(),
        store.delete(&saved.metadata).await.unwrap_err(),
        store.save(saved.clone()).await.unwrap_err(),
    ] {
        assert!(error.to_string().contains("bring the directory back"), "{error}");
    }
}

#[tokio::test]
async fn errors_say_what_to_do() {
    for (kind, advice) in [
        (
            io::ErrorKind::PermissionDenied,
            "give this process read and write access",
        ),
        (io::ErrorKind::ReadOnlyFilesystem, "mount it writable"),
        (io::ErrorKind::StorageFull, "free some space"),
        (io::ErrorKind::Other, "state of the disk"),
    ] {
        let disk = SimulatedDisk::new();
        let (store, [first, ..]) = three(&disk).await;
        let id = &first.metadata.persistence_id;
        let fault = Fault {
            after: 0,
            kind,
            takes_effect: false,
            for_ever: true,
        };
        disk.fail(fault);
        for (operation, result) in [
            ("save", store.save(first.clone()).await),
            ("load", store.load(id, SelectionCriteria::ALL).await.map(drop)),
            ("list", store.list(id, SelectionCriteria::ALL).await.map(drop)),
            ("delete", store.delete(&first.metadata).await),
        ] {
            let error = result.unwrap_err();
            assert_eq!((error.operation(), error.persistence_id()), (operation, Some(id)));
            assert!(error.to_string().contains(advice), "{error}");
            let source =
                std::error::Error::source(&error).and_then(|source| source.downcast_ref::<io::Error>());
            assert_eq!(source.map(io::Error::kind), Some(kind));
        }
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_read_only_directory_is_an_error_that_says_so() {
    use std::os::unix::fs::PermissionsExt;

    let dir = TempDir::new().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o500)).unwrap();
    if fs::write(dir.path().join("probe"), "").is_ok() {
        println!("not applicable: this user may write everywhere");
        return;
    }
    let error = FileSnapshotStore::open(dir.path()).await.unwrap_err();
    assert!(
        error
            .to_string()
            .contains("give this process read and write access"),
        "{error}"
    );
}

#[tokio::test]
async fn a_file_that_cannot_be_read_is_skipped_by_a_load() {
    let disk = SimulatedDisk::new();
    let (store, [_, second, third]) = three(&disk).await;
    // A load lists the folder, reads the header of the newest, then the whole of it.
    for after in [1, 2] {
        disk.fail(Fault {
            after,
            kind: io::ErrorKind::Other,
            takes_effect: false,
            for_ever: false,
        });
        let loaded = load_all(&store, "a").await;
        assert_eq!(loaded.snapshot.as_ref(), Some(&second));
        assert!(loaded.skipped[0].location.ends_with(&file_of(3)));
        disk.heal();
        assert_eq!(load_all(&store, "a").await.snapshot.as_ref(), Some(&third));
    }
}

/// Loads while four tasks save newer and newer snapshots and delete the older ones.
async fn load_while_others_save_and_delete(store: FileSnapshotStore, rounds: u64) {
    let state = |number: u64| snapshot("a", number, number.to_string().repeat(5_000));
    store.save(state(0)).await.unwrap();
    let savers = (0..4).map(|saver| {
        let store = store.clone();
        #[expect(clippy::disallowed_methods, reason = "on the runtime of the test")]
        tokio::spawn(async move {
            for round in 0..rounds {
                let saved = state(round * 4 + saver);
                store.save(saved.clone()).await.unwrap();
                let id = &saved.metadata.persistence_id;
                store
                    .keep_newest(id, saved.metadata.incarnation, 1)
                    .await
                    .unwrap();
            }
        })
    });
    let savers: Vec<_> = savers.collect();
    let mut newest = 0;
    while !savers.iter().all(|saver| saver.is_finished()) {
        let Loaded { snapshot, skipped } = load_all(&store, "a").await;
        let found = snapshot.expect("there is always one");
        let number = found.metadata.sequence_nr.get();
        assert_eq!((found, skipped), (state(number), vec![]));
        assert!(number >= newest, "{number} after {newest}");
        newest = number;
    }
    for saver in savers {
        saver.await.unwrap();
    }
    assert_eq!(load_all(&store, "a").await.snapshot, Some(state(rounds * 4 - 1)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn calls_for_one_id_at_the_same_time_never_show_half_a_snapshot_or_none() {
    let dir = TempDir::new().unwrap();
    load_while_others_save_and_delete(FileSnapshotStore::open(dir.path()).await.unwrap(), 10).await;
    // Without the waits for a disk, the calls meet much more often.
    load_while_others_save_and_delete(FileSnapshotStore::simulated(&SimulatedDisk::new(), false), 300).await;
}

#[tokio::test]
async fn a_dropped_save_happens_whole_or_not_at_all() {
    let dir = TempDir::new().unwrap();
    let store = FileSnapshotStore::open(dir.path()).await.unwrap();
    let former = snapshot("a", 1, "former");
    store.save(former.clone()).await.unwrap();
    for round in 0_u8..50 {
        let new = snapshot("a", 1, vec![round; 10_000]);
        let mut saving = store.save(new);
        let started = saving.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(started.is_pending());
        drop(saving);
        let Loaded { snapshot, skipped } = load_all(&store, "a").await;
        assert_eq!(skipped, []);
        let payload = snapshot.unwrap().payload;
        let whole = payload.len() == 10_000 && payload.iter().all(|byte| *byte == payload[0]);
        assert!(whole || payload == former.payload);
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_in_a_file_never_panic_and_never_hide_an_older_snapshot(
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
        keep in 0_usize..100,
    ) {
        block_on(async {
            let disk = SimulatedDisk::new();
            let (store, [_, second, third]) = three(&disk).await;
            let changed = AtomicUsize::new(0);
            disk.tamper(&file_of(3), |file| {
                let before = file.clone();
                file.truncate(keep);
                file.extend(&bytes);
                changed.store(usize::from(*file != before), Ordering::Relaxed);
            });
            let expected = if changed.into_inner() == 1 { second } else { third };
            let loaded = load_all(&store, "a").await;
            assert_eq!(loaded.snapshot.as_ref(), Some(&expected));
            let id = &expected.metadata.persistence_id;
            let newest = store.list(id, exactly(&expected.metadata)).await.unwrap();
            assert_eq!(newest, [expected.metadata]);
        });
    }
}
