//! Writes that certainly are not stored.

use std::time::Duration;

use journal_core::{Backoff, ErrorKind, PersistError, Signal};

use crate::{adapter::*, controlled::Fate, runner::Verdict};

/// P6: answered NotStored; the actor recovers in place and goes on.
pub(crate) async fn of_a_write_fails_its_command_alone<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    let (described, mut hears) = tally(ID);
    let actor = on.spawn(&described).await;
    actor.ask(Add(5)).await;
    on.journal().fate(Fate::NotStored(ErrorKind::Poisoned));
    let failed = actor.asked(Add(100)).failure().await;
    assert!(matches!(failed, PersistError::NotStored(_)), "{failed}");
    assert_eq!(actor.ask(Add(1)).await, 6);
    assert_eq!(on.numbers().await, [1, 2]);
    hears
        .signal(|signal| matches!(signal, Signal::PersistFailed(_)).then_some(()))
        .await;
    assert_eq!(hears.recovery().await, (0, 1));
    Ok(())
}

/// P6: repeated under the same claim, so that nobody notices.
pub(crate) async fn of_a_moment_is_not_seen<H: AdapterHarness>(on: &mut AdapterUnderTest<H>) -> Verdict {
    let (described, _hears) = tally(ID);
    let actor = on.spawn(&described).await;
    on.journal().fate(Fate::NotStored(ErrorKind::Unavailable));
    assert_eq!(actor.ask(Add(5)).await, 5);
    assert_eq!(on.journal().claims_made(), 1);
    assert_eq!(on.numbers().await, [1]);
    Ok(())
}

/// P6: the commands behind a failed write are answered NotStored and never run again.
pub(crate) async fn fails_what_was_handled_behind_it<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    let (described, mut hears) = tally(ID);
    let actor = on.spawn(&described).await;
    on.journal().appends.close();
    let first = actor.asked(Announce(1));
    on.journal().appends.arrival().await;
    let behind = [actor.asked(Announce(10)), actor.asked(Read)];
    let refusal = actor.asked(Refuse);
    actor.handled(&mut hears).await;
    on.journal().fate(Fate::NotStored(ErrorKind::Poisoned));
    on.journal().appends.open();
    for reply in [first].into_iter().chain(behind) {
        let failed = reply.failure().await;
        assert!(matches!(failed, PersistError::NotStored(_)), "{failed}");
    }
    // It may have been refused because of what is lost now.
    let refusal = refusal.failure().await;
    assert!(
        matches!(refusal, Refusal::Persist(PersistError::NotStored(_))),
        "{refusal:?}"
    );
    assert_eq!(actor.ask(Announce(100)).await, 100);
    assert_eq!(hears.effects(), [100]);
    assert_eq!(on.numbers().await, [1]);
    Ok(())
}

/// P6: recovery in place is the same actor with the same mailbox: commands not yet handled stay queued.
pub(crate) async fn spares_commands_not_yet_handled<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    let (described, _hears) = tally(ID);
    // Strict, so that they are still queued when the write fails.
    let actor = on.spawn(&described.strict()).await;
    on.journal().appends.close();
    let failing = actor.asked(Add(100));
    let queued: Vec<_> = (1..=9).map(|number| actor.asked(Add(number))).collect();
    on.journal().appends.arrival().await;
    on.journal().fate(Fate::NotStored(ErrorKind::Poisoned));
    on.journal().appends.open();
    let failed = failing.failure().await;
    assert!(matches!(failed, PersistError::NotStored(_)), "{failed}");
    for (reply, total) in queued.into_iter().zip([1, 3, 6, 10, 15, 21, 28, 36, 45]) {
        assert_eq!(reply.reply().await, total);
    }
    Ok(())
}

/// P7: the writes before the rejected one are stored; it and every command after it get the rejection.
pub(crate) async fn by_rejection_stores_what_came_before<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    let (described, mut hears) = tally(ID);
    let actor = on.spawn(&described).await;
    on.journal().appends.close();
    let first = actor.asked(Add(1));
    on.journal().appends.arrival().await;
    let before = actor.asked(Add(10));
    let rejected = [actor.asked(Add(20)), actor.asked(Add(30))];
    actor.handled(&mut hears).await;
    on.journal().appends.let_through(1);
    assert_eq!(first.reply().await, 1);
    on.journal().appends.arrival().await;
    on.journal().fate(Fate::Rejected(1));
    on.journal().appends.open();
    assert_eq!(before.reply().await, 11);
    for reply in rejected {
        let rejection = reply.failure().await;
        assert!(matches!(rejection, PersistError::Rejected(_)), "{rejection}");
    }
    assert_eq!(actor.ask(Add(100)).await, 111);
    assert_eq!(on.numbers().await, [1, 2, 3]);
    Ok(())
}

/// P6: a stop decided on lost state is dropped with it.
pub(crate) async fn drops_a_stop_decided_on_lost_state<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    let (described, _hears) = tally(ID);
    let actor = on.spawn(&described).await;
    on.journal().fate(Fate::NotStored(ErrorKind::Poisoned));
    let failed = actor.asked(Stop).failure().await;
    assert!(matches!(failed, PersistError::NotStored(_)), "{failed}");
    assert_eq!(actor.ask(Add(5)).await, 5);
    Ok(())
}

/// P6: an actor that cannot recover in place fails, and supervision starts it again behind the same reference, under
/// the backoff, until the journal is back.
pub(crate) async fn of_the_recovery_after_it_starts_the_actor_again<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    let backoff = Backoff {
        shortest: Duration::from_millis(20),
        longest: Duration::from_millis(50),
    };
    let (described, mut hears) = tally(ID);
    let actor = on.spawn(&described.backoff(backoff)).await;
    actor.ask(Add(5)).await;
    on.journal().set_down(true);
    on.journal().fate(Fate::StoredButUnknown);
    // Nobody can find out any more.
    let unknown = actor.asked(Add(2)).failure().await;
    assert!(matches!(unknown, PersistError::Unknown(_)), "{unknown}");
    while on.journal().claims_made() < 5 {
        a_while().await;
    }
    on.journal().set_down(false);
    assert_eq!(actor.read_again().await, 7);
    hears
        .signal(|signal| matches!(signal, Signal::RecoveryFailed(_)).then_some(()))
        .await;
    // The first claim was that of the spawn, the second that of the recovery in place.
    for (attempt, waited) in (0..).zip(on.journal().claim_waits().into_iter().skip(1)) {
        assert!(
            waited >= backoff.wait(attempt),
            "attempt {attempt} after {waited:?}"
        );
    }
    Ok(())
}

/// P6: nothing of a claim is sent any more once an append of it failed, or numbers would be missing.
pub(crate) async fn is_followed_by_no_write_of_the_same_claim<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    for fate in [Fate::NotStored(ErrorKind::Poisoned), Fate::LostButUnknown] {
        on.renew(1);
        let (described, mut hears) = tally(ID);
        let actor = on.spawn(&described).await;
        on.journal().appends.close();
        let first = actor.asked(Add(1));
        on.journal().appends.arrival().await;
        let gathered: Vec<_> = (0..5).map(|_| actor.asked(Add(10))).collect();
        actor.handled(&mut hears).await;
        on.journal().claims.close();
        on.journal().fate(fate);
        on.journal().appends.open();
        on.journal().claims.arrival().await;
        a_while().await;
        assert_eq!(on.journal().sizes(), [1]);
        on.journal().claims.open();
        for reply in [first].into_iter().chain(gathered) {
            let failed = reply.failure().await;
            assert!(matches!(failed, PersistError::NotStored(_)), "{failed}");
        }
        assert_eq!(actor.ask(Read).await, 0);
        assert_eq!(on.journal().sizes(), [1]);
        actor.stop().await;
        on.gone().await;
    }
    Ok(())
}
