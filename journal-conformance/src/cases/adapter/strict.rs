//! One write at a time, for actors that want it.

use crate::{adapter::*, runner::Verdict};

/// The option `strict`: the next command waits until the former one is durable.
pub(crate) async fn writes_one_command_at_a_time<H: AdapterHarness>(on: &mut AdapterUnderTest<H>) -> Verdict {
    let (described, _hears) = tally(ID);
    let actor = on.spawn(&described.strict()).await;
    on.journal().appends.close();
    let asked: Vec<_> = (1..=3).map(|number| actor.asked(Add(number))).collect();
    for _ in 0..3 {
        on.journal().appends.arrival().await;
        a_while().await;
        on.journal().appends.let_through(1);
    }
    for (reply, total) in asked.into_iter().zip([1, 3, 6]) {
        assert_eq!(reply.reply().await, total);
    }
    assert_eq!(on.journal().sizes(), [1, 1, 1]);
    Ok(())
}
