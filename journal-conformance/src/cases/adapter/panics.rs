//! Panics of the model while it handles a command.

use journal_core::{PersistError, Signal};

use crate::{adapter::*, runner::Verdict};

fn assert_panicked(failure: &PersistError) {
    assert!(matches!(failure, PersistError::Panicked(_)), "{failure}");
}

/// P2, P6: the actor recovers in place; queued commands are handled by the same actor.
pub(crate) async fn in_a_handler_lose_no_queued_command<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    let (described, mut hears) = tally(ID);
    let actor = on.spawn(&described).await;
    let before = actor.asked(Add(5));
    let panics = actor.asked(PanicInHandle);
    let queued: Vec<_> = (1..=9).map(|number| actor.asked(Add(number))).collect();
    assert_eq!(before.reply().await, 5);
    assert_panicked(&panics.failure().await);
    for (reply, total) in queued.into_iter().zip([6, 8, 11, 15, 20, 26, 33, 41, 50]) {
        assert_eq!(reply.reply().await, total);
    }
    assert_eq!(hears.recovery().await, (0, 0));
    hears
        .signal(|signal| matches!(signal, Signal::HandlerPanicked(_)).then_some(()))
        .await;
    assert_eq!(hears.recovery().await, (0, 1));
    Ok(())
}

/// P2: a panic anywhere enqueues nothing.
pub(crate) async fn in_apply_store_nothing<H: AdapterHarness>(on: &mut AdapterUnderTest<H>) -> Verdict {
    let (described, _hears) = tally(ID);
    let actor = on.spawn(&described).await;
    actor.ask(Add(5)).await;
    assert_panicked(&actor.asked(PanicInApply).failure().await);
    assert_eq!(actor.ask(Add(1)).await, 6);
    assert_eq!(on.numbers().await, [1, 2]);
    Ok(())
}

/// P2: a panic anywhere enqueues nothing, also after `apply`.
pub(crate) async fn in_a_reply_store_nothing<H: AdapterHarness>(on: &mut AdapterUnderTest<H>) -> Verdict {
    let (described, _hears) = tally(ID);
    let actor = on.spawn(&described).await;
    actor.ask(Add(5)).await;
    assert_panicked(&actor.asked(PanicInReply).failure().await);
    assert_eq!(actor.ask(Add(1)).await, 6);
    assert_eq!(on.numbers().await, [1, 2]);
    Ok(())
}

/// P2: writes in flight and gathered finish before the recovery, and are in the state it recovers to.
pub(crate) async fn let_earlier_writes_finish<H: AdapterHarness>(on: &mut AdapterUnderTest<H>) -> Verdict {
    let (described, mut hears) = tally(ID);
    let actor = on.spawn(&described).await;
    on.journal().appends.close();
    let in_flight = actor.asked(Add(1));
    on.journal().appends.arrival().await;
    let gathered = actor.asked(Add(10));
    actor.handled(&mut hears).await;
    assert_panicked(&actor.asked(PanicInHandle).failure().await);
    let after = actor.asked(Add(100));
    on.journal().appends.open();
    assert_eq!(in_flight.reply().await, 1);
    assert_eq!(gathered.reply().await, 11);
    assert_eq!(after.reply().await, 111);
    Ok(())
}
