//! Writes of unknown outcome.

use journal_core::PersistError;

use crate::{adapter::*, controlled::Fate, runner::Verdict};

/// P6: the next claim finds the record of the spent one. The actor is idle when the append fails, so that nothing but
/// the engine's own call for attention makes that claim.
pub(crate) async fn that_was_stored_is_answered_as_stored<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    let (described, mut hears) = tally(ID);
    let actor = on.spawn(&described).await;
    on.journal().appends.close();
    let mut unknown = actor.asked(Announce(5));
    on.journal().appends.arrival().await;
    unknown.assert_waits().await;
    on.journal().fate(Fate::StoredButUnknown);
    on.journal().appends.open();
    assert_eq!(unknown.reply().await, 5);
    assert_eq!(hears.effects(), [5]);
    assert_eq!(actor.ask(Add(1)).await, 6);
    assert_eq!(on.numbers().await, [1, 2]);
    assert_eq!(on.journal().claims_made(), 2);
    Ok(())
}

/// P6: absent above deleted_to = NotStored.
pub(crate) async fn that_was_lost_is_answered_as_not_stored<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    let (described, mut hears) = tally(ID);
    let actor = on.spawn(&described).await;
    on.journal().fate(Fate::LostButUnknown);
    let lost = actor.asked(Announce(5)).failure().await;
    assert!(matches!(lost, PersistError::NotStored(_)), "{lost}");
    assert_eq!(actor.ask(Add(1)).await, 1);
    assert!(hears.effects().is_empty());
    assert_eq!(on.numbers().await, [1]);
    Ok(())
}

/// P6: commands behind it were never sent: answered NotStored, whatever became of it.
pub(crate) async fn fails_what_was_never_sent<H: AdapterHarness>(on: &mut AdapterUnderTest<H>) -> Verdict {
    let (described, mut hears) = tally(ID);
    let actor = on.spawn(&described).await;
    on.journal().appends.close();
    let stored = actor.asked(Add(1));
    on.journal().appends.arrival().await;
    let never_sent = actor.asked(Add(10));
    actor.handled(&mut hears).await;
    on.journal().fate(Fate::StoredButUnknown);
    on.journal().appends.open();
    assert_eq!(stored.reply().await, 1);
    let failed = never_sent.failure().await;
    assert!(matches!(failed, PersistError::NotStored(_)), "{failed}");
    assert_eq!(actor.ask(Read).await, 1);
    Ok(())
}
