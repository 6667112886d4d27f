//! Many actors at once.

use std::sync::Arc;

use journal_core::ReplayRange;
use tokio::task::JoinSet;

use crate::{
    journal::{Driven, JournalUnderTest, id, singles, writes},
    runner::Verdict,
};

/// Writers of many ids do not disturb each other.
pub(crate) async fn of_many_writers_keeps_each_id_whole(store: &mut JournalUnderTest) -> Verdict {
    let mut writers = JoinSet::new();
    for writer in 0..64 {
        let journal = store.shared();
        writers.spawn(async move {
            let id = id(&format!("account|{writer}"));
            let mut claim = journal.claimed(&id).await;
            for round in 0..20 {
                let text = format!("{writer}:{round}");
                let appended = journal.write(&mut claim, writes(&[&[&text], &["y", "z"]])).await;
                let appended = appended.expect("nobody else claims this id");
                assert_eq!(appended.first.get(), round * 3 + 1);
            }
        });
    }
    writers.join_all().await;
    for writer in 0..64 {
        let texts = store.journal().texts(&id(&format!("account|{writer}"))).await;
        let rounds = (0..20).flat_map(|round| [format!("{writer}:{round}"), "y".into(), "z".into()]);
        assert!(
            texts.into_iter().eq(rounds),
            "account|{writer} holds something else than was written"
        );
    }
    Ok(())
}

/// Everything at once, each id in its own state.
pub(crate) async fn of_all_calls_keeps_each_id_right(store: &mut JournalUnderTest) -> Verdict {
    let mut tasks = JoinSet::new();
    for task in 0..32 {
        let journal = store.shared();
        tasks.spawn(async move {
            let id = id(&format!("account|{task}"));
            let mut highest = 0;
            let mut claim = journal.claimed(&id).await;
            for round in 0..15 {
                match (task + round) % 5 {
                    0 => claim = journal.claimed(&id).await,
                    1 if highest > 2 => {
                        assert_eq!(journal.deleted(&id, highest - 2).await, highest - 2);
                    }
                    2 if round > 7 => {
                        journal.purge(&id).await.expect("purged");
                        claim = journal.claimed(&id).await;
                        highest = 0;
                    }
                    _ => {}
                }
                let appended = journal.write(&mut claim, singles(&["x", "y", "z"])).await;
                highest += 3;
                assert_eq!(appended.expect("stored").last.get(), highest);
                let deleted = journal.bounds_of(&id).await.deleted_to.get();
                let numbers = journal.numbers(&id, ReplayRange::ALL).await;
                assert!(numbers.into_iter().eq(deleted + 1..=highest), "{id}");
            }
        });
    }
    tasks.join_all().await;
    Ok(())
}

/// A claim of one id does not wait for another's.
pub(crate) async fn of_claims_waits_for_no_other_id(store: &mut JournalUnderTest) -> Verdict {
    let held: Vec<_> = {
        let mut claims = JoinSet::new();
        for number in 0..100 {
            let journal: Arc<_> = store.shared();
            claims.spawn(async move { journal.claimed(&id(&format!("account|{number}"))).await });
        }
        claims.join_all().await
    };
    assert_eq!(held.len(), 100);
    for mut claim in held {
        let appended = store.journal().write(&mut claim, singles(&["x"])).await;
        assert_eq!(appended.expect("stored").first.get(), 1);
    }
    Ok(())
}
