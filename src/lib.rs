#![doc = include_str!("../README.md")]
//!
//! # In this crate
//!
//! Everything of `journal-core` stands at the root, and with it the snapshot stores and the derive macros; the embedded
//! journal and the adapters are modules, by feature. ractor itself is at `actor_journal::ractor::ractor`, actix at
//! `actor_journal::actix::actix`, in the versions whose types the adapters speak.

pub use journal_core::*;
pub use journal_derive::Event;
pub use snapshot_store::*;

/// The journal on disk that needs no server.
#[cfg(feature = "embedded")]
pub use journal_embedded as embedded;

/// Persistent actix actors; actix itself is at `actor_journal::actix::actix`.
#[cfg(feature = "actix")]
pub mod actix {
    pub use journal_actix::*;
    pub use journal_derive::PersistentActor;
}

/// Persistent ractor actors.
#[cfg(feature = "ractor")]
pub use journal_ractor as ractor;

/// Persists in one directory: journal and snapshots, no server. The directory is created where it does not exist; one
/// process uses it at a time. With other settings it takes three lines:
///
/// ```
/// use actor_journal::{Persistence, embedded::{Durability, EmbeddedJournal}};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let directory = folder.path();
/// let journal = EmbeddedJournal::builder(directory).durability(Durability::OsBuffer).open().await?;
/// let snapshots = journal.snapshots();
/// let persistence = Persistence::builder(journal).snapshots(snapshots).build()?;
/// # persistence.shutdown().await?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// The directory cannot be used; the text says why and what to do about it.
#[cfg(feature = "embedded")]
pub async fn embedded(directory: impl AsRef<std::path::Path>) -> Result<Persistence, JournalError> {
    let journal = journal_embedded::EmbeddedJournal::open(directory).await?;
    let snapshots = journal.snapshots();
    Persistence::builder(journal).snapshots(snapshots).build()
}

#[cfg(doctest)]
#[doc = include_str!("../docs/persistent.md")]
mod persistent {}
