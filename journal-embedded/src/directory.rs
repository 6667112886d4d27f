//! The directory of a journal: who may use it, and of which format it is.
//!
//! ```text
//! LOCK      held by the process that has the journal open
//! FORMAT    "actor-journal-embedded 1"; written when creation is complete
//! CREATING  there from before the store is created until FORMAT is written
//! store/    the storage engine's files
//! ```

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Write},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use journal_core::{ErrorKind, JournalError, Operation};

const LOCK: &str = "LOCK";
const FORMAT: &str = "FORMAT";
const FORMAT_NEW: &str = "FORMAT.new";
const CREATING: &str = "CREATING";
const STORE: &str = "store";

const FORMAT_NAME: &str = "actor-journal-embedded";
const FORMAT_VERSION: u32 = 1;

/// A directory that is locked by this value.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    // The kernel drops the lock with the file, also when the process is killed.
    _lock: File,
}

impl Directory {
    /// Locks the directory; creates it, with its missing parents, where it does not exist. It may have no store yet:
    /// open that, then call [`complete`](Directory::complete).
    pub(crate) fn open(path: &Path) -> Result<Self, JournalError> {
        create_dir(path).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => config(format!(
                "{} is not a directory; name a directory for the journal",
                path.display()
            ))
            .with_source(error),
            _ => unusable(path, error),
        })?;
        // Before the lock file is created: in a directory of something else nothing is changed.
        if !has_format(path)? {
            refuse_foreign(path)?;
        }
        let directory = Self {
            path: path.to_owned(),
            _lock: lock(path)?,
        };
        let exists = |name| {
            path.join(name)
                .try_exists()
                .map_err(|error| unusable(path, error))
        };
        // Read again: another process may have created everything before this one got the lock.
        match (has_format(path)?, exists(STORE)?, exists(CREATING)?) {
            (true, true, _) => {}
            (true, false, _) => {
                let message = format!(
                    "{} is missing; restore it from a backup",
                    directory.store().display()
                );
                return Err(JournalError::not_stored(
                    ErrorKind::Corrupt,
                    Operation::Open,
                    message,
                ));
            }
            (false, true, false) => {
                return Err(config(format!(
                    "{} is missing beside the journal's files; restore it from a backup. Nothing was changed",
                    path.join(FORMAT).display()
                )));
            }
            (false, ..) => directory.begin().map_err(|error| unusable(path, error))?,
        }
        Ok(directory)
    }

    /// Makes room for a new store. What an interrupted creation has left never held an event.
    fn begin(&self) -> io::Result<()> {
        File::create(self.path.join(CREATING))?;
        flush_dir(&self.path)?;
        match fs::remove_dir_all(self.store()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Declares the store complete, which it must be; a no-op for one that was.
    pub(crate) fn complete(&self) -> Result<(), JournalError> {
        let complete = || -> io::Result<()> {
            if !self.path.join(CREATING).try_exists()? {
                return Ok(());
            }
            flush_tree(&self.store())?;
            write_format(&self.path)?;
            fs::remove_file(self.path.join(CREATING))?;
            flush_dir(&self.path)
        };
        complete().map_err(|error| unusable(&self.path, error))
    }

    /// Where the storage engine's files are.
    pub(crate) fn store(&self) -> PathBuf {
        self.path.join(STORE)
    }
}

fn config(message: String) -> JournalError {
    JournalError::not_stored(ErrorKind::Config, Operation::Open, message)
}

fn unusable(path: &Path, error: io::Error) -> JournalError {
    config(format!(
        "{} cannot be used: {error}; it must be on a writable file system, and this user must be allowed to write there",
        path.display()
    ))
    .with_source(error)
}

/// Creates the directory and its missing parents; their entries are on the disk when it returns.
fn create_dir(path: &Path) -> io::Result<()> {
    let missing: Vec<&Path> = path
        .ancestors()
        .take_while(|path| !path.as_os_str().is_empty() && !path.exists())
        .collect();
    fs::create_dir_all(path)?;
    for created in missing {
        let parent = created.parent().filter(|parent| !parent.as_os_str().is_empty());
        flush_dir(parent.unwrap_or(Path::new(".")))?;
    }
    Ok(())
}

fn flush_dir(path: &Path) -> io::Result<()> {
    // Elsewhere a directory cannot be opened; there the file system orders its own entries.
    if cfg!(unix) {
        File::open(path)?.sync_all()?;
    }
    Ok(())
}

/// A killed process keeps its lock until its last flush returns, and a journal until its threads have ended: who
/// restarts at once waits that long.
const LOCK_PATIENCE: Duration = Duration::from_secs(1);
const LOCK_POLL: Duration = Duration::from_millis(10);

fn lock(path: &Path) -> Result<File, JournalError> {
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path.join(LOCK))
        .map_err(|error| unusable(path, error))?;
    let deadline = Instant::now() + LOCK_PATIENCE;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => thread::sleep(LOCK_POLL),
            Err(TryLockError::WouldBlock) => {
                return Err(config(format!(
                    "{} is in use by another journal, in this process or another; a directory belongs to one at a \
                     time: share the journal that is open (it can be cloned), close it first, or use another directory",
                    path.display()
                )));
            }
            Err(TryLockError::Error(error)) => return Err(unusable(path, error)),
        }
    }
}

/// Whether the directory is of this format; false if no format is declared yet.
fn has_format(path: &Path) -> Result<bool, JournalError> {
    let text = match fs::read(path.join(FORMAT)) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(unusable(path, error)),
    };
    let version = str::from_utf8(&text)
        .ok()
        .and_then(|text| text.trim_end().strip_prefix(FORMAT_NAME))
        .and_then(|version| version.trim_start().parse::<u32>().ok());
    match version {
        Some(FORMAT_VERSION) => Ok(true),
        Some(version) => Err(config(format!(
            "{} holds a journal of format {version}, this build reads format {FORMAT_VERSION}; use the version of \
             actor-journal that wrote it, or a newer one. Nothing was changed",
            path.display()
        ))),
        None => Err(config(format!(
            "{} names no format of an embedded journal; if this directory holds one, restore the file from a backup, \
             otherwise use another directory. Nothing was changed",
            path.join(FORMAT).display()
        ))),
    }
}

/// A directory that declares no format may hold nothing that is not ours.
fn refuse_foreign(path: &Path) -> Result<(), JournalError> {
    for entry in fs::read_dir(path).map_err(|error| unusable(path, error))? {
        let name = entry.map_err(|error| unusable(path, error))?.file_name();
        let ours = [LOCK, FORMAT, FORMAT_NEW, CREATING, STORE];
        if !ours.iter().any(|ours| name == *ours) {
            return Err(config(format!(
                "{} holds no journal but other files, {name:?} among them; use an empty or a new directory. Nothing was \
                 changed",
                path.display()
            )));
        }
    }
    Ok(())
}

/// Flushes the entries of a directory and of all below it.
fn flush_tree(path: &Path) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            flush_tree(&entry.path())?;
        }
    }
    flush_dir(path)
}

fn write_format(path: &Path) -> io::Result<()> {
    let new = path.join(FORMAT_NEW);
    let mut file = File::create(&new)?;
    writeln!(file, "{FORMAT_NAME} {FORMAT_VERSION}")?;
    file.sync_all()?;
    fs::rename(&new, path.join(FORMAT))?;
    flush_dir(path)
}
