//! Snapshot stores for actor-journal: in memory and on files that survive power loss.
