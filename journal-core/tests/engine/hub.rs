//! The hub's runtime.

use journal_core::{PersistError, Persistence};

use crate::common::*;

#[test]
fn an_actor_whose_hub_lost_its_runtime_answers_and_ends() {
    let journal = Controlled::gated();
    let hub = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let persistence = Persistence::builder(journal.clone())
        .runtime(hub.handle().clone())
        .build()
        .unwrap();
    let actors = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    actors.block_on(async {
        let actor = Mini::spawn(&persistence, "a").await.unwrap();
        let in_flight = actor.send(Add(1));
        journal.append_entered().await;
        let behind = actor.send(Add(2));
        hub.shutdown_background();
        assert!(matches!(
            in_flight.await.unwrap().unwrap_err().0,
            PersistError::Unknown(_)
        ));
        assert!(matches!(
            behind.await.unwrap().unwrap_err().0,
            PersistError::NotStored(_)
        ));
        assert!(matches!(
            actor.ask(Add(3)).await.unwrap_err().0,
            PersistError::NotStored(_)
        ));
    });
}

#[tokio::test]
async fn an_actor_whose_hub_never_had_a_runtime_answers_and_ends() {
    let journal = Controlled::open();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .build()
        .unwrap();
    let handle = runtime.handle().clone();
    runtime.shutdown_background();
    let persistence = Persistence::builder(journal.clone())
        .runtime(handle)
        .build()
        .unwrap();
    let actor = Mini::spawn(&persistence, "a").await.unwrap();
    let refused = actor.ask(Add(1)).await.unwrap_err().0;
    assert!(matches!(refused, PersistError::NotStored(_)), "{refused}");
    actor.end().await.unwrap();
    gone(&persistence, "a").await;
}
