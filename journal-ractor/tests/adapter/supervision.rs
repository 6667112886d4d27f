use std::{sync::Arc, time::Duration};

use journal_core::{PersistError, Persistence};
use journal_ractor::{
    AskError, PersistentRef, SpawnError, SpawnPersistent,
    ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent},
};
use tokio::{sync::mpsc, time::Instant};

use crate::common::*;

#[tokio::test(start_paused = true)]
async fn the_waits_start_anew_after_a_healthy_while() {
    let journal = journal();
    let persistence = persistence(&journal);
    let account = account("a").0.spawn(&persistence).await.unwrap();
    let fail = async || {
        journal.set_down(true);
        journal.fate(Fate::LostButUnknown);
        drop(account.ask(Deposit(1)).await);
        journal.set_down(false);
        tokio::time::sleep(Duration::from_millis(1)).await;
        let failed = Instant::now();
        account.ask(Read).await.unwrap().unwrap();
        failed.elapsed().as_millis()
    };
    assert_eq!(fail().await, 199);
    assert_eq!(fail().await, 399);
    assert_eq!(fail().await, 799);
    tokio::time::sleep(Duration::from_secs(31)).await;
    assert_eq!(fail().await, 199);
}

#[tokio::test(start_paused = true)]
async fn a_fenced_actor_stops_until_a_command_starts_it_again() {
    let journal = journal();
    let persistence = persistence(&journal);
    let account = account("a").0.spawn(&persistence).await.unwrap();
    account.ask(Deposit(5)).await.unwrap().unwrap();
    another_writer(&journal).await;
    let fenced = account.ask(Deposit(2)).await.unwrap().unwrap_err();
    assert!(matches!(fenced, PersistError::Fenced(_)), "{fenced:?}");
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!(!persistence.is_live(account.persistence_id()));
    assert_eq!(journal.claims_made(), 1);
    assert_eq!(account.ask(Deposit(3)).await.unwrap().unwrap(), 8);
    assert_eq!(journal.claims_made(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_command_from_a_thread_without_a_runtime_starts_a_fenced_actor_again() {
    let journal = journal();
    let persistence = persistence(&journal);
    let account = account("a").0.spawn(&persistence).await.unwrap();
    another_writer(&journal).await;
    account.ask(Deposit(2)).await.unwrap().unwrap_err();
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert!(!persistence.is_live(account.persistence_id()));
    let teller = account.clone();
    std::thread::spawn(move || teller.tell(Deposit(3)).unwrap())
        .join()
        .unwrap();
    assert_eq!(account.ask(Read).await.unwrap().unwrap(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_reference_whose_id_another_has_waits_for_its_turn() {
    let persistence = persistence(&journal());
    let (description, _hears) = account("a");
    let first = description.clone().spawn(&persistence).await.unwrap();
    let second = description.spawn_instant(&persistence).unwrap();
    assert_eq!(second.ask(Read).await.unwrap_err(), AskError::Closed);
    assert_eq!(first.ask(Deposit(5)).await.unwrap().unwrap(), 5);
    first.stop().await;
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(second.ask(Read).await.unwrap().unwrap(), 5);
}

/// An actor that spawns accounts and tells the test of their ends.
struct Parent {
    told: mpsc::UnboundedSender<&'static str>,
}

#[journal_ractor::ractor::actor(message = String, crate_path = ::journal_ractor::ractor)]
impl Parent {
    async fn pre_start(&self, _: ActorRef<String>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<String>,
        event: SupervisionEvent,
        (): &mut (),
    ) -> Result<(), ActorProcessingErr> {
        let told = match event {
            SupervisionEvent::ActorTerminated(..) => "terminated",
            SupervisionEvent::ActorFailed(..) => "failed",
            _ => return Ok(()),
        };
        let _ = self.told.send(told);
        Ok(())
    }
}

struct Family {
    journal: Arc<ControlledJournal>,
    persistence: Persistence,
    parent: ActorRef<String>,
    hears: mpsc::UnboundedReceiver<&'static str>,
    account: PersistentRef<Account>,
}

async fn family() -> Family {
    let journal = journal();
    let persistence = persistence(&journal);
    let (told, hears) = mpsc::unbounded_channel();
    let (parent, _) = Actor::spawn(None, Parent { told }, ()).await.unwrap();
    let account = account("a").0.spawn_linked(&persistence, parent.get_cell());
    Family {
        account: account.await.unwrap(),
        journal,
        persistence,
        parent,
        hears,
    }
}

#[tokio::test(start_paused = true)]
async fn a_parent_hears_of_the_end_but_not_of_restarts() {
    let mut family = family().await;
    family.journal.set_down(true);
    family.journal.fate(Fate::LostButUnknown);
    drop(family.account.ask(Deposit(1)).await);
    family.journal.set_down(false);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(family.account.ask(Deposit(1)).await.unwrap().unwrap(), 1);
    assert!(family.hears.try_recv().is_err());
    family.account.ask(Close).await.unwrap().unwrap();
    assert_eq!(family.hears.recv().await, Some("terminated"));
}

#[tokio::test]
async fn the_end_of_the_parent_ends_the_actor() {
    let family = family().await;
    family.parent.stop(None);
    family.account.ended().await;
    assert_eq!(family.account.ask(Read).await.unwrap_err(), AskError::Closed);
    settle().await;
    assert!(!family.persistence.is_live(family.account.persistence_id()));
}

#[tokio::test]
async fn nothing_is_spawned_under_a_parent_that_has_ended() {
    let family = family().await;
    family.parent.stop_and_wait(None, None).await.unwrap();
    let (orphan, _hears) = account("b");
    let cell = family.parent.get_cell();
    let refused = orphan.clone().spawn_linked(&family.persistence, cell.clone());
    assert!(matches!(refused.await, Err(SpawnError::ParentStopping)));
    assert!(matches!(
        orphan.spawn_linked_instant(&family.persistence, cell),
        Err(SpawnError::ParentStopping)
    ));
    settle().await;
    assert!(!family.persistence.is_live(&"b".parse().unwrap()));
}
