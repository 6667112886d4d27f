//! A look at the engine's files before the engine opens them. It takes any damage in its log for the log's end and cuts
//! there, so that a single changed bit would take all later, acknowledged writes along without a word; it believes its
//! manifests, starts a table without one from nothing, and a log that is gone too; and it opens nothing at all where a
//! power loss tore the last group, whose pages reach the disk in any order.
//!
//! ```text
//! N.jnl     batches, then zeros up to the length the file was created with. Little-endian:
//!           start 1 | items u32 | seqno u64
//!           item  2 | kind u8 | compression u8 = 0 | table u64 | key length u16 | length u32 | stored length u32
//!                   | key | value
//!           end   3 | xxh3 of the items u64 | "FJL\x03"
//! current   of each table: version u64 | xxh3 of the file `v<version>` u128 | 0
//! ```

use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufRead, BufReader, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

use xxhash_rust::xxh3::{Xxh3, xxh3_128};

use crate::store::Flush;

const START: u8 = 1;
const ITEM: u8 = 2;
const END: u8 = 3;
const MAGIC: [u8; 4] = *b"FJL\x03";
/// The bytes in which a batch looks like one: up to its first item's compression.
const LOOKS: usize = 16;
const BUFFER: usize = 64 << 10;
/// Compared as a whole, because most of a log that was not closed is zeros.
static ZEROS: [u8; BUFFER] = [0; BUFFER];

/// What is wrong with the engine's files.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    #[error("{0:?} is missing")]
    Missing(PathBuf),
    #[error("{0:?} does not fit its checksum")]
    Manifest(PathBuf),
    #[error(
        "{file:?} is damaged at byte {at}, and whole groups of writes follow; if a power loss hit a journal of \
         `Durability::OsBuffer`, open it with that once, which keeps what lies before the damage"
    )]
    Log { file: PathBuf, at: u64 },
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Checks the files of a store whose creation is complete, with its tables `0..tables`; cuts the group that a power loss
/// tore off the log's end, and changes nothing else. Where acknowledged groups were not flushed, everything behind the
/// first torn one is such an end.
pub(crate) fn check(store: &Path, tables: u64, flush: Flush) -> Result<(), FileError> {
    for table in 0..tables {
        check_manifest(&store.join("keyspaces").join(table.to_string()))?;
    }
    let logs = logs(store)?;
    let Some(newest) = logs.last() else {
        return Err(FileError::Missing(store.join("0.jnl")));
    };
    let mut seqno = None;
    for path in &logs {
        let mut log = BufReader::with_capacity(BUFFER, File::open(path)?);
        let end = valid_end(&mut log, &mut seqno)?;
        match rest(&mut log, end)? {
            Rest::Zeros => continue,
            Rest::Torn if path == newest => {}
            Rest::Batches if path == newest && flush == Flush::OsBuffer => {}
            Rest::Torn | Rest::Batches => {
                return Err(FileError::Log {
                    file: path.clone(),
                    at: end,
                });
            }
        }
        tracing::warn!(
            ?path,
            end,
            "cut writes that a power loss or a kill left unfinished"
        );
        let file = OpenOptions::new().write(true).open(path)?;
        file.set_len(end)?;
        file.sync_all()?;
    }
    Ok(())
}

fn check_manifest(table: &Path) -> Result<(), FileError> {
    let read = |path: PathBuf| match fs::read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(FileError::Missing(path)),
        read => read.map(|bytes| (bytes, path)).map_err(FileError::Io),
    };
    let (current, path) = read(table.join("current"))?;
    let mut fields = current.as_slice();
    let (Ok(version), Ok(checksum), Ok([0])) = (take(&mut fields), take(&mut fields), take(&mut fields))
    else {
        return Err(FileError::Manifest(path));
    };
    let (version, checksum) = (u64::from_le_bytes(version), u128::from_le_bytes(checksum));
    let (manifest, path) = read(table.join(format!("v{version}")))?;
    if xxh3_128(&manifest) == checksum {
        Ok(())
    } else {
        Err(FileError::Manifest(path))
    }
}

/// The logs, oldest first.
fn logs(store: &Path) -> io::Result<Vec<PathBuf>> {
    let mut logs = Vec::new();
    for entry in fs::read_dir(store)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        let number = name.and_then(|name| name.strip_suffix(".jnl")?.parse::<u64>().ok());
        logs.extend(number.map(|number| (number, path)));
    }
    logs.sort();
    Ok(logs.into_iter().map(|(_, path)| path).collect())
}

struct Batch {
    seqno: u64,
    bytes: u64,
}

/// The end of the batches that are whole and in order.
fn valid_end(log: &mut impl BufRead, seqno: &mut Option<u64>) -> io::Result<u64> {
    let mut end = 0;
    while let Some(batch) = batch(log)?
        && seqno.is_none_or(|former| former < batch.seqno)
    {
        *seqno = Some(batch.seqno);
        end += batch.bytes;
    }
    Ok(end)
}

enum Rest {
    Zeros,
    /// A batch that is not whole, and none behind it.
    Torn,
    /// A whole batch at or behind the end, where none should be.
    Batches,
}

fn rest(log: &mut (impl BufRead + Seek), end: u64) -> io::Result<Rest> {
    log.seek(SeekFrom::Start(end))?;
    let (mut position, mut zeros, mut window) = (end, true, [0; LOOKS]);
    let mut starts = Vec::new();
    loop {
        let buffer = log.fill_buf()?;
        let len = buffer.len();
        if len == 0 {
            break;
        }
        if ZEROS.get(..len) == Some(buffer) {
            position += len as u64;
            window = [0; LOOKS];
        } else {
            zeros = false;
            for byte in buffer {
                position += 1;
                window.rotate_left(1);
                let [start, .., item, _kind, newest] = &mut window;
                *newest = *byte;
                if (*start, *item, *newest) == (START, ITEM, 0) {
                    starts.push(position - LOOKS as u64);
                }
            }
        }
        log.consume(len);
    }
    if zeros {
        return Ok(Rest::Zeros);
    }
    for start in starts {
        log.seek(SeekFrom::Start(start))?;
        if batch(log)?.is_some() {
            return Ok(Rest::Batches);
        }
    }
    Ok(Rest::Torn)
}

/// The batch that begins here; `None` if there is no whole one.
fn batch(log: &mut impl BufRead) -> io::Result<Option<Batch>> {
    match read_batch(log) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        read => read,
    }
}

fn read_batch(log: &mut impl BufRead) -> io::Result<Option<Batch>> {
    let [START] = take(log)? else { return Ok(None) };
    let items = u32::from_le_bytes(take(log)?);
    let seqno = u64::from_le_bytes(take(log)?);
    let mut bytes = 1 + 4 + 8;
    let mut hasher = Xxh3::new();
    for _ in 0..items {
        let head: [u8; 21] = take(log)?;
        hasher.update(&head);
        let mut fields = head.as_slice();
        let ([ITEM], [_kind], [0]) = (take(&mut fields)?, take(&mut fields)?, take(&mut fields)?) else {
            return Ok(None);
        };
        let _table: [u8; 8] = take(&mut fields)?;
        let key = u16::from_le_bytes(take(&mut fields)?);
        let value = u32::from_le_bytes(take(&mut fields)?);
        let stored = u32::from_le_bytes(take(&mut fields)?);
        if value != stored {
            return Ok(None);
        }
        let body = u64::from(key) + u64::from(stored);
        hash(log, body, &mut hasher)?;
        bytes += head.len() as u64 + body;
    }
    let [END] = take(log)? else { return Ok(None) };
    let checksum = u64::from_le_bytes(take(log)?);
    bytes += 1 + 8 + MAGIC.len() as u64;
    let whole = take(log)? == MAGIC && checksum == hasher.digest();
    Ok(whole.then_some(Batch { seqno, bytes }))
}

fn take<const N: usize>(from: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn hash(log: &mut impl BufRead, mut bytes: u64, hasher: &mut Xxh3) -> io::Result<()> {
    while bytes > 0 {
        let buffer = log.fill_buf()?;
        let wanted = usize::try_from(bytes).unwrap_or(usize::MAX);
        let part = buffer.get(..wanted).unwrap_or(buffer);
        if part.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        hasher.update(part);
        let read = part.len();
        log.consume(read);
        bytes -= read as u64;
    }
    Ok(())
}
