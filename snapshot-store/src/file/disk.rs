//! The file system as the store uses it. Behind a trait, so that tests can make each call fail and take the power away.

use std::{
    ffi::OsString,
    fmt::Debug,
    fs,
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use journal_core::SnapshotError;

pub(super) trait Disk: Send + Sync + Debug + 'static {
    /// Creates one directory.
    fn create_dir(&self, dir: &Path) -> io::Result<()>;
    /// What is in a directory.
    fn names(&self, dir: &Path) -> io::Result<Vec<OsString>>;
    /// Makes the entries of a directory survive a power loss.
    fn flush_dir(&self, dir: &Path) -> io::Result<()>;
    /// Creates a file that does not exist yet.
    fn create(&self, file: &Path) -> io::Result<Box<dyn NewFile>>;
    /// The first bytes of a file, at most `limit`, and the length of the whole.
    fn read(&self, file: &Path, limit: u64) -> io::Result<(Vec<u8>, u64)>;
    /// Moves a file, replacing the one at `to`.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, file: &Path) -> io::Result<()>;
}

/// A file that is being written.
pub(super) trait NewFile {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Makes the file's bytes survive a power loss.
    fn flush(&mut self) -> io::Result<()>;
}

#[derive(Debug)]
pub(super) struct OsDisk;

impl Disk for OsDisk {
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        fs::create_dir(dir)
    }

    fn names(&self, dir: &Path) -> io::Result<Vec<OsString>> {
        fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name())).collect()
    }

    fn flush_dir(&self, dir: &Path) -> io::Result<()> {
        // Elsewhere a directory cannot be opened, and a rename is durable by itself.
        if cfg!(unix) {
            fs::File::open(dir)?.sync_all()?;
        }
        Ok(())
    }

    fn create(&self, file: &Path) -> io::Result<Box<dyn NewFile>> {
        Ok(Box::new(fs::File::create_new(file)?))
    }

    fn read(&self, file: &Path, limit: u64) -> io::Result<(Vec<u8>, u64)> {
        let file = fs::File::open(file)?;
        let length = file.metadata()?.len();
        let mut bytes = Vec::new();
        // `Take` grows the buffer by what it has read, whatever length the file claims.
        file.take(limit).read_to_end(&mut bytes)?;
        Ok((bytes, length))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, file: &Path) -> io::Result<()> {
        fs::remove_file(file)
    }
}

impl NewFile for fs::File {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        Write::write_all(self, bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sync_all()
    }
}

/// A call that failed, and where.
#[derive(Debug, thiserror::Error)]
#[error("{path:?}: {}", advice(.source.kind()))]
pub(super) struct DiskError {
    path: PathBuf,
    source: io::Error,
}

impl DiskError {
    pub(super) fn during(self, operation: &'static str) -> SnapshotError {
        SnapshotError::new(operation, self.to_string()).with_source(self.source)
    }
}

pub(super) trait At<T> {
    /// Adds the path to an error.
    fn at(self, path: &Path) -> Result<T, DiskError>;
}

impl<T> At<T> for io::Result<T> {
    fn at(self, path: &Path) -> Result<T, DiskError> {
        self.map_err(|source| DiskError {
            path: path.to_owned(),
            source,
        })
    }
}

fn advice(kind: io::ErrorKind) -> &'static str {
    use io::ErrorKind as Kind;
    match kind {
        Kind::PermissionDenied => {
            "access is denied; give this process read and write access to the directory"
        }
        Kind::ReadOnlyFilesystem => {
            "the file system is read-only; mount it writable or choose another directory"
        }
        Kind::StorageFull | Kind::QuotaExceeded => {
            "the disk is full; free some space, snapshots saved before stay readable"
        }
        Kind::NotADirectory | Kind::AlreadyExists => {
            "a file stands where a directory should be; move it away or choose another directory"
        }
        Kind::IsADirectory => "a directory stands where a file should be; move it away",
        Kind::NotFound => {
            "it is gone; bring the directory back, or open the store again to start without snapshots"
        }
        Kind::InvalidInput => "this is no usable path; choose another directory",
        _ => {
            "the disk does not do its work; see the cause below, the system's log, and the state of the disk"
        }
    }
}
