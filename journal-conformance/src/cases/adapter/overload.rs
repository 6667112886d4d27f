//! More commands than may wait.

use journal_core::PersistError;

use crate::{adapter::*, runner::Verdict};

const MOST: usize = 10;

/// The option `max_waiting`: what is beyond the bound is answered `Overloaded`, and nothing of it was done.
pub(crate) async fn is_answered_and_leaves_no_trace<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    let (described, _hears) = tally(ID);
    let actor = on.spawn(&described.max_waiting(MOST)).await;
    on.journal().appends.close();
    let flood: Vec<_> = (0..100).map(|_| actor.asked(Add(1))).collect();
    is_bounded(on, &actor, flood).await;
    Ok(())
}

/// The same, where the commands came before the actor was ready.
pub(crate) async fn while_recovering_is_answered<H: AdapterHarness>(on: &mut AdapterUnderTest<H>) -> Verdict {
    let (described, _hears) = tally(ID);
    on.journal().appends.close();
    on.journal().claims.close();
    let actor = on.spawn_instant(&described.max_waiting(MOST)).await;
    on.journal().claims.arrival().await;
    let flood: Vec<_> = (0..100).map(|_| actor.asked(Add(1))).collect();
    on.journal().claims.open();
    is_bounded(on, &actor, flood).await;
    Ok(())
}

/// No append is let through yet, so that everything accepted waits.
async fn is_bounded<H: AdapterHarness>(
    on: &AdapterUnderTest<H>,
    actor: &Actor<H>,
    mut flood: Vec<Begun<Result<Reply, Closed>>>,
) {
    let excess = flood.split_off(MOST);
    let answered = excess.len();
    for reply in excess {
        let overloaded = reply.failure().await;
        assert!(
            matches!(overloaded, PersistError::Overloaded { waiting, .. } if waiting >= MOST),
            "{overloaded}"
        );
    }
    assert_eq!(answered, 90);
    assert!(!flood.iter_mut().any(Begun::is_done));
    on.journal().appends.open();
    for (reply, total) in flood.into_iter().zip(1..) {
        assert_eq!(reply.reply().await, total);
    }
    assert_eq!(actor.ask(Read).await, 10);
    assert_eq!(on.numbers().await, (1..=10).collect::<Vec<_>>());
}
