//! The embedded journal of actor-journal: on disk, no server.
