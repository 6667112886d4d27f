//! The journal is away, and comes back.

use std::time::Duration;

use futures_util::future::join_all;
use journal_core::{Backoff, Outcome, Persistence};

use crate::{adapter::*, runner::Verdict};

const ACTORS: usize = 30;

/// R, P6: no actor stays away: each recovers in the end with what it had acknowledged, and nothing stays taken.
pub(crate) async fn is_survived_by_every_actor<H: AdapterHarness>(on: &mut AdapterUnderTest<H>) -> Verdict {
    let backoff = Backoff {
        shortest: Duration::from_millis(5),
        longest: Duration::from_millis(20),
    };
    let mut actors = Vec::new();
    for number in 0..ACTORS {
        let (described, _hears) = tally(&format!("tally|{number}"));
        actors.push(on.spawn(&described.backoff(backoff)).await);
    }
    for actor in &actors {
        assert_eq!(actor.ask(Add(1)).await, 1);
    }
    on.journal().set_down(true);
    let lost: Vec<_> = actors
        .iter()
        .flat_map(|actor| [actor.asked(Add(10)), actor.asked(Read)])
        .collect();
    for reply in join_all(lost).await {
        match reply {
            Ok(Err(error)) => assert_eq!(error.outcome(), Outcome::NotStored, "{error}"),
            Ok(Ok(total)) => panic!("{total}, with the journal away"),
            Err(Closed) => {}
        }
    }
    // Long enough for an actor that gives up after a few attempts.
    let claimed = on.journal().claims_made();
    while on.journal().claims_made() < claimed + 20 * ACTORS {
        a_while().await;
    }
    on.journal().set_down(false);
    for actor in &actors {
        assert_eq!(actor.read_again().await, 1);
        assert_eq!(actor.ask(Add(100)).await, 101);
    }
    on.permits_are_back(Persistence::DEFAULT_PERMITS).await;
    Ok(())
}
