//! Commands put aside.

use journal_core::{ErrorKind, PersistError};

use crate::{adapter::*, controlled::Fate, runner::Verdict};

/// The effects `stash` and `unstash_all`: back to the head of the queue, in order, as often as it takes.
pub(crate) async fn is_answered_after_unstash_in_order<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    let (described, mut hears) = tally(ID);
    let actor = on.spawn(&described).await;
    let mut waiting = [actor.asked(WaitFor(1, 5)), actor.asked(WaitFor(2, 5))];
    let early = actor.asked(AddAndUnstash(2));
    actor.tell(Note(3));
    assert_eq!(early.reply().await, 2);
    // Before what came behind the command that woke them.
    assert_eq!(hears.handled(3).await, [1, 2, 1, 2, 3]);
    assert!(!waiting.iter_mut().any(Begun::is_done));
    assert_eq!(actor.ask(AddAndUnstash(3)).await, 5);
    for reply in waiting {
        assert_eq!(reply.reply().await, 5);
    }
    assert_eq!(hears.handled(2).await, [1, 2]);
    Ok(())
}

/// P6: recovery in place returns the stash to the head of the queue, since who was to wake it may be lost.
pub(crate) async fn survives_a_panic_in_order<H: AdapterHarness>(on: &mut AdapterUnderTest<H>) -> Verdict {
    let (described, mut hears) = tally(ID);
    let actor = on.spawn(&described).await;
    let waiting = [actor.asked(WaitFor(1, 5)), actor.asked(WaitFor(2, 5))];
    let panics = actor.asked(PanicInHandle);
    actor.tell(Note(3));
    let panicked = panics.failure().await;
    assert!(matches!(panicked, PersistError::Panicked(_)), "{panicked}");
    assert_eq!(hears.handled(3).await, [1, 2, 1, 2, 3]);
    assert_eq!(actor.ask(AddAndUnstash(5)).await, 5);
    for reply in waiting {
        assert_eq!(reply.reply().await, 5);
    }
    Ok(())
}

/// P6, after a write that is lost while the actor has nothing else to do.
pub(crate) async fn survives_a_failed_write_in_order<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    let (described, mut hears) = tally(ID);
    let actor = on.spawn(&described).await;
    let mut waiting = [actor.asked(WaitFor(1, 5)), actor.asked(WaitFor(2, 5))];
    on.journal().appends.close();
    let mut failing = actor.asked(Add(100));
    on.journal().appends.arrival().await;
    actor.tell(Note(3));
    assert_eq!(hears.handled(3).await, [1, 2, 3]);
    failing.assert_waits().await;
    on.journal().fate(Fate::NotStored(ErrorKind::Poisoned));
    on.journal().appends.open();
    let failed = failing.failure().await;
    assert!(matches!(failed, PersistError::NotStored(_)), "{failed}");
    actor.tell(Note(4));
    assert_eq!(hears.handled(4).await, [1, 2, 4]);
    assert!(!waiting.iter_mut().any(Begun::is_done));
    assert_eq!(actor.ask(AddAndUnstash(5)).await, 5);
    for reply in waiting {
        assert_eq!(reply.reply().await, 5);
    }
    Ok(())
}
