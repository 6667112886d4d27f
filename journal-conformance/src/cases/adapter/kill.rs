//! Ends that are not graceful.

use std::time::Duration;

use journal_core::{Backoff, PersistError};

use crate::{adapter::*, controlled::Fate, runner::Verdict};

/// P8: writes in flight and gathered are still written and released; only then may a successor claim.
pub(crate) async fn loses_nothing_that_was_handled<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    let (described, mut hears) = tally(ID);
    let killed = on.spawn(&described).await;
    on.journal().appends.close();
    let mut in_flight = killed.asked(Add(5));
    on.journal().appends.arrival().await;
    let mut gathered = killed.asked(Announce(2));
    killed.handled(&mut hears).await;
    killed.kill().await?;
    killed.assert_closed().await;
    let successor = on.spawn_instant(&described).await;
    let read = successor.asked(Read);
    in_flight.assert_waits().await;
    assert!(!gathered.is_done());
    assert_eq!(on.journal().claims_made(), 1);
    on.journal().appends.open();
    assert_eq!(in_flight.reply().await, 5);
    assert_eq!(gathered.reply().await, 7);
    assert_eq!(hears.effects(), [7]);
    assert_eq!(read.reply().await, 7);
    Ok(())
}

/// P8: only unhandled commands are lost, and their callers hear of it.
pub(crate) async fn closes_what_is_queued<H: AdapterHarness>(on: &mut AdapterUnderTest<H>) -> Verdict {
    let (described, _hears) = tally(ID);
    // Strict, so that the second one is still queued.
    let killed = on.spawn(&described.clone().strict()).await;
    on.journal().appends.close();
    let in_flight = killed.asked(Add(5));
    let queued = killed.asked(Add(2));
    on.journal().appends.arrival().await;
    killed.kill().await?;
    assert!(matches!(queued.await, Err(Closed)));
    on.journal().appends.open();
    assert_eq!(in_flight.reply().await, 5);
    let successor = on.spawn(&described).await;
    assert_eq!(successor.ask(Read).await, 5);
    Ok(())
}

/// P8: whoever kills wants the end.
pub(crate) async fn is_not_followed_by_a_restart<H: AdapterHarness>(on: &mut AdapterUnderTest<H>) -> Verdict {
    let (described, _hears) = tally(ID);
    let soon = Backoff {
        shortest: Duration::from_millis(1),
        longest: Duration::from_millis(1),
    };
    let killed = on.spawn(&described.backoff(soon)).await;
    killed.ask(Add(5)).await;
    killed.kill().await?;
    a_while().await;
    killed.assert_closed().await;
    killed.ended().await;
    on.gone().await;
    assert_eq!(on.journal().claims_made(), 1);
    Ok(())
}

/// P6, P8: the outcome of a write is lost, and nobody is left who could find out: its caller is told that it is unknown.
pub(crate) async fn leaves_nobody_without_an_answer<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    let (described, _hears) = tally(ID);
    let killed = on.spawn(&described).await;
    on.journal().appends.close();
    let in_flight = killed.asked(Add(5));
    on.journal().appends.arrival().await;
    killed.kill().await?;
    on.journal().fate(Fate::StoredButUnknown);
    on.journal().appends.open();
    assert_unknown(&in_flight.failure().await);
    on.gone().await;

    let killed = on.spawn(&described).await;
    on.journal().claims.close();
    on.journal().fate(Fate::StoredButUnknown);
    let mut in_flight = killed.asked(Add(2));
    // Its recovery would find out.
    on.journal().claims.arrival().await;
    in_flight.assert_waits().await;
    killed.kill().await?;
    assert_unknown(&in_flight.failure().await);
    on.journal().claims.open();
    let successor = on.spawn(&described).await;
    assert_eq!(successor.ask(Read).await, 7);
    Ok(())
}

fn assert_unknown(failure: &PersistError) {
    assert!(matches!(failure, PersistError::Unknown(_)), "{failure}");
}
