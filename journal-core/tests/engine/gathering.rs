//! One append in flight per claim; what gathers meanwhile is the next append, bounded by count and bytes.

use std::sync::Arc;

use journal_core::MemoryJournal;

use crate::common::*;

/// Sends commands of these numbers of events while an append is in flight; the sizes of the appends that follow it.
async fn appends_of(
    journal: Arc<Controlled>,
    describe: Describe,
    commands: impl IntoIterator<Item = usize>,
) -> Vec<Vec<usize>> {
    let persistence = persistence(&journal);
    let actor = Mini::spawn_with(&persistence, "a", describe).await.unwrap();
    let mut replies = vec![actor.send(Add(1))];
    journal.append_entered().await;
    for events in commands {
        replies.push(actor.send(AddAll(vec![1; events])));
    }
    handled(&actor).await;
    journal.let_through(1_000);
    for reply in replies {
        reply.await.unwrap().unwrap();
    }
    let mut sizes = journal.sizes();
    assert_eq!(sizes.remove(0), [1]);
    sizes
}

#[tokio::test]
async fn what_gathers_while_an_append_is_in_flight_is_the_next_append() {
    let sizes = appends_of(Controlled::gated(), |options| options, [1, 2, 1]).await;
    assert_eq!(sizes, [[1, 2, 1]]);
}

#[tokio::test]
async fn an_append_is_bounded_by_the_number_of_events() {
    let sizes = appends_of(
        Controlled::gated(),
        |options| options.append_limits(3, 1 << 20),
        [1, 2, 2, 2, 3],
    )
    .await;
    assert_eq!(sizes, [vec![1, 2], vec![2], vec![2], vec![3]]);
}

#[tokio::test]
async fn an_append_is_bounded_by_bytes() {
    let one = encoded(&Happened::Added(1)).size();
    assert!((14..=20).contains(&one), "two fit 40 bytes, three do not: {one}");
    let sizes = appends_of(
        Controlled::gated(),
        |options| options.append_limits(1_000, 40),
        [1, 1, 1],
    )
    .await;
    assert_eq!(sizes, [vec![1, 1], vec![1]]);
}

#[tokio::test]
async fn one_write_beyond_the_bounds_goes_alone() {
    let sizes = appends_of(
        Controlled::gated(),
        |options| options.append_limits(2, 1 << 20),
        [1, 5, 1, 1],
    )
    .await;
    assert_eq!(sizes, [vec![1], vec![5], vec![1, 1]]);
}

#[tokio::test]
async fn what_gathers_stays_within_the_journals_largest_append() {
    let journal = MemoryJournal::new().with_limits(100, 100);
    let sizes = appends_of(
        Arc::new(Controlled::new(journal).closed()),
        |options| options,
        [1; 40],
    )
    .await;
    assert_eq!(sizes.iter().flatten().sum::<usize>(), 40);
    assert!(sizes.len() > 1, "{sizes:?}");
}
