//! Directories that are no good, in use, or of another version: each gets an error that says what to do, and loses
//! nothing.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a panic is how a test fails, and a test that cannot run says why"
)]

mod common;

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use common::{at, collect, id, numbers, writes};
use futures_executor::block_on;
use journal_core::{ErrorKind, Journal, JournalError, Operation, Outcome, ReplayRange, WriterId};
use journal_embedded::{EmbeddedBuilder, EmbeddedJournal};

/// Opens, appends an event and closes.
fn use_once(path: &Path) -> Result<(), JournalError> {
    block_on(async {
        let journal = EmbeddedJournal::open(path).await?;
        let mut claim = journal.claim(&id("a"), WriterId::random()).await?;
        let highest = claim.highest();
        journal.append(&mut claim, highest, writes(&[1])).await?;
        Ok(())
    })
}

fn stored(path: &Path) -> Vec<u64> {
    block_on(async {
        let journal = EmbeddedJournal::open(path).await.unwrap();
        numbers(&collect(journal.replay(&id("a"), ReplayRange::ALL)).await.unwrap())
    })
}

fn refused(path: &Path, kind: ErrorKind, advice: &str) {
    let error = block_on(EmbeddedJournal::open(path)).unwrap_err();
    assert_eq!(error.kind(), kind, "{error:?}");
    assert_eq!(error.operation(), Operation::Open);
    assert_eq!(error.outcome(), Outcome::NotStored);
    let text = error.to_string();
    assert!(text.contains(advice), "{text}");
    assert!(text.contains(&path.display().to_string()), "{text}");
}

/// All files below a directory with their contents.
fn contents(path: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(path).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(contents(&path));
        } else {
            all.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    all
}

#[test]
fn a_missing_directory_is_created_with_its_parents() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("some/where/below");
    use_once(&path).unwrap();
    assert_eq!(stored(&path), [1]);
}

#[test]
fn a_file_is_no_directory() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "mine").unwrap();
    refused(&file, ErrorKind::Config, "name a directory");
    let below = file.join("below");
    refused(&below, ErrorKind::Config, "name a directory");
    assert_eq!(fs::read(&file).unwrap(), b"mine");
}

#[test]
fn a_directory_with_other_files_is_refused_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("thesis.tex"), "mine").unwrap();
    let before = contents(folder.path());
    refused(
        folder.path(),
        ErrorKind::Config,
        "use an empty or a new directory",
    );
    assert_eq!(contents(folder.path()), before);
}

#[test]
fn a_directory_of_a_newer_format_is_refused_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    use_once(folder.path()).unwrap();
    fs::write(folder.path().join("FORMAT"), "actor-journal-embedded 2\n").unwrap();
    let before = contents(folder.path());
    refused(folder.path(), ErrorKind::Config, "format 2");
    assert_eq!(contents(folder.path()), before);
    fs::write(folder.path().join("FORMAT"), "actor-journal-embedded 1\n").unwrap();
    assert_eq!(stored(folder.path()), [1]);
}

#[test]
fn a_format_file_that_names_no_format_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    use_once(folder.path()).unwrap();
    for text in [
        &b""[..],
        b"actor-journal-embedded",
        b"actor-journal-embedded x",
        b"\xff\0",
    ] {
        fs::write(folder.path().join("FORMAT"), text).unwrap();
        refused(folder.path(), ErrorKind::Config, "restore the file from a backup");
    }
}

#[test]
fn a_lost_format_file_is_not_taken_for_an_empty_directory() {
    let folder = tempfile::tempdir().unwrap();
    use_once(folder.path()).unwrap();
    fs::remove_file(folder.path().join("FORMAT")).unwrap();
    refused(folder.path(), ErrorKind::Config, "FORMAT is missing");
    fs::write(folder.path().join("FORMAT"), "actor-journal-embedded 1\n").unwrap();
    assert_eq!(stored(folder.path()), [1]);
}

#[test]
fn a_lost_store_is_not_replaced_by_an_empty_one() {
    let folder = tempfile::tempdir().unwrap();
    use_once(folder.path()).unwrap();
    fs::rename(folder.path().join("store"), folder.path().join("away")).unwrap();
    refused(folder.path(), ErrorKind::Corrupt, "restore it from a backup");
    fs::rename(folder.path().join("away"), folder.path().join("store")).unwrap();
    assert_eq!(stored(folder.path()), [1]);
}

#[test]
fn a_creation_that_was_interrupted_anywhere_is_started_again() {
    let folder = tempfile::tempdir().unwrap();
    let complete = folder.path().join("complete");
    use_once(&complete).unwrap();
    let half = |name: &str, files: &[&str]| {
        let path = folder.path().join(name);
        fs::create_dir_all(&path).unwrap();
        for file in files {
            match file.strip_suffix('/') {
                Some(directory) => fs::create_dir_all(path.join(directory)).unwrap(),
                None => fs::write(path.join(file), b"").unwrap(),
            }
        }
        path
    };
    for path in [
        half("locked", &["LOCK"]),
        half("begun", &["LOCK", "CREATING"]),
        half("half a store", &["LOCK", "CREATING", "store/", "store/0.jnl"]),
        half("half a format", &["LOCK", "CREATING", "store/", "FORMAT.new"]),
    ] {
        use_once(&path).unwrap();
        assert_eq!(stored(&path), [1], "{}", path.display());
        assert!(!path.join("CREATING").exists());
    }
    // Complete but for the last step.
    fs::write(complete.join("CREATING"), b"").unwrap();
    assert_eq!(stored(&complete), [1]);
    assert!(!complete.join("CREATING").exists());
}

#[test]
fn damaged_files_are_an_error_and_no_panic_of_the_caller() {
    let folder = tempfile::tempdir().unwrap();
    use_once(folder.path()).unwrap();
    let store = folder.path().join("store");
    fs::create_dir(store.join("keyspaces/garbage")).unwrap();
    refused(folder.path(), ErrorKind::Corrupt, "restore it from a backup");
    fs::remove_dir(store.join("keyspaces/garbage")).unwrap();
    assert_eq!(stored(folder.path()), [1]);

    let version = fs::read(store.join("version")).unwrap();
    fs::write(store.join("version"), b"FJL\x09").unwrap();
    refused(folder.path(), ErrorKind::Config, "use the build that wrote it");
    fs::write(store.join("version"), version).unwrap();
    assert_eq!(stored(folder.path()), [1]);
}

#[test]
fn a_second_opener_in_this_process_is_told_who_has_it() {
    let folder = tempfile::tempdir().unwrap();
    block_on(async {
        let journal = EmbeddedJournal::open(folder.path()).await.unwrap();
        let error = EmbeddedJournal::open(folder.path()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().contains("in use"), "{error}");
        // The first one goes on.
        let mut claim = journal.claim(&id("a"), WriterId::random()).await.unwrap();
        journal.append(&mut claim, at(0), writes(&[1])).await.unwrap();
    });
}

/// Not a test of its own: the other process of the one below.
#[test]
fn the_other_process() {
    let Some(path) = std::env::var_os("JOURNAL_TEST_HOLD") else {
        return;
    };
    let journal = block_on(EmbeddedJournal::open(Path::new(&path))).unwrap();
    eprintln!("opened");
    std::io::stdin().read_line(&mut String::new()).unwrap();
    drop(journal);
}

#[test]
fn a_second_process_is_refused_until_the_first_one_ends_however_it_does() {
    let folder = tempfile::tempdir().unwrap();
    use_once(folder.path()).unwrap();
    for kill in [false, true] {
        let mut other = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "the_other_process", "--nocapture"])
            .env("JOURNAL_TEST_HOLD", folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(other.stderr.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap() == "opened"));
        refused(folder.path(), ErrorKind::Config, "close it first");
        if kill {
            other.kill().unwrap();
        } else {
            other.stdin.take().unwrap().write_all(b"\n").unwrap();
        }
        other.wait().unwrap();
        assert_eq!(stored(folder.path()), [1]);
    }
}

#[test]
fn limits_that_do_not_fit_are_refused_before_anything_is_created() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new");
    let wrong: [fn(EmbeddedBuilder) -> EmbeddedBuilder; 3] = [
        |builder| builder.largest_event(0),
        |builder| builder.largest_append(2 << 30),
        |builder| builder.largest_event(2_000).largest_append(1_000),
    ];
    for set in wrong {
        let error = block_on(set(EmbeddedJournal::builder(&path)).open()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    }
    assert!(!path.exists());
}

/// A file system of its own below a directory; unmounted when dropped. `None`, with the reason printed, where this user
/// may not mount.
struct Mounted(PathBuf);

impl Mounted {
    fn tmpfs(path: &Path, options: &str) -> Option<Self> {
        fs::create_dir_all(path).unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", options, "tmpfs"])
            .arg(path)
            .output();
        match mounted {
            Ok(output) if output.status.success() => Some(Self(path.to_owned())),
            Ok(output) => {
                eprintln!(
                    "not run: mount says {}",
                    String::from_utf8_lossy(&output.stderr).trim()
                );
                None
            }
            Err(error) => {
                eprintln!("not run: mount cannot be started: {error}");
                None
            }
        }
    }

    fn remount(&self, options: &str) {
        let status = Command::new("mount")
            .args(["-o", &format!("remount,{options}")])
            .arg(&self.0)
            .status();
        assert!(status.unwrap().success());
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        Command::new("umount").arg(&self.0).status().ok();
    }
}

#[test]
fn a_read_only_file_system_is_refused_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let Some(mounted) = Mounted::tmpfs(&folder.path().join("mounted"), "size=256m") else {
        return;
    };
    let path = mounted.0.join("journal");
    use_once(&path).unwrap();
    mounted.remount("ro");
    refused(&path, ErrorKind::Config, "writable file system");
    let error = block_on(EmbeddedJournal::open(mounted.0.join("new"))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("writable file system"), "{error}");
    mounted.remount("rw");
    assert_eq!(stored(&path), [1]);
}

#[test]
fn a_full_disk_fails_what_waits_as_unknown_and_refuses_the_rest_until_reopened_while_reads_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let Some(mounted) = Mounted::tmpfs(&folder.path().join("mounted"), "size=24m") else {
        return;
    };
    let path = mounted.0.join("journal");
    block_on(async {
        let journal = EmbeddedJournal::open(&path).await.unwrap();
        let a = id("a");
        let mut claim = journal.claim(&a, WriterId::random()).await.unwrap();
        let mut acknowledged = 0;
        let failed = loop {
            let write = common::event(vec![b'x'; 100 << 10]).into();
            match journal.append(&mut claim, at(acknowledged), [write].into()).await {
                Ok(appended) => acknowledged = appended.last.get(),
                Err(error) => break error,
            }
        };
        assert_eq!(
            (failed.kind(), failed.outcome()),
            (ErrorKind::Poisoned, Outcome::Unknown),
            "{failed}"
        );
        assert!(claim.is_spent());
        assert!(acknowledged > 50, "{acknowledged} appends filled 24 MiB");

        let refused = journal.claim(&a, WriterId::random()).await.unwrap_err();
        assert_eq!(
            (refused.kind(), refused.outcome()),
            (ErrorKind::Poisoned, Outcome::NotStored),
            "{refused}"
        );
        assert!(refused.to_string().contains("reopen"), "{refused}");
        // Reads go on, and show everything acknowledged.
        let read = numbers(&collect(journal.replay(&a, ReplayRange::ALL)).await.unwrap());
        assert!(read.len() as u64 >= acknowledged);
        drop(journal);

        mounted.remount("size=256m");
        let journal = EmbeddedJournal::open(&path).await.unwrap();
        let mut claim = journal.claim(&a, WriterId::random()).await.unwrap();
        let highest = claim.highest();
        // The one of unknown outcome is stored or not.
        assert!((acknowledged..=acknowledged + 1).contains(&highest.get()));
        journal.append(&mut claim, highest, writes(&[1])).await.unwrap();
        let read = numbers(&collect(journal.replay(&a, ReplayRange::ALL)).await.unwrap());
        assert_eq!(read, (1..=highest.get() + 1).collect::<Vec<_>>());
    });
}
