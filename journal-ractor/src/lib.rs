//! Persistent ractor actors.
