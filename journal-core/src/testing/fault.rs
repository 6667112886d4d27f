//! What a faulty journal does instead of what it was asked for.

use std::time::Duration;

use super::Gate;
use crate::{ErrorKind, Operation, PersistenceId};

/// What happens to the next call of an operation; of all ids and once, unless it says otherwise.
///
/// The first [delay](Fault::delayed) or [hold](Fault::held) that a call meets is kept, and then the first of the others
/// that it meets: so a call can be both late and failed.
#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    pub(crate) operation: Operation,
    pub(crate) id: Option<Box<str>>,
    /// `None`: for ever.
    pub(crate) times: Option<usize>,
    pub(crate) action: Action,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Action {
    Wait(Wait),
    Fail(Failure),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Wait {
    Delay(Duration),
    Gate(Gate),
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Failure {
    NotStored(ErrorKind),
    StoredButUnknown,
    LostButUnknown,
    Rejected(Option<usize>),
}

impl Fault {
    fn new(operation: Operation, action: Action) -> Self {
        Self {
            operation,
            id: None,
            times: Some(1),
            action,
        }
    }

    /// The call fails with this kind, and nothing was done. Of [`Operation::Open`] there are no calls.
    #[must_use]
    pub fn not_stored(operation: Operation, kind: ErrorKind) -> Self {
        Self::new(operation, Action::Fail(Failure::NotStored(kind)))
    }

    /// An append is stored, but the answer is lost.
    #[must_use]
    pub fn stored_but_unknown() -> Self {
        Self::new(Operation::Append, Action::Fail(Failure::StoredButUnknown))
    }

    /// An append is not stored, and the answer is lost.
    #[must_use]
    pub fn lost_but_unknown() -> Self {
        Self::new(Operation::Append, Action::Fail(Failure::LostButUnknown))
    }

    /// An append is rejected, because of the atomic write of this index or as a whole.
    #[must_use]
    pub fn rejected(write: impl Into<Option<usize>>) -> Self {
        Self::new(Operation::Append, Action::Fail(Failure::Rejected(write.into())))
    }

    /// The call takes this much longer, in tokio's time.
    #[must_use]
    pub fn delayed(operation: Operation, by: Duration) -> Self {
        Self::new(operation, Action::Wait(Wait::Delay(by)))
    }

    /// The call hangs until the gate lets it through.
    #[must_use]
    pub fn held(operation: Operation, gate: &Gate) -> Self {
        Self::new(operation, Action::Wait(Wait::Gate(gate.clone())))
    }

    /// Only calls of this id.
    #[must_use]
    pub fn of(mut self, id: impl AsRef<str>) -> Self {
        self.id = Some(id.as_ref().into());
        self
    }

    /// The next `calls` calls.
    #[must_use]
    pub fn times(mut self, calls: usize) -> Self {
        self.times = Some(calls);
        self
    }

    /// Every call that no counted fault meets, until [`FaultyJournal::withdraw`](super::FaultyJournal::withdraw) or
    /// [`FaultyJournal::heal`](super::FaultyJournal::heal).
    #[must_use]
    pub fn always(mut self) -> Self {
        self.times = None;
        self
    }

    fn meets(&self, operation: Operation, id: Option<&PersistenceId>) -> bool {
        self.operation == operation
            && self
                .id
                .as_deref()
                .is_none_or(|of| id.is_some_and(|id| id.as_str() == of))
    }
}

/// Takes what `pick` finds in the first fault that meets the call, counted ones before lasting ones.
pub(crate) fn take<T>(
    faults: &mut Vec<Fault>,
    operation: Operation,
    id: Option<&PersistenceId>,
    pick: impl Fn(&Action) -> Option<T>,
) -> Option<T> {
    let mut order: Vec<_> = faults.iter_mut().enumerate().collect();
    order.sort_by_key(|(_, fault)| fault.times.is_none());
    let found = order.into_iter().find_map(|(at, fault)| {
        let picked = fault.meets(operation, id).then(|| pick(&fault.action))??;
        fault.times = fault.times.map(|times| times.saturating_sub(1));
        Some((at, fault.times == Some(0), picked))
    });
    let (at, spent, picked) = found?;
    if spent {
        faults.remove(at);
    }
    Some(picked)
}
