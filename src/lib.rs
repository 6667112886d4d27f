//! Durable, event-sourced actors.
//!
//! Everything of `journal-core` stands at the root, and with it the snapshot stores and the derive macros.

pub use journal_core::*;
pub use journal_derive::*;
pub use snapshot_store::*;

/// The journal on disk that needs no server.
#[cfg(feature = "embedded")]
pub use journal_embedded as embedded;

/// Persistent ractor actors.
#[cfg(feature = "ractor")]
pub use journal_ractor as ractor;
