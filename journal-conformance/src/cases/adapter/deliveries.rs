//! What an actor owes to others until it is confirmed.

use std::time::Duration;

use journal_core::{Backoff, ErrorKind, PersistError, RecoveryError, Redelivery, Signal};

use crate::{adapter::*, controlled::Fate, runner::Verdict};

/// Waits that no case waits for.
const ONCE: Redelivery = Redelivery {
    backoff: Backoff {
        shortest: Duration::from_secs(3_600),
        longest: Duration::from_secs(3_600),
    },
    ..Redelivery::DEFAULT
};

/// Waits that a case can wait for.
const SOON: Redelivery = Redelivery {
    backoff: Backoff {
        shortest: Duration::from_millis(5),
        longest: Duration::from_millis(5),
    },
    attempts: u32::MAX,
    ..Redelivery::DEFAULT
};

const ONE: Parcel = Parcel::Holding(1);
const TWO: Parcel = Parcel::Holding(2);
const THREE: Parcel = Parcel::Holding(3);

/// P10, P1: what is to be seen waits for its events.
pub(crate) async fn are_sent_once_durable_in_the_order_of_the_commands<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    let (described, mut hears) = tally(ID);
    let actor = on.spawn(&described.delivers().redelivery(ONCE)).await;
    on.journal().appends.close();
    let mut first = actor.asked(Deliver(vec![ONE, TWO]));
    on.journal().appends.arrival().await;
    let second = actor.asked(Deliver(vec![THREE]));
    actor.handled(&mut hears).await;
    first.assert_waits().await;
    assert_eq!(hears.deliveries(), []);
    on.journal().appends.open();
    assert_eq!((first.reply().await, second.reply().await), (1, 2));
    assert_eq!(hears.sent(3).await, [(2, ONE), (3, TWO), (5, THREE)]);
    assert_eq!(on.numbers().await, [1, 2, 3, 4, 5]);
    Ok(())
}

/// P10: only what is stored is owed.
pub(crate) async fn of_a_write_that_fails_are_not_sent<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    let (described, mut hears) = tally(ID);
    let actor = on.spawn(&described.delivers().redelivery(SOON)).await;
    on.journal().fate(Fate::NotStored(ErrorKind::Poisoned));
    let failed = actor.asked(Deliver(vec![ONE])).failure().await;
    assert!(matches!(failed, PersistError::NotStored(_)), "{failed}");
    // The lost one's number is another's.
    assert_eq!(actor.ask(Deliver(vec![TWO])).await, 1);
    assert_eq!(hears.sent(3).await, [(2, TWO); 3]);
    Ok(())
}

/// P10: until the confirmation is durable, and not once after it.
pub(crate) async fn are_sent_again_until_they_are_confirmed<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    let (described, mut hears) = tally(ID);
    let actor = on.spawn(&described.delivers().redelivery(SOON)).await;
    actor.ask(Deliver(vec![ONE])).await;
    assert_eq!(hears.sent(3).await, [(2, ONE); 3]);
    on.journal().appends.close();
    let confirmed = actor.asked(Confirm(2));
    on.journal().appends.arrival().await;
    hears.deliveries();
    assert_eq!(hears.sent(3).await, [(2, ONE); 3]);
    on.journal().appends.open();
    confirmed.reply().await;
    hears.deliveries();
    a_while().await;
    assert_eq!(hears.deliveries(), []);
    assert_eq!(on.numbers().await, [1, 2, 3]);
    Ok(())
}

/// P10: also in another process, with the same id.
pub(crate) async fn are_sent_again_by_the_next_life<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    let (described, mut hears) = tally(ID);
    let described = described.delivers().redelivery(ONCE);
    let actor = on.spawn(&described).await;
    actor.ask(Deliver(vec![ONE, TWO])).await;
    actor.ask(Confirm(2)).await;
    actor.stop().await;
    assert_eq!(hears.sent(2).await, [(2, ONE), (3, TWO)]);
    on.restart().await;
    let actor = on.spawn(&described).await;
    actor.ask(Deliver(vec![THREE])).await;
    // What is older comes first.
    assert_eq!(hears.sent(2).await, [(3, TWO), (6, THREE)]);
    a_while().await;
    assert_eq!(hears.deliveries(), []);
    Ok(())
}

/// P10, P8: what was handled is stored, and what is stored is sent.
pub(crate) async fn are_sent_again_after_a_kill<H: AdapterHarness>(on: &mut AdapterUnderTest<H>) -> Verdict {
    let (described, mut hears) = tally(ID);
    let described = described.delivers().redelivery(SOON);
    let killed = on.spawn(&described).await;
    on.journal().appends.close();
    let in_flight = killed.asked(Deliver(vec![ONE]));
    on.journal().appends.arrival().await;
    let gathered = killed.asked(Deliver(vec![TWO]));
    killed.handled(&mut hears).await;
    killed.kill().await?;
    on.journal().appends.open();
    assert_eq!((in_flight.reply().await, gathered.reply().await), (1, 2));
    on.gone().await;
    // The dead one may have sent them once.
    hears.deliveries();
    a_while().await;
    assert_eq!(hears.deliveries(), []);
    let successor = on.spawn(&described).await;
    assert_eq!(hears.sent(2).await, [(2, ONE), (4, TWO)]);
    assert_eq!(successor.ask(Read).await, 2);
    Ok(())
}

/// P10, P6: a recovery in place is a recovery.
pub(crate) async fn are_sent_again_after_a_failed_write<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    let (described, mut hears) = tally(ID);
    let actor = on.spawn(&described.delivers().redelivery(ONCE)).await;
    actor.ask(Deliver(vec![ONE])).await;
    assert_eq!(hears.sent(1).await, [(2, ONE)]);
    on.journal().fate(Fate::NotStored(ErrorKind::Poisoned));
    actor.asked(Confirm(2)).failure().await;
    assert_eq!(hears.sent(1).await, [(2, ONE)]);
    actor.ask(Confirm(2)).await;
    actor.asked(PanicInHandle).failure().await;
    assert_eq!(actor.ask(Read).await, 1);
    assert_eq!(hears.deliveries(), []);
    Ok(())
}

/// P10, P5: a snapshot carries them.
pub(crate) async fn are_kept_where_their_events_are_deleted<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    let (described, mut hears) = tally(ID);
    let described = described.delivers().redelivery(ONCE);
    let described = described.snapshot_every(4).keep(1).delete_events();
    let actor = on.spawn(&described).await;
    actor.ask(Deliver(vec![ONE, TWO])).await;
    actor.ask(Add(1)).await;
    assert_eq!(hears.deletion().await, 4);
    actor.stop().await;
    on.restart().await;
    assert_eq!(hears.sent(2).await, [(2, ONE), (3, TWO)]);
    let actor = on.spawn(&described).await;
    assert_eq!(hears.sent(2).await, [(2, ONE), (3, TWO)]);
    assert_eq!(actor.ask(Read).await, 2);
    Ok(())
}

/// P10: bounded in one life, and begun again by the next.
pub(crate) async fn that_are_given_up_become_a_signal<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    let (described, mut hears) = tally(ID);
    let thrice = Redelivery { attempts: 3, ..SOON };
    let described = described.delivers().redelivery(thrice);
    for life in 0..2 {
        let actor = on.spawn(&described).await;
        if life == 0 {
            actor.ask(Deliver(vec![ONE])).await;
        }
        let given_up = hears.signal(|signal| match signal {
            Signal::DeliveryGivenUp { id, attempts, .. } => Some((id.get(), *attempts)),
            _ => None,
        });
        assert_eq!(given_up.await, (2, 3));
        a_while().await;
        assert_eq!(hears.deliveries(), [(2, ONE); 3]);
        actor.stop().await;
    }
    Ok(())
}

/// P10, P2: the next ones are sent, the one itself again.
pub(crate) async fn that_panic_harm_nobody<H: AdapterHarness>(on: &mut AdapterUnderTest<H>) -> Verdict {
    let (described, mut hears) = tally(ID);
    let actor = on.spawn(&described.delivers().redelivery(SOON)).await;
    actor.ask(Deliver(vec![Parcel::Fragile, TWO])).await;
    hears
        .signal(|signal| matches!(signal, Signal::EffectPanicked(_)).then_some(()))
        .await;
    let both = [(2, Parcel::Fragile), (3, TWO)];
    assert_eq!(hears.sent(4).await, [both, both].concat());
    assert_eq!(actor.ask(Add(1)).await, 2);
    assert_eq!(on.journal().claims_made(), 1);
    Ok(())
}

/// P10, P9: another one delivers now.
pub(crate) async fn end_with_a_fenced_actor<H: AdapterHarness>(on: &mut AdapterUnderTest<H>) -> Verdict {
    let (described, mut hears) = tally(ID);
    let actor = on.spawn(&described.delivers().redelivery(SOON)).await;
    actor.ask(Deliver(vec![ONE])).await;
    assert_eq!(hears.sent(1).await, [(2, ONE)]);
    on.another_writer().await?;
    let fenced = actor.asked(Deliver(vec![TWO])).failure().await;
    assert!(matches!(fenced, PersistError::Fenced(_)), "{fenced}");
    hears.deliveries();
    a_while().await;
    assert_eq!(hears.deliveries(), []);
    Ok(())
}

/// P10: what is owed is neither taken on nor forgotten by an actor that does not deliver.
pub(crate) async fn are_refused_where_nobody_delivers<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    let (described, _hears) = tally(ID);
    let actor = on.spawn(&described).await;
    let refused = actor.asked(Deliver(vec![ONE])).failure().await;
    assert!(matches!(refused, PersistError::NotDelivering), "{refused}");
    assert_eq!(actor.ask(Read).await, 0);
    actor.stop().await;
    let actor = on.spawn(&described.clone().delivers().redelivery(ONCE)).await;
    actor.ask(Deliver(vec![ONE])).await;
    actor.stop().await;
    let Err(failed) = on.try_spawn(&described).await else {
        panic!("it recovers without what it owes");
    };
    assert!(
        matches!(failed, RecoveryError::NotDelivering { unconfirmed: 1, .. }),
        "{failed}"
    );
    Ok(())
}
