//! Snapshots as files.

use std::{
    cmp::Reverse,
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicU64, Ordering},
    },
};

use async_trait::async_trait;
use journal_core::PersistenceId;

use crate::{
    Loaded, SelectionCriteria, SkippedSnapshot, Snapshot, SnapshotError, SnapshotMetadata, SnapshotStore,
    exactly, newest_first,
};

use self::{
    disk::{At, Disk, DiskError, NewFile, OsDisk},
    format::{Header, MAX_HEADER},
    name::{Name, fnv1a},
};

mod disk;
mod format;
mod name;
#[cfg(test)]
mod power_loss;
#[cfg(test)]
pub(crate) mod simulated;
#[cfg(test)]
mod tests;

/// Folders over which the ids are spread: the last three digits of their hash, which FNV mixes best. Listing one is most of the cost of a
/// load, so each holds few files even with a hundred thousand ids.
const SHARDS: usize = 4_096;
const TEMPORARIES: &str = "tmp";

/// A [`SnapshotStore`] of one file per snapshot, which survives a power loss. Clones share the directory.
///
/// - `Ok` of a save or a deletion is durable: file, folder and created parent folders are flushed.
/// - A failed or interrupted save leaves the former snapshot of the same number, or the new one, never anything else.
/// - A file that is damaged, misplaced or of a newer format is skipped by `load` in favour of an older one and
///   reported, replaced by a save of its number, and removed by deletions that select its number without bounds on the
///   timestamp, which a damaged file no longer tells.
/// - Dropping the future of a call does not stop a call that has begun.
///
/// One process at a time may use a directory, through one store and its clones: calls are ordered by locks in memory.
/// Saved files are readable and writable as the process's umask says.
///
#[doc = include_str!("../docs.md")]
#[derive(Debug, Clone)]
pub struct FileSnapshotStore {
    directory: Arc<Directory>,
}

impl FileSnapshotStore {
    /// Opens the store in `dir`, which is created with its parents if missing. Removes the unfinished files of a
    /// process that died.
    ///
    /// # Errors
    /// If the directory cannot be created, read, or, where something is to be created or removed, written.
    pub async fn open(dir: impl Into<PathBuf>) -> Result<Self, SnapshotError> {
        let dir = dir.into();
        blocking::unblock(move || Self::open_on(Box::new(OsDisk), dir, fnv1a)).await
    }

    fn open_on(disk: Box<dyn Disk>, dir: PathBuf, hash: fn(&[u8]) -> u64) -> Result<Self, SnapshotError> {
        let directory = Directory::open(disk, dir, hash).map_err(|error| error.during("open"))?;
        Ok(Self {
            directory: Arc::new(directory),
        })
    }

    #[cfg(test)]
    pub(crate) fn simulated(disk: &simulated::SimulatedDisk, same_hash: bool) -> Self {
        Self::open_on(
            Box::new(disk.clone()),
            "/data/snapshots".into(),
            if same_hash { |_| 7 } else { fnv1a },
        )
        .expect("the simulated disk works")
    }

    async fn run<T: Send + 'static>(
        &self,
        operation: &'static str,
        id: &PersistenceId,
        work: impl FnOnce(&Directory, &PersistenceId) -> Result<T, DiskError> + Send + 'static,
    ) -> Result<T, SnapshotError> {
        let directory = Arc::clone(&self.directory);
        let id = id.clone();
        blocking::unblock(move || work(&directory, &id).map_err(|error| error.during(operation).with_id(&id)))
            .await
    }
}

#[async_trait]
impl SnapshotStore for FileSnapshotStore {
    async fn save(&self, snapshot: Snapshot) -> Result<(), SnapshotError> {
        let id = snapshot.metadata.persistence_id.clone();
        self.run("save", &id, move |directory, _| directory.save(&snapshot))
            .await
    }

    async fn load(&self, id: &PersistenceId, criteria: SelectionCriteria) -> Result<Loaded, SnapshotError> {
        self.run("load", id, move |directory, id| directory.load(id, criteria))
            .await
    }

    async fn list(
        &self,
        id: &PersistenceId,
        criteria: SelectionCriteria,
    ) -> Result<Vec<SnapshotMetadata>, SnapshotError> {
        self.run("list", id, move |directory, id| directory.list(id, criteria))
            .await
    }

    async fn delete(&self, snapshot: &SnapshotMetadata) -> Result<(), SnapshotError> {
        self.delete_matching(&snapshot.persistence_id, exactly(snapshot))
            .await
    }

    async fn delete_matching(
        &self,
        id: &PersistenceId,
        criteria: SelectionCriteria,
    ) -> Result<(), SnapshotError> {
        self.run("delete", id, move |directory, id| directory.delete(id, criteria))
            .await
    }
}

/// The blocking side of the store.
#[derive(Debug)]
struct Directory {
    disk: Box<dyn Disk>,
    root: PathBuf,
    hash: fn(&[u8]) -> u64,
    shards: Box<[RwLock<Shard>]>,
    temporaries: AtomicU64,
}

/// A folder of snapshots. Locked shared while it is read: otherwise a load that has listed the old snapshot would find
/// it deleted and miss the new one that took its place.
#[derive(Debug, Default)]
struct Shard {
    /// The folder exists, and its entry in the root is flushed.
    durable: bool,
}

/// What a file turns out to hold when it is read on behalf of an id.
enum Content {
    Usable(Header),
    /// It can be used by nobody; this is why.
    Damaged(String),
    /// It belongs to another id of the same hash, or has vanished.
    NotOurs,
}

impl Directory {
    fn open(disk: Box<dyn Disk>, dir: PathBuf, hash: fn(&[u8]) -> u64) -> Result<Self, DiskError> {
        let root = std::path::absolute(&dir).at(&dir)?;
        let temporaries = root.join(TEMPORARIES);
        // This folder comes last, so where it exists, the root and its parents are already flushed.
        match disk.names(&temporaries) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                create_durable_dir(&*disk, &root)?;
                create_dir(&*disk, &temporaries)?;
            }
            names => {
                for name in names.at(&temporaries)? {
                    let leftover = temporaries.join(name);
                    disk.remove(&leftover).at(&leftover)?;
                }
            }
        }
        Ok(Self {
            disk,
            root,
            hash,
            shards: (0..SHARDS).map(|_| RwLock::default()).collect(),
            temporaries: AtomicU64::new(0),
        })
    }

    fn save(&self, snapshot: &Snapshot) -> Result<(), DiskError> {
        let (temporary, mut file) = self.create_temporary()?;
        let written = file
            .write_all(&format::encode_header(snapshot))
            .and_then(|()| file.write_all(&snapshot.payload))
            .and_then(|()| file.flush());
        drop(file);
        let saved = written
            .at(&temporary)
            .and_then(|()| self.install(&temporary, &snapshot.metadata));
        if saved.is_err() {
            // If this fails too, the next open removes it.
            let _ = self.disk.remove(&temporary);
        }
        saved
    }

    fn create_temporary(&self) -> Result<(PathBuf, Box<dyn NewFile>), DiskError> {
        loop {
            let number = self.temporaries.fetch_add(1, Ordering::Relaxed);
            let path = self.root.join(TEMPORARIES).join(number.to_string());
            match self.disk.create(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                created => return created.at(&path).map(|file| (path, file)),
            }
        }
    }

    /// Gives a flushed file its name.
    fn install(&self, temporary: &Path, metadata: &SnapshotMetadata) -> Result<(), DiskError> {
        let id = &metadata.persistence_id;
        let folder = self.folder(id);
        let mut shard = self.write(id);
        if !shard.durable {
            create_dir(&*self.disk, &folder)?;
            self.disk.flush_dir(&self.root).at(&self.root)?;
            shard.durable = true;
        }
        let file = folder.join(self.place(metadata)?.to_string());
        self.disk.rename(temporary, &file).at(&file)?;
        self.disk.flush_dir(&folder).at(&folder)
    }

    /// The name under which a snapshot is saved: that of the one it replaces, else of a damaged one, else a free one.
    fn place(&self, metadata: &SnapshotMetadata) -> Result<Name, DiskError> {
        let id = &metadata.persistence_id;
        let taken = self.names(id, exactly(metadata))?;
        let mut damaged = None;
        for name in &taken {
            match self.inspect(id, name)? {
                Content::Usable(_) => return Ok(*name),
                Content::Damaged(_) => damaged = Some(*name),
                Content::NotOurs => {}
            }
        }
        let mut free = Name::new(self.hash(id), metadata);
        while taken.contains(&free) {
            free.slot += 1;
        }
        Ok(damaged.unwrap_or(free))
    }

    fn load(&self, id: &PersistenceId, criteria: SelectionCriteria) -> Result<Loaded, DiskError> {
        let _shared = self.read(id);
        let mut skipped = Vec::new();
        let mut skip = |name: &Name, reason: String| {
            skipped.push(SkippedSnapshot {
                location: self.path(id, name).display().to_string(),
                reason,
            });
        };
        for same_number in self
            .names(id, criteria)?
            .chunk_by(|a, b| a.sequence_nr == b.sequence_nr)
        {
            let mut matching = Vec::new();
            for name in same_number {
                match self.inspect(id, name) {
                    Ok(Content::Usable(header)) if criteria.matches(&header.metadata) => {
                        matching.push((name, header));
                    }
                    Ok(Content::Usable(_) | Content::NotOurs) => {}
                    Ok(Content::Damaged(reason)) => skip(name, reason),
                    Err(error) => skip(name, error.to_string()),
                }
            }
            matching.sort_by_key(|(_, header)| newest_first(&header.metadata));
            for (name, header) in matching {
                match self.read_payload(id, name, header) {
                    Ok(snapshot) => {
                        return Ok(Loaded {
                            snapshot: Some(snapshot),
                            skipped,
                        });
                    }
                    Err(reason) => skip(name, reason),
                }
            }
        }
        Ok(Loaded {
            snapshot: None,
            skipped,
        })
    }

    fn read_payload(&self, id: &PersistenceId, name: &Name, header: Header) -> Result<Snapshot, String> {
        let path = self.path(id, name);
        // One byte more than expected shows that the file has grown.
        let limit = header.file_length().saturating_add(1);
        let (file, _) = self
            .disk
            .read(&path, limit)
            .at(&path)
            .map_err(|error| error.to_string())?;
        let payload = header.payload(file.into()).map_err(|damage| damage.to_string())?;
        Ok(Snapshot {
            metadata: header.metadata,
            payload,
        })
    }

    fn list(
        &self,
        id: &PersistenceId,
        criteria: SelectionCriteria,
    ) -> Result<Vec<SnapshotMetadata>, DiskError> {
        let _shared = self.read(id);
        let mut matching = Vec::new();
        for name in self.names(id, criteria)? {
            match self.inspect(id, &name)? {
                Content::Usable(header) if criteria.matches(&header.metadata) => {
                    matching.push(header.metadata)
                }
                _ => {}
            }
        }
        matching.sort_by_key(newest_first);
        Ok(matching)
    }

    fn delete(&self, id: &PersistenceId, criteria: SelectionCriteria) -> Result<(), DiskError> {
        let folder = self.folder(id);
        let _exclusive = self.write(id);
        for name in self.names(id, criteria)? {
            let selected = match self.inspect(id, &name)? {
                Content::Usable(header) => criteria.matches(&header.metadata),
                Content::Damaged(_) => criteria == at_any_time(criteria),
                Content::NotOurs => false,
            };
            if selected {
                let file = self.path(id, &name);
                self.disk.remove(&file).at(&file)?;
            }
        }
        // Also if nothing was there: an earlier deletion may have failed after it had removed the files.
        match self.disk.flush_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            flushed => flushed.at(&folder),
        }
    }

    /// The files that, by their names, may hold snapshots of `id` that match; the highest number first.
    fn names(&self, id: &PersistenceId, criteria: SelectionCriteria) -> Result<Vec<Name>, DiskError> {
        let folder = self.folder(id);
        let all = match self.disk.names(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // No snapshot was ever saved here; unless the whole directory is gone, which must not look like that.
                let temporaries = self.root.join(TEMPORARIES);
                self.disk.names(&temporaries).at(&temporaries)?;
                Vec::new()
            }
            names => names.at(&folder)?,
        };
        let hash = self.hash(id);
        let criteria = at_any_time(criteria);
        let may_match = |name: &Name| {
            name.hash == hash
                && criteria.matches(&SnapshotMetadata {
                    persistence_id: id.clone(),
                    sequence_nr: name.sequence_nr,
                    incarnation: name.incarnation,
                    timestamp: criteria.min_timestamp,
                })
        };
        let parsed = all.iter().filter_map(|name| Name::parse(name.to_str()?));
        let mut names: Vec<_> = parsed.filter(may_match).collect();
        names.sort_by_key(|name| (Reverse(name.sequence_nr), name.slot));
        Ok(names)
    }

    fn inspect(&self, id: &PersistenceId, name: &Name) -> Result<Content, DiskError> {
        let path = self.path(id, name);
        let (start, length) = match self.disk.read(&path, MAX_HEADER as u64) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Content::NotOurs),
            read => read.at(&path)?,
        };
        let header = match Header::decode(&start) {
            Ok(header) => header,
            Err(damage) => return Ok(Content::Damaged(damage.to_string())),
        };
        let found = &header.metadata;
        if self.hash(&found.persistence_id) != name.hash
            || found.sequence_nr != name.sequence_nr
            || found.incarnation != name.incarnation
        {
            let reason = format!(
                "it holds number {} of {} and was moved here from elsewhere; move it back",
                found.sequence_nr, found.persistence_id
            );
            return Ok(Content::Damaged(reason));
        }
        if found.persistence_id != *id {
            return Ok(Content::NotOurs);
        }
        Ok(match header.check(length) {
            Ok(()) => Content::Usable(header),
            Err(damage) => Content::Damaged(damage.to_string()),
        })
    }

    fn hash(&self, id: &PersistenceId) -> u64 {
        (self.hash)(id.as_str().as_bytes())
    }

    fn folder(&self, id: &PersistenceId) -> PathBuf {
        self.root.join(format!("{:03x}", self.shard_of(id)))
    }

    fn path(&self, id: &PersistenceId, name: &Name) -> PathBuf {
        self.folder(id).join(name.to_string())
    }

    fn shard_of(&self, id: &PersistenceId) -> u64 {
        self.hash(id) % SHARDS as u64
    }

    fn shard(&self, id: &PersistenceId) -> &RwLock<Shard> {
        usize::try_from(self.shard_of(id))
            .ok()
            .and_then(|shard| self.shards.get(shard))
            .expect("there are as many as the remainder has values")
    }

    fn read(&self, id: &PersistenceId) -> RwLockReadGuard<'_, Shard> {
        self.shard(id).read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, id: &PersistenceId) -> RwLockWriteGuard<'_, Shard> {
        self.shard(id).write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Creates a directory and its parents, all durable.
fn create_durable_dir(disk: &dyn Disk, dir: &Path) -> Result<(), DiskError> {
    let Some(parent) = dir.parent() else { return Ok(()) };
    match disk.create_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            create_durable_dir(disk, parent)?;
            create_dir(disk, dir)?;
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return flush_existing(disk, dir),
        created => {
            created.at(dir)?;
            flush_existing(disk, parent)?;
        }
    }
    disk.flush_dir(parent).at(parent)
}

/// A directory that exists may be the work of a process that died before it flushed the entry.
fn flush_existing(disk: &dyn Disk, dir: &Path) -> Result<(), DiskError> {
    let Some(parent) = dir.parent() else { return Ok(()) };
    match disk.flush_dir(parent) {
        // Whoever made a directory in a place that we may not read does not need us to flush it.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        flushed => flushed.at(parent),
    }
}

fn create_dir(disk: &dyn Disk, dir: &Path) -> Result<(), DiskError> {
    match disk.create_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        created => created.at(dir),
    }
}

fn at_any_time(criteria: SelectionCriteria) -> SelectionCriteria {
    SelectionCriteria {
        min_timestamp: SelectionCriteria::ALL.min_timestamp,
        max_timestamp: SelectionCriteria::ALL.max_timestamp,
        ..criteria
    }
}
