//! What follows the failure of a life.

use std::time::Duration;

use tokio::time::Instant;

use crate::{Backoff, ErrorKind, RecoveryError, engine::Halt};

/// How an actor goes on after a life that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restart {
    /// With the next life, after a wait.
    After(Duration),
    /// Another has the id, and restarting would fight it: not before somebody wants this actor again.
    Rest,
    /// Not at all; it cannot get better.
    End,
}

/// How often an actor failed of late.
#[derive(Debug)]
pub struct Restarts {
    backoff: Backoff,
    failures: u32,
    healthy_since: Option<Instant>,
}

impl Restarts {
    /// None so far.
    #[must_use]
    pub fn new(backoff: Backoff) -> Self {
        Self {
            backoff,
            failures: 0,
            healthy_since: None,
        }
    }

    /// A life has recovered.
    pub fn healthy(&mut self) {
        self.healthy_since = Some(Instant::now());
    }

    /// A life failed; `halt` is what its engine said, if it did. The wait doubles from failure to failure, and starts
    /// anew after a life that was healthy for as long as the longest wait.
    pub fn after(&mut self, halt: Option<&Halt>) -> Restart {
        let healthy = self.healthy_since.take();
        match halt {
            Some(Halt::Fenced(_)) => return Restart::Rest,
            Some(Halt::RecoveryFailed(error)) => match **error {
                RecoveryError::AlreadyLive { .. } => return Restart::Rest,
                RecoveryError::Journal(ref error) if error.kind() == ErrorKind::Fenced => {
                    return Restart::Rest;
                }
                RecoveryError::InvalidId(_)
                | RecoveryError::Config(_)
                | RecoveryError::NotDelivering { .. }
                | RecoveryError::Stopped
                | RecoveryError::Closed => return Restart::End,
                _ => {}
            },
            None => {}
        }
        if healthy.is_some_and(|since| since.elapsed() >= self.backoff.longest) {
            self.failures = 0;
        }
        let wait = self.backoff.wait(self.failures);
        self.failures = self.failures.saturating_add(1);
        Restart::After(wait)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{JournalError, Operation, PersistenceId};

    fn restarts() -> Restarts {
        Restarts::new(Backoff {
            shortest: Duration::from_secs(1),
            longest: Duration::from_secs(4),
        })
    }

    #[tokio::test(start_paused = true)]
    async fn waits_double_until_a_life_was_healthy_for_the_longest_wait() {
        let mut restarts = restarts();
        let mut failed_after = async |healthy: u64| {
            restarts.healthy();
            tokio::time::advance(Duration::from_secs(healthy)).await;
            restarts.after(None)
        };
        let after = |seconds| Restart::After(Duration::from_secs(seconds));
        assert_eq!(failed_after(0).await, after(1));
        assert_eq!(failed_after(3).await, after(2));
        assert_eq!(failed_after(3).await, after(4));
        assert_eq!(failed_after(3).await, after(4));
        assert_eq!(failed_after(4).await, after(1));
    }

    #[test]
    fn a_life_that_never_recovered_was_not_healthy() {
        let mut restarts = restarts();
        assert_eq!(restarts.after(None), Restart::After(Duration::from_secs(1)));
        assert_eq!(restarts.after(None), Restart::After(Duration::from_secs(2)));
    }

    #[test]
    fn whoever_lost_the_id_to_another_rests() {
        let fenced = JournalError::not_stored(ErrorKind::Fenced, Operation::Append, "taken over");
        let id = PersistenceId::new("a").unwrap();
        let live = RecoveryError::AlreadyLive { id };
        for halt in [
            Halt::Fenced(Arc::new(fenced)),
            Halt::RecoveryFailed(Arc::new(live)),
        ] {
            assert_eq!(restarts().after(Some(&halt)), Restart::Rest);
        }
    }

    #[test]
    fn options_that_can_never_work_and_a_shutdown_end_it() {
        let not_delivering = RecoveryError::NotDelivering {
            id: PersistenceId::new("a").unwrap(),
            unconfirmed: 1,
        };
        for hopeless in [
            RecoveryError::Config("no".to_owned()),
            not_delivering,
            RecoveryError::Closed,
        ] {
            let halt = Halt::RecoveryFailed(Arc::new(hopeless));
            assert_eq!(restarts().after(Some(&halt)), Restart::End);
        }
    }
}
