//! At most one live actor of an id.

use futures_util::future::join_all;
use journal_core::RecoveryError;

use crate::{adapter::*, runner::Verdict};

/// P8: the registry keeps the id, and a second actor is refused without harm to the first.
pub(crate) async fn lives_once<H: AdapterHarness>(on: &mut AdapterUnderTest<H>) -> Verdict {
    let (described, _hears) = tally(ID);
    let first = on.spawn(&described).await;
    first.ask(Add(5)).await;
    let second = on.try_spawn(&described).await.err().expect("the id is taken");
    assert!(matches!(second, RecoveryError::AlreadyLive { .. }), "{second}");
    assert_eq!(first.ask(Add(1)).await, 6);
    assert_eq!(on.journal().claims_made(), 1);
    first.stop().await;
    let third = on.spawn(&described).await;
    assert_eq!(third.ask(Read).await, 6);
    Ok(())
}

/// P8, in a race.
pub(crate) async fn of_many_spawned_at_once_lives_once<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    let (described, _hears) = tally(ID);
    let spawned = join_all((0..16).map(|_| on.try_spawn(&described))).await;
    let mut live = Vec::new();
    for spawned in spawned {
        match spawned {
            Ok(actor) => live.push(actor),
            Err(error) => assert!(matches!(error, RecoveryError::AlreadyLive { .. }), "{error}"),
        }
    }
    let [actor] = &*live else {
        panic!("{} actors of one id", live.len());
    };
    assert_eq!(actor.ask(Add(5)).await, 5);
    assert_eq!(on.journal().claims_made(), 1);
    Ok(())
}
