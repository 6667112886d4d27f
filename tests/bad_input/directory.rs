//! Directories that cannot be used, by `actor_journal::embedded` and by the files of snapshots. What the embedded journal
//! alone makes of more of them stands in its own tests.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use actor_journal::{ErrorKind, FileSnapshotStore, JournalError, ractor::SpawnPersistent};

use crate::{
    child, close, is,
    notebook::{note, notebook, read, recover, write},
};

async fn refused(directory: &Path) -> JournalError {
    actor_journal::embedded(directory).await.unwrap_err()
}

async fn still_there(directory: &Path) {
    let persistence = actor_journal::embedded(directory).await.unwrap();
    assert_eq!(recover(notebook("a"), &persistence).await.unwrap(), ["kept"]);
    close(persistence).await;
}

/// A directory with one event.
async fn written() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let persistence = actor_journal::embedded(directory.path()).await.unwrap();
    write(notebook("a"), &persistence, &["kept"]).await;
    close(persistence).await;
    directory
}

#[tokio::test]
async fn a_directory_of_a_newer_version_is_refused_and_left_as_it_is() {
    let directory = written().await;
    let format = directory.path().join("FORMAT");
    let ours = fs::read_to_string(&format).unwrap();
    let newer = ours.replace(" 1", " 2");
    assert_ne!(ours, newer);
    fs::write(&format, &newer).unwrap();
    is(
        &refused(directory.path()).await,
        ErrorKind::Config,
        "use the version",
    );
    assert_eq!(fs::read_to_string(&format).unwrap(), newer);
    fs::write(&format, ours).unwrap();
    still_there(directory.path()).await;
}

#[tokio::test]
async fn a_missing_directory_is_created_with_its_parents() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("not/there/yet");
    let persistence = actor_journal::embedded(&missing).await.unwrap();
    write(notebook("a"), &persistence, &["kept"]).await;
    close(persistence).await;
    still_there(&missing).await;
}

#[tokio::test]
async fn a_directory_that_cannot_be_created_is_refused_with_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "mine").unwrap();
    is(&refused(&file).await, ErrorKind::Config, "name a directory");
    is(
        &refused(&file.join("below")).await,
        ErrorKind::Config,
        "name a directory",
    );
    for path in [file.clone(), file.join("below")] {
        let error = FileSnapshotStore::open(path).await.unwrap_err();
        assert_eq!(error.operation(), "open");
        assert!(error.to_string().contains("file"), "{error}");
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
    // Nobody can create anything here, not even root.
    if cfg!(target_os = "linux") {
        is(
            &refused(Path::new("/proc/actor-journal")).await,
            ErrorKind::Config,
            "must be on a writable file system",
        );
    }
}

#[tokio::test]
async fn a_read_only_directory_is_refused_with_what_to_do_and_loses_nothing() {
    let directory = written().await;
    let Some(read_only) = ReadOnly::make(directory.path()) else {
        return;
    };
    is(
        &refused(directory.path()).await,
        ErrorKind::Config,
        "must be on a writable file system",
    );
    let error = FileSnapshotStore::open(directory.path().join("snapshots"))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("snapshots"), "{error}");
    drop(read_only);
    still_there(directory.path()).await;
}

/// A directory mounted over itself without the right to write, which binds root too.
struct ReadOnly(PathBuf);

impl ReadOnly {
    /// `None`, with the reason printed, where this user may not mount.
    fn make(directory: &Path) -> Option<Self> {
        let mount = |options: &str| {
            let mounted = Command::new("mount")
                .args(["-o", options])
                .args([directory, directory])
                .output();
            match mounted {
                Ok(output) if output.status.success() => true,
                Ok(output) => {
                    let text = String::from_utf8_lossy(&output.stderr);
                    eprintln!("not applicable: mount says {}", text.trim());
                    false
                }
                Err(error) => {
                    eprintln!("not applicable: mount cannot be started: {error}");
                    false
                }
            }
        };
        if !mount("bind") {
            return None;
        }
        let bound = Self(directory.to_owned());
        mount("remount,bind,ro").then_some(bound)
    }
}

impl Drop for ReadOnly {
    fn drop(&mut self) {
        Command::new("umount").arg(&self.0).status().ok();
    }
}

const REFUSED: &str = "refused:";

#[tokio::test]
async fn a_second_process_is_refused_and_the_first_goes_on() {
    let name = "directory::a_second_process_is_refused_and_the_first_goes_on";
    if let Some(directory) = child::role() {
        let error = refused(Path::new(&directory)).await;
        // The test harness has begun this line.
        println!("\n{REFUSED} {:?} {error}", error.kind());
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let persistence = actor_journal::embedded(directory.path()).await.unwrap();
    let actor = notebook("a").spawn(&persistence).await.unwrap();
    note(&actor, &["before"]).await.unwrap();

    let output = child::command(name, directory.path()).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{printed}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let error = printed
        .lines()
        .find_map(|line| line.strip_prefix(REFUSED))
        .unwrap();
    assert!(
        error.trim().starts_with("Config") && error.contains("close it first"),
        "{error}"
    );

    note(&actor, &["after"]).await.unwrap();
    assert_eq!(read(&actor).await, ["before", "after"]);
    actor.stop().await;
    close(persistence).await;
    let persistence = actor_journal::embedded(directory.path()).await.unwrap();
    assert_eq!(
        recover(notebook("a"), &persistence).await.unwrap(),
        ["before", "after"]
    );
}
