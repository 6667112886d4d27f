//! Another writer takes over.

use std::time::Duration;

use journal_core::{Backoff, Outcome, PersistError};

use crate::{adapter::*, runner::Verdict};

/// P9: a fenced actor stops and is not restarted by supervision: two supervisors would fence each other for ever.
pub(crate) async fn ends_the_actor_without_a_restart<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    let (described, _hears) = tally(ID);
    let soon = Backoff {
        shortest: Duration::from_millis(1),
        longest: Duration::from_millis(1),
    };
    let actor = on.spawn(&described.backoff(soon)).await;
    actor.ask(Add(5)).await;
    let mut other = on.another_writer().await?;
    let fenced = actor.asked(Add(2)).failure().await;
    assert!(matches!(fenced, PersistError::Fenced(_)), "{fenced}");
    a_while().await;
    assert_eq!(on.journal().claims_made(), 1);
    on.write(&mut other, &Tallied::Added(10))
        .await
        .expect("nobody has fenced the other writer");
    on.gone().await;
    Ok(())
}

/// P9: a later command through the reference may start it again, or else it is closed and the id can be spawned.
pub(crate) async fn lets_a_later_command_begin_again<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    let (described, _hears) = tally(ID);
    let actor = on.spawn(&described).await;
    actor.ask(Add(5)).await;
    let mut other = on.another_writer().await?;
    on.write(&mut other, &Tallied::Added(10))
        .await
        .expect("it has the id");
    let fenced = actor.asked(Add(2)).failure().await;
    assert!(matches!(fenced, PersistError::Fenced(_)), "{fenced}");
    on.gone().await;
    // The reference may not know yet that the actor is gone.
    a_while().await;
    let total = match actor.asked(Add(3)).await {
        Ok(reply) => reply.expect("the new life has the id"),
        Err(Closed) => on.spawn(&described).await.ask(Add(3)).await,
    };
    assert_eq!(total, 18);
    assert_eq!(on.numbers().await, [1, 2, 3]);
    assert_eq!(on.journal().claims_made(), 2);
    Ok(())
}

/// P6: fenced commands are answered at once with the error's outcome, those behind as never sent.
pub(crate) async fn stores_nothing_that_was_fenced<H: AdapterHarness>(
    on: &mut AdapterUnderTest<H>,
) -> Verdict {
    let (described, mut hears) = tally(ID);
    let actor = on.spawn(&described).await;
    on.journal().appends.close();
    let fenced = actor.asked(Announce(1));
    on.journal().appends.arrival().await;
    let behind = [actor.asked(Announce(2)), actor.asked(Read)];
    actor.handled(&mut hears).await;
    on.another_writer().await?;
    on.journal().appends.open();
    for reply in [fenced].into_iter().chain(behind) {
        let fenced = reply.failure().await;
        assert!(matches!(fenced, PersistError::Fenced(_)), "{fenced}");
        assert_eq!(fenced.outcome(), Outcome::NotStored);
    }
    on.gone().await;
    assert!(hears.effects().is_empty());
    assert!(on.numbers().await.is_empty());
    Ok(())
}
