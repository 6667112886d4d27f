//! Derive macros of actor-journal.
