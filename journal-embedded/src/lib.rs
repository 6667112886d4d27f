//! The embedded journal of actor-journal: events and snapshots in one directory, on disk, without a server.
//!
//! Start with [`EmbeddedJournal`].

mod builder;
mod committer;
mod config;
mod directory;
mod head;
mod journal;
mod keys;
mod log;
mod meta;
mod record;
mod replay;
mod snapshots;
mod store;
#[cfg(test)]
mod tests;

pub use {
    builder::EmbeddedBuilder, config::Durability, journal::EmbeddedJournal, snapshots::EmbeddedSnapshots,
};
