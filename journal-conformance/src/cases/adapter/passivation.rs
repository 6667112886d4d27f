//! Idle actors make room, and nobody notices.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use futures_util::future::join_all;
use journal_core::{Persistent, ReplayRange};
use tokio::runtime::Handle;

use crate::{
    adapter::*,
    journal::{Driven, id},
    runner::Verdict,
};

const SOON: Duration = Duration::from_millis(10);

fn passing(described: &Persistent<Tally>) -> Persistent<Tally> {
    described.clone().passivate_after(SOON)
}

/// The option `passivate_after`: nothing of an idle actor is left but its reference: the id is free, and who had it, the
/// state among the rest, is dropped. The next command through the reference begins the next life.
pub(crate) async fn ends_an_idle_actor_until_the_next_command<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    let (described, mut hears) = tally(ID);
    let actor = on.spawn(&passing(&described)).await;
    for life in 1..=5 {
        assert_eq!(actor.ask(Add(1)).await, life);
        on.gone().await;
        assert_eq!(
            hears.recovery().await.1,
            u64::try_from(life - 1).expect("few lives")
        );
    }
    assert!(!actor.ending().is_done());
    assert_eq!(on.numbers().await, [1, 2, 3, 4, 5]);
    Ok(())
}

/// An actor that nobody asked for anything is idle, too.
pub(crate) async fn ends_an_actor_that_was_never_used<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    let (described, _hears) = tally(ID);
    let actor = on.spawn_instant(&passing(&described)).await;
    while on.journal().claims_made() == 0 {
        a_while().await;
    }
    on.gone().await;
    assert_eq!(actor.ask(Add(1)).await, 1);
    Ok(())
}

/// The next life starts from the newest snapshot, as any other.
pub(crate) async fn goes_on_from_the_newest_snapshot<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    let (described, mut hears) = tally(ID);
    let actor = on
        .spawn(&passing(&described.snapshot_every(5).keep(1).delete_events()))
        .await;
    actor.ask(AddAll(vec![1; 5])).await;
    hears.round().await;
    actor.ask(Add(1)).await;
    on.gone().await;
    assert_eq!(actor.ask(Read).await, 6);
    assert_eq!(hears.recovery().await, (5, 1));
    Ok(())
}

/// What is not durable, or not answered, is no idleness.
pub(crate) async fn waits_for_writes<H: AdapterHarness>(on: &mut AdapterUnderTest<H>) -> Verdict {
    let (described, _hears) = tally(ID);
    let actor = on.spawn(&passing(&described)).await;
    on.journal().appends.close();
    let mut add = actor.asked(Add(5));
    on.journal().appends.arrival().await;
    add.assert_waits().await;
    assert!(on.is_live());
    assert_eq!(on.journal().claims_made(), 1);
    on.journal().appends.open();
    assert_eq!(add.reply().await, 5);
    on.gone().await;
    Ok(())
}

/// Nor is what is put aside, for as long as it takes.
pub(crate) async fn waits_for_the_stash<H: AdapterHarness>(on: &mut AdapterUnderTest<H>) -> Verdict {
    let (described, mut hears) = tally(ID);
    let actor = on.spawn(&passing(&described)).await;
    let mut aside = actor.asked(WaitFor(1, 5));
    assert_eq!(hears.handled(1).await, [1]);
    aside.assert_waits().await;
    assert!(on.is_live());
    assert_eq!(actor.ask(AddAndUnstash(5)).await, 5);
    assert_eq!(aside.reply().await, 5);
    assert_eq!(on.journal().claims_made(), 1);
    on.gone().await;
    Ok(())
}

/// An actor that is used now and then stays.
pub(crate) async fn spares_an_actor_in_use<H: AdapterHarness>(on: &mut AdapterUnderTest<H>) -> Verdict {
    const SELDOM: Duration = Duration::from_millis(400);
    let (described, _hears) = tally(ID);
    let actor = on.spawn(&described.passivate_after(SELDOM)).await;
    for total in 1..=20 {
        assert_eq!(actor.ask(Add(1)).await, total);
        tokio::time::sleep(SELDOM / 8).await;
    }
    assert_eq!(on.journal().claims_made(), 1);
    Ok(())
}

/// Commands that race with it are handled by the old life or by the next one: each once, in the order of its sender.
pub(crate) async fn loses_and_doubles_nothing_in_a_flood<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    const SENDERS: usize = 4;
    const EACH: usize = 300;
    let (described, _hears) = tally(ID);
    let described = described.passivate_after(Duration::from_millis(1));
    let actor = on.spawn(&described).await;
    let numbers = Arc::new(AtomicI64::new(1));
    let senders = (0..SENDERS).map(|sender| {
        let (reference, numbers) = (actor.0.clone(), numbers.clone());
        let mut dice = fastrand::Rng::with_seed(u64::try_from(sender).expect("a few"));
        Handle::current().spawn(async move {
            let mut sent = Vec::new();
            for _ in 0..EACH {
                let number = numbers.fetch_add(1, Ordering::SeqCst);
                H::tell(&reference, Give(number));
                sent.push(number);
                // About as long as an idle actor stays.
                tokio::time::sleep(Duration::from_micros(dice.u64(0..8_000))).await;
            }
            sent
        })
    });
    let sent = join_all(senders.collect::<Vec<_>>()).await;
    let all: i64 = (1..numbers.load(Ordering::SeqCst)).sum();
    assert_eq!(actor.ask(Read).await, all);
    on.gone().await;
    let records = on.journal().inner().records(&id(ID), ReplayRange::ALL).await;
    let stored = decoded(&id(ID), &records);
    assert_eq!(stored.len(), SENDERS * EACH);
    for sent in sent {
        let sent = sent.expect("the sender ends");
        let in_order: Vec<_> = stored
            .iter()
            .copied()
            .filter(|number| sent.contains(number))
            .collect();
        assert_eq!(in_order, sent);
    }
    // Else this was no test of what races.
    let lives = on.journal().claims_made();
    assert!(lives > 10, "{lives} lives");
    Ok(())
}

/// A passive actor can be stopped, and is closed then.
pub(crate) async fn can_be_followed_by_a_stop<H: AdapterHarness>(on: &mut AdapterUnderTest<H>) -> Verdict {
    let (described, _hears) = tally(ID);
    let actor = on.spawn(&passing(&described)).await;
    actor.ask(Add(5)).await;
    on.gone().await;
    actor.stop().await;
    actor.ended().await;
    actor.assert_closed().await;
    assert_eq!(on.journal().claims_made(), 1);
    let next = on.spawn(&described).await;
    assert_eq!(next.ask(Read).await, 5);
    Ok(())
}

/// The same, killed.
pub(crate) async fn can_be_followed_by_a_kill<H: AdapterHarness>(on: &mut AdapterUnderTest<H>) -> Verdict {
    let (described, _hears) = tally(ID);
    let actor = on.spawn(&passing(&described)).await;
    actor.ask(Add(5)).await;
    on.gone().await;
    actor.kill().await?;
    actor.ended().await;
    actor.assert_closed().await;
    Ok(())
}

/// A passive actor holds nothing: somebody else may have its id, and it gets it back afterwards.
pub(crate) async fn leaves_the_id_to_others<H: AdapterHarness>(on: &mut AdapterUnderTest<H>) -> Verdict {
    let (described, _hears) = tally(ID);
    let passive = on.spawn(&passing(&described)).await;
    passive.ask(Add(5)).await;
    on.gone().await;
    let other = on.spawn(&described).await;
    assert_eq!(other.ask(Add(1)).await, 6);
    assert_not_done(&passive.asked(Add(100)).await);
    other.stop().await;
    on.gone().await;
    assert_eq!(passive.read_again().await, 6);
    Ok(())
}
