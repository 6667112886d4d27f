//! Flush and shutdown.

use futures_util::{StreamExt, future::join};
use journal_core::{AppendPart, ErrorKind, ReplayRange, WriterId};

use crate::{
    journal::{Driven, JournalUnderTest, id, plain_deletion, singles},
    runner::Verdict,
};

/// A barrier, any time.
pub(crate) async fn flush_can_always_be_asked_for(store: &mut JournalUnderTest) -> Verdict {
    let journal = store.journal();
    journal.flush().await.expect("nothing to flush");
    let mut claim = journal.five(&id("account|1")).await;
    let (flushed, appended) = join(journal.flush(), journal.write(&mut claim, singles(&["a-6"]))).await;
    flushed.expect("flushed");
    appended.expect("stored");
    journal.flush().await.expect("flushed");
    Ok(())
}

/// Each call, with the error that says so.
pub(crate) async fn shutdown_refuses_further_calls(store: &mut JournalUnderTest) -> Verdict {
    let id = id("account|1");
    let journal = store.journal();
    let mut claim = journal.five(&id).await;
    journal.shutdown().await.expect("it shuts down");
    let deletion = plain_deletion(2, claim.incarnation());
    let replayed = journal.replay(&id, ReplayRange::ALL).next().await;
    let errors = [
        ("claim", journal.claim(&id, WriterId::random()).await.map(drop)),
        (
            "append",
            journal.write(&mut claim, singles(&["a-6"])).await.map(drop),
        ),
        ("bounds", journal.bounds(&id).await.map(drop)),
        (
            "replay",
            replayed
                .unwrap_or_else(|| panic!("a replay ended well"))
                .map(drop),
        ),
        ("delete_to", journal.delete_to(&id, deletion).await.map(drop)),
        ("purge", journal.purge(&id).await),
        ("flush", journal.flush().await),
    ];
    for (call, result) in errors {
        let error = result
            .err()
            .unwrap_or_else(|| panic!("{call} succeeded after a shutdown"));
        assert_eq!(error.kind(), ErrorKind::Closed, "{call}: {error}");
    }
    Ok(())
}

/// Groups, too.
pub(crate) async fn shutdown_refuses_groups(store: &mut JournalUnderTest) -> Verdict {
    let journal = store.journal();
    let claim = journal.five(&id("account|1")).await;
    journal.shutdown().await.expect("it shuts down");
    let mut parts = [AppendPart {
        expected: claim.highest(),
        claim,
        writes: singles(&["a-6"]),
        result: None,
    }];
    journal.append_group(&mut parts).await;
    for part in parts {
        let error = part.result.expect("each part gets a result").expect_err("closed");
        assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
    }
    Ok(())
}

/// Twice is once.
pub(crate) async fn shutdown_is_idempotent(store: &mut JournalUnderTest) -> Verdict {
    for _ in 0..2 {
        store.journal().shutdown().await.expect("it shuts down");
    }
    Ok(())
}

/// G2: what is in flight at a shutdown is stored or refused, and what was acknowledged is there.
pub(crate) async fn shutdown_finishes_what_is_in_flight(store: &mut JournalUnderTest) -> Verdict {
    let ids: Vec<_> = (0..20).map(|number| id(&format!("account|{number}"))).collect();
    let mut tasks = tokio::task::JoinSet::new();
    for id in ids {
        let journal = store.shared();
        let mut claim = journal.claimed(&id).await;
        tasks.spawn(async move {
            let mut acknowledged = 0;
            loop {
                match journal.write(&mut claim, singles(&["x"])).await {
                    Ok(appended) => acknowledged = appended.last.get(),
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
                        return (id, acknowledged);
                    }
                }
                tokio::task::yield_now().await;
            }
        });
    }
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
    store.journal().shutdown().await.expect("it shuts down");
    let acknowledged = tasks.join_all().await;
    store.restart().await?;
    for (id, acknowledged) in acknowledged {
        assert_eq!(store.journal().highest(&id).await, acknowledged, "{id}");
    }
    Ok(())
}
