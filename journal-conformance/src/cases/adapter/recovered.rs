//! What an actor does once it is recovered.

use journal_core::{ErrorKind, PersistError, RecoveryError};

use crate::{adapter::*, controlled::Fate, runner::Verdict};

/// R: under the rules of a command, before those that waited.
pub(crate) async fn runs_before_the_first_command<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    let (described, _hears) = tally_that(OnceRecovered::Adds(5), ID);
    on.journal().claims.close();
    let first = on.spawn_instant(&described).await;
    on.journal().claims.arrival().await;
    let waited = first.asked(Add(1));
    on.journal().claims.open();
    assert_eq!(waited.reply().await, 6);
    first.stop().await;
    let second = on.spawn(&described).await;
    assert_eq!(second.ask(Add(1)).await, 12);
    assert_eq!(on.numbers().await, [1, 2, 3, 4]);
    Ok(())
}

/// R, P6: also where the actor recovers in place, for what was under way is lost with the state.
pub(crate) async fn runs_after_a_recovery_in_place<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    let (described, _hears) = tally_that(OnceRecovered::Adds(5), ID);
    let actor = on.spawn(&described).await;
    assert_eq!(actor.ask(Add(1)).await, 6);
    on.journal().fate(Fate::NotStored(ErrorKind::Poisoned));
    let failed = actor.asked(Add(100)).failure().await;
    assert!(matches!(failed, PersistError::NotStored(_)), "{failed}");
    assert_eq!(actor.ask(Read).await, 11);
    Ok(())
}

/// R: it fails the recovery, whose caller gets the error.
pub(crate) async fn that_panics_fails_the_recovery<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    on.permit_recoveries(1);
    let (described, mut hears) = tally_that(OnceRecovered::Panics, ID);
    let failed = on.try_spawn(&described).await.err().expect("recovered panics");
    assert!(matches!(failed, RecoveryError::Panicked { .. }), "{failed}");
    hears.failed_recovery().await;
    on.gone().await;
    on.permits_are_back(1).await;
    let next = on.spawn(&tally(ID).0).await;
    assert_eq!(next.ask(Read).await, 0);
    Ok(())
}
