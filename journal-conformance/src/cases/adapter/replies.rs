//! Output commit: nobody sees what a crash could take back.

use journal_core::{ErrorKind, PersistError, Signal};

use crate::{adapter::*, controlled::Fate, runner::Verdict};

/// P1: replies of events, of read-only commands and of refusals are withheld until the newest event is durable.
pub(crate) async fn are_withheld_until_all_before_is_durable<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    let (described, mut hears) = tally(ID);
    let actor = on.spawn(&described).await;
    on.journal().appends.close();
    let mut add = actor.asked(Add(5));
    on.journal().appends.arrival().await;
    let mut read = actor.asked(Read);
    let mut refusal = actor.asked(Refuse);
    let mut unencodable = actor.asked(Unencodable);
    actor.handled(&mut hears).await;
    let mut behind = actor.asked(Add(1));
    let mut read_behind = actor.asked(Read);
    actor.handled(&mut hears).await;
    add.assert_waits().await;
    assert!(!read.is_done() && !refusal.is_done() && !unencodable.is_done());
    on.journal().appends.let_through(1);
    assert_eq!(add.reply().await, 5);
    assert_eq!(read.reply().await, 5);
    let refusal = refusal.failure().await;
    assert!(matches!(refusal, Refusal::Invalid), "{refusal:?}");
    let rejected = unencodable.failure().await;
    assert!(matches!(rejected, PersistError::Rejected(_)), "{rejected}");
    on.journal().appends.arrival().await;
    behind.assert_waits().await;
    assert!(!read_behind.is_done());
    on.journal().appends.open();
    assert_eq!(behind.reply().await, 6);
    assert_eq!(read_behind.reply().await, 6);
    Ok(())
}

/// P1: released in command order.
pub(crate) async fn come_in_the_order_of_the_commands<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    let (described, mut hears) = tally(ID);
    let actor = on.spawn(&described).await;
    let mut expected = Vec::new();
    let mut asked = Vec::new();
    for number in 1..=200 {
        expected.push(expected.last().unwrap_or(&0) + number);
        asked.push(actor.asked(Announce(number)));
    }
    let mut replies = Vec::new();
    for reply in asked {
        replies.push(reply.reply().await);
    }
    assert_eq!(replies, expected);
    assert_eq!(hears.effects(), expected);
    Ok(())
}

/// P2: a reply is computed on the state right after its command's own events, whatever was handled since.
pub(crate) async fn show_the_state_right_after_their_command<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    let (described, mut hears) = tally(ID);
    let actor = on.spawn(&described).await;
    on.journal().appends.close();
    let first = actor.asked(Announce(1));
    on.journal().appends.arrival().await;
    let rest = [
        actor.asked(Announce(10)),
        actor.asked(Read),
        actor.asked(Announce(100)),
    ];
    actor.handled(&mut hears).await;
    on.journal().appends.open();
    assert_eq!(first.reply().await, 1);
    for (reply, total) in rest.into_iter().zip([11, 11, 111]) {
        assert_eq!(reply.reply().await, total);
    }
    assert_eq!(hears.effects(), [1, 11, 111]);
    Ok(())
}

/// P3: a refused command changes nothing, consumes no number, and needs no recovery.
pub(crate) async fn of_a_refused_command_leave_no_trace<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    let (described, _hears) = tally(ID);
    let actor = on.spawn(&described).await;
    actor.ask(Add(5)).await;
    let rejected = actor.asked(Unencodable).failure().await;
    assert!(matches!(rejected, PersistError::Rejected(_)), "{rejected}");
    let refused = actor.asked(Refuse).failure().await;
    assert!(matches!(refused, Refusal::Invalid), "{refused:?}");
    assert_eq!(actor.ask(Add(1)).await, 6);
    assert_eq!(on.numbers().await, [1, 2]);
    assert_eq!(on.journal().claims_made(), 1);
    Ok(())
}

/// P1, for commands without a caller: their failure is a signal.
pub(crate) async fn that_nobody_waits_for_become_signals<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    let (described, mut hears) = tally(ID);
    let actor = on.spawn(&described).await;
    on.journal().fate(Fate::NotStored(ErrorKind::Poisoned));
    actor.tell(Give(5));
    let failure = hears.signal(|signal| match signal {
        Signal::CommandFailed(error) => Some(error.clone()),
        _ => None,
    });
    let failure = failure.await;
    assert!(matches!(failure, PersistError::NotStored(_)), "{failure}");
    actor.tell(Give(2));
    assert_eq!(actor.ask(Read).await, 2);
    Ok(())
}

/// P4: one append in flight; what gathers meanwhile is the next one.
pub(crate) async fn of_what_gathers_share_an_append<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    let (described, mut hears) = tally(ID);
    let actor = on.spawn(&described).await;
    on.journal().appends.close();
    let first = actor.asked(Add(1));
    on.journal().appends.arrival().await;
    let gathered: Vec<_> = (0..8).map(|_| actor.asked(Add(1))).collect();
    actor.handled(&mut hears).await;
    on.journal().appends.open();
    assert_eq!(first.reply().await, 1);
    for (reply, total) in gathered.into_iter().zip(2..) {
        assert_eq!(reply.reply().await, total);
    }
    assert_eq!(on.journal().sizes(), [1, 8]);
    Ok(())
}
