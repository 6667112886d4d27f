//! What the directory remembers beside ids: how often it was opened, and up to where commit orders are given out.

use bytes::Bytes;
use journal_core::JournalError;
use journal_core::{ErrorKind, Operation};

use crate::{
    record::EPOCH,
    store::{Batch, Flush, Store, StoreError, Table},
};

const OPENED: Bytes = Bytes::from_static(b"opened");
const COMMIT_ORDER: Bytes = Bytes::from_static(b"commit-order");

/// Commit orders are reserved in blocks, so that the append which opens a block writes a row more and all others none.
/// A reopened directory goes on behind the last block: strictly increasing, not without gaps.
const ORDERS: u64 = 1 << 20;

/// One opening of a directory.
#[derive(Debug)]
pub(crate) struct Opened {
    /// The how-manieth it is, stored before anything else is.
    count: u64,
    claims: u64,
    commit_order: u64,
    reserved: u64,
}

impl Opened {
    /// Counts an opening, on the disk.
    pub(crate) fn count(store: &Store) -> Result<Self, OpenError> {
        let view = store.view();
        let read = |key: &Bytes| -> Result<u64, OpenError> {
            match store.get(&view, Table::Meta, key)? {
                None => Ok(0),
                Some(row) => row
                    .as_ref()
                    .try_into()
                    .map(u64::from_le_bytes)
                    .map_err(|_| OpenError::Damaged),
            }
        };
        let count = read(&OPENED)? + 1;
        let reserved = read(&COMMIT_ORDER)?;
        let mut batch = store.batch();
        batch.put(Table::Meta, OPENED, number(count));
        store.commit(batch, Flush::Disk)?;
        Ok(Self {
            count,
            claims: 0,
            commit_order: reserved,
            reserved,
        })
    }

    /// Greater than all epochs of this directory before it, also those of former openings.
    pub(crate) fn next_epoch(&mut self) -> [u8; EPOCH] {
        self.claims += 1;
        let mut epoch = [0; EPOCH];
        let (opening, claim) = epoch.split_at_mut(8);
        opening.copy_from_slice(&self.count.to_be_bytes());
        claim.copy_from_slice(&self.claims.to_be_bytes());
        epoch
    }

    /// Greater than all orders before it; the batch is the one that uses it.
    pub(crate) fn next_commit_order(&mut self, batch: &mut Batch) -> u64 {
        self.commit_order += 1;
        if self.commit_order > self.reserved {
            self.reserved += ORDERS;
            batch.put(Table::Meta, COMMIT_ORDER, number(self.reserved));
        }
        self.commit_order
    }
}

fn number(number: u64) -> Bytes {
    Bytes::copy_from_slice(&number.to_le_bytes())
}

/// Why an opening could not be counted.
#[derive(Debug)]
pub(crate) enum OpenError {
    Store(StoreError),
    Damaged,
}

impl From<StoreError> for OpenError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl OpenError {
    pub(crate) fn opening(self, path: &std::path::Path) -> JournalError {
        match self {
            Self::Store(error) => error.opening(path),
            Self::Damaged => JournalError::not_stored(
                ErrorKind::Corrupt,
                Operation::Open,
                format!(
                    "{} has damaged counters; restore it from a backup",
                    path.display()
                ),
            ),
        }
    }
}
