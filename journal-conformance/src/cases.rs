//! The cases, by contract and theme. A doc comment says which guarantee (G1 to G9, see `ARCHITECTURE.md`) a case backs,
//! and which behaviour of the Akka and Pekko test kits (J, JO, S, SO) it takes over.

pub(crate) mod adapter;
pub(crate) mod journal;
pub(crate) mod snapshot;
