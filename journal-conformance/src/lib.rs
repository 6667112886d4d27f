//! The executable contract of actor-journal: suites for backends and adapters.
