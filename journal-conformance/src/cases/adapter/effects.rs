//! What runs once a command is durable.

use journal_core::{ErrorKind, PersistError, Signal};

use crate::{adapter::*, controlled::Fate, runner::Verdict};

/// P1: released with the reply, so that whoever has it finds them done.
pub(crate) async fn are_done_before_their_reply<H: AdapterHarness>(on: &mut AdapterUnderTest<H>) -> Verdict {
    let (described, mut hears) = tally(ID);
    let actor = on.spawn(&described).await;
    on.journal().appends.close();
    let mut announced = actor.asked(Announce(5));
    on.journal().appends.arrival().await;
    announced.assert_waits().await;
    assert!(hears.effects().is_empty());
    on.journal().appends.open();
    assert_eq!(announced.reply().await, 5);
    assert_eq!(hears.effects(), [5]);
    Ok(())
}

/// P1: only on success.
pub(crate) async fn of_a_write_that_fails_do_not_run<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    let (described, mut hears) = tally(ID);
    let actor = on.spawn(&described).await;
    on.journal().fate(Fate::NotStored(ErrorKind::Poisoned));
    let failed = actor.asked(Announce(5)).failure().await;
    assert!(matches!(failed, PersistError::NotStored(_)), "{failed}");
    assert_eq!(actor.ask(Announce(2)).await, 2);
    assert_eq!(hears.effects(), [2]);
    Ok(())
}

/// P2: a panic of what runs at release is caught and signalled; its command is stored and answered.
pub(crate) async fn that_panic_harm_nobody<H: AdapterHarness>(on: &mut AdapterUnderTest<H>) -> Verdict {
    let (described, mut hears) = tally(ID);
    let actor = on.spawn(&described).await;
    let panics = actor.asked(Do(Box::new(|| panic!("the effect panics, as the case wants"))));
    let next = actor.asked(Announce(5));
    assert_eq!(panics.reply().await, 1);
    assert_eq!(next.reply().await, 6);
    assert_eq!(hears.effects(), [6]);
    hears
        .signal(|signal| matches!(signal, Signal::EffectPanicked(_)).then_some(()))
        .await;
    assert_eq!(on.journal().claims_made(), 1);
    Ok(())
}

/// P2: no user code runs under a lock: an effect may send to its own actor.
pub(crate) async fn may_use_the_actor<H: AdapterHarness>(on: &mut AdapterUnderTest<H>) -> Verdict {
    let (described, mut hears) = tally(ID);
    let actor = on.spawn(&described).await;
    let reference = actor.0.clone();
    let tells = actor.asked(Do(Box::new(move || H::tell(&reference, Note(7)))));
    assert_eq!(tells.reply().await, 1);
    assert_eq!(hears.handled(7).await, [7]);
    Ok(())
}

/// P1: a command without events has effects all the same, in its turn.
pub(crate) async fn of_a_command_without_events_come_in_turn<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    let (described, _hears) = tally(ID);
    let actor = on.spawn(&described).await;
    on.journal().appends.close();
    let add = actor.asked(Add(5));
    on.journal().appends.arrival().await;
    let mut nothing = actor.asked(AddAll(Vec::new()));
    nothing.assert_waits().await;
    on.journal().appends.open();
    assert_eq!(add.reply().await, 5);
    assert_eq!(nothing.reply().await, 5);
    assert_eq!(on.numbers().await, [1]);
    assert_eq!(on.journal().sizes(), [1]);
    Ok(())
}

/// The effect `unhandled`: nobody has to notice it elsewhere.
pub(crate) async fn of_an_unhandled_command_are_a_signal<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    let (described, mut hears) = tally(ID);
    let actor = on.spawn(&described).await;
    actor.tell(Unknown);
    hears
        .signal(|signal| matches!(signal, Signal::Unhandled).then_some(()))
        .await;
    assert_eq!(actor.ask(Add(1)).await, 1);
    Ok(())
}
