//! What ractor asks of a model.

use journal_core::EventSourced;

/// A model whose actor may run on any thread; every [`EventSourced`] that is `Send` and `Sync` is one.
pub trait Model: EventSourced + Send + Sync {}

impl<A: EventSourced + Send + Sync> Model for A {}
