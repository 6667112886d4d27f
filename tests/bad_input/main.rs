//! Bad input through the facade: a typed error that says what to do, and nothing lost.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a child's words, and what does not apply"
)]

#[path = "../common/child.rs"]
mod child;
mod directory;
mod events;
mod ids;
mod notebook;
mod states;

use std::sync::Arc;

use actor_journal::{ErrorKind, JournalError, Persistence, RecoveryError, ractor::SpawnError};

/// Ends everything on a directory, so that it can be opened again.
async fn close(persistence: Persistence) {
    persistence.shutdown().await.unwrap();
}

/// The journal's error of a recovery that failed.
fn journal_error<T>(spawned: Result<T, SpawnError>) -> Arc<JournalError> {
    match spawned.err().unwrap() {
        SpawnError::Recovery(RecoveryError::Journal(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn says(error: &impl ToString, advice: &str) {
    let text = error.to_string();
    assert!(text.contains(advice), "{text:?} does not say {advice:?}");
}

#[track_caller]
fn is(error: &JournalError, kind: ErrorKind, advice: &str) {
    assert_eq!(error.kind(), kind, "{error}");
    says(error, advice);
}
