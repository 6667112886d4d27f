//! Graceful ends.

use journal_core::PersistError;

use crate::{adapter::*, runner::Verdict};

/// P8: an external stop finishes and releases all handled commands; later ones are closed.
pub(crate) async fn finishes_what_is_handled<H: AdapterHarness>(on: &mut AdapterUnderTest<H>) -> Verdict {
    let (described, mut hears) = tally(ID);
    let actor = on.spawn(&described).await;
    on.journal().appends.close();
    let in_flight = actor.asked(Add(5));
    on.journal().appends.arrival().await;
    let gathered = actor.asked(Announce(2));
    actor.handled(&mut hears).await;
    let mut stopping = actor.stopping();
    stopping.assert_waits().await;
    on.journal().appends.let_through(1);
    assert_eq!(in_flight.reply().await, 5);
    on.journal().appends.arrival().await;
    stopping.assert_waits().await;
    on.journal().appends.open();
    stopping.await;
    assert_eq!(gathered.reply().await, 7);
    assert_eq!(hears.effects(), [7]);
    actor.assert_closed().await;
    assert_eq!(on.numbers().await, [1, 2]);
    Ok(())
}

/// P8: after a handled stop, once it is durable, the actor ends and later commands are closed, for ever.
pub(crate) async fn that_is_handled_ends_the_actor<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    let (described, _hears) = tally(ID);
    let actor = on.spawn(&described).await;
    actor.ask(Add(5)).await;
    assert_eq!(actor.ask(Stop).await, 5);
    actor.ended().await;
    actor.assert_closed().await;
    on.gone().await;
    let next = on.spawn(&described).await;
    assert_eq!(next.ask(Read).await, 5);
    actor.assert_closed().await;
    Ok(())
}

/// P1, P8: the stop is withheld like a reply; what is handled behind it meanwhile is refused at once.
pub(crate) async fn that_is_handled_refuses_what_follows<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    let (described, _hears) = tally(ID);
    let actor = on.spawn(&described).await;
    on.journal().appends.close();
    let mut stop = actor.asked(Stop);
    on.journal().appends.arrival().await;
    let refused = actor.asked(Add(1)).failure().await;
    assert!(matches!(refused, PersistError::Stopped), "{refused}");
    stop.assert_waits().await;
    assert!(on.is_live());
    on.journal().appends.open();
    assert_eq!(stop.reply().await, 0);
    actor.ended().await;
    assert_eq!(on.numbers().await, [1]);
    Ok(())
}

/// P8: a successor recovers all that was acknowledged.
pub(crate) async fn frees_the_id<H: AdapterHarness>(on: &mut AdapterUnderTest<H>) -> Verdict {
    let (described, _hears) = tally(ID);
    for total in 1..=5 {
        let actor = on.spawn(&described).await;
        assert_eq!(actor.ask(Add(1)).await, total);
        actor.stop().await;
    }
    on.gone().await;
    assert_eq!(on.numbers().await, [1, 2, 3, 4, 5]);
    Ok(())
}
