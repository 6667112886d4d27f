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

/// The stash is a loop and no recursion, and each of its commands is handled once more and only once, in order.
pub(crate) async fn of_a_hundred_thousand_commands_is_drained<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    const COMMANDS: u32 = 100_000;
    let (described, mut hears) = tally(ID);
    let actor = on.spawn(&described.max_waiting(200_000)).await;
    let waiting: Vec<_> = (1..=COMMANDS)
        .map(|label| actor.asked(WaitFor(label, 5)))
        .collect();
    let in_order: Vec<_> = (1..=COMMANDS).collect();
    assert_eq!(hears.handled(COMMANDS).await, in_order);
    assert_eq!(actor.ask(AddAndUnstash(5)).await, 5);
    for reply in waiting {
        assert_eq!(reply.reply().await, 5);
    }
    assert_eq!(hears.handled(COMMANDS).await, in_order);
    assert_eq!(actor.ask(Read).await, 5);
    assert!(hears.labels().is_empty());
    Ok(())
}

/// Each stashed command is handled exactly once in the end, in order, also where some go back to the stash again.
pub(crate) async fn may_be_stashed_again_without_loss<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    let (described, mut hears) = tally(ID);
    let actor = on.spawn(&described).await;
    let thresholds = [3, 1, 2, 1, 3, 2];
    let mut waiting: Vec<_> = (1..)
        .zip(thresholds)
        .map(|(label, total)| (total, actor.asked(WaitFor(label, total))))
        .collect();
    assert_eq!(hears.handled(6).await, [1, 2, 3, 4, 5, 6]);
    for (total, looked_at) in [
        (1, vec![1, 2, 3, 4, 5, 6]),
        (2, vec![1, 3, 5, 6]),
        (3, vec![1, 5]),
    ] {
        assert_eq!(actor.ask(AddAndUnstash(1)).await, total);
        actor.tell(Note(7));
        let labels: Vec<_> = looked_at.into_iter().chain([7]).collect();
        assert_eq!(hears.handled(7).await, labels);
        let (answered, later) = waiting.into_iter().partition(|(wanted, _)| *wanted == total);
        waiting = later;
        for (_, reply) in answered {
            let reply: Begun<_> = reply;
            assert_eq!(reply.reply().await, total);
        }
    }
    assert!(waiting.is_empty());
    Ok(())
}

/// What is put aside counts as waiting, so that the stash is bounded; beyond the bound nothing fails but the command.
pub(crate) async fn is_bounded<H: AdapterHarness>(on: &mut AdapterUnderTest<H>) -> Verdict {
    let (described, mut hears) = tally(ID);
    let actor = on.spawn(&described.max_waiting(3)).await;
    let waiting = [actor.asked(WaitFor(1, 5)), actor.asked(WaitFor(2, 5))];
    assert_eq!(hears.handled(2).await, [1, 2]);
    let third = actor.asked(AddLater(1, false));
    let overloaded = loop {
        // The third may not have been handled yet.
        match actor.asked(Read).await {
            Ok(Err(overloaded)) => break overloaded,
            read => assert!(matches!(read, Ok(Ok(0))), "{read:?}"),
        }
    };
    assert!(
        matches!(overloaded, PersistError::Overloaded { waiting: 3, .. }),
        "{overloaded}"
    );
    actor.stop().await;
    assert_not_done(&third.await);
    for reply in waiting {
        assert_not_done(&reply.await);
    }
    let next = on.spawn(&tally(ID).0).await;
    assert_eq!(next.ask(Read).await, 0);
    Ok(())
}
