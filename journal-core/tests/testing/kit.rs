//! One command after another against a model.

use journal_core::{DeliveryId, PersistError, SequenceNr, persistent, testing::TestKit};

use crate::model::*;

fn shop() -> TestKit<Shop> {
    TestKit::new(Shop::default()).compare_events().compare_states()
}

#[test]
fn a_command_shows_its_events_its_reply_and_the_state_after_it() {
    let mut shop = shop();
    let mut ordered = shop.run(Order("a", 2));
    assert_eq!(ordered.events(), [Happened::Ordered("a".to_owned(), 2)]);
    assert_eq!(ordered.reply().unwrap(), 2);
    assert!(ordered.try_reply().is_none());
    assert_eq!(shop.state().total(), 2);
    assert_eq!(shop.sequence_nr(), SequenceNr::new(1));
}

#[test]
fn closures_run_before_the_reply_is_there_and_are_counted() {
    let mut shop = shop();
    let ordered = shop.run(Order("a", 2));
    assert_eq!(ordered.effects(), 1);
    assert_eq!(shop.model().did(), ["total 2"]);
}

#[test]
fn given_events_are_what_happened_before() {
    let mut shop = shop().given([Happened::Ordered("a".to_owned(), 3), Happened::Shipped]);
    assert_eq!(shop.sequence_nr(), SequenceNr::new(2));
    assert_eq!(shop.run(Order("b", 1)).reply().unwrap(), 4);
    let all = [
        Happened::Ordered("a".to_owned(), 3),
        Happened::Shipped,
        Happened::Ordered("b".to_owned(), 1),
    ];
    assert_eq!(shop.events(), all);
    assert_eq!(shop.restart().total(), 4);
}

#[test]
fn a_given_state_is_a_snapshot_without_its_events() {
    let orders = Orders([("a".to_owned(), 5)].into());
    let mut shop = shop()
        .given_state(orders)
        .given([Happened::Ordered("a".to_owned(), 1)]);
    assert_eq!(shop.events().len(), 1);
    assert_eq!(shop.restart().total(), 6);
    assert_eq!(shop.model().did(), ["recovered 2 from 1, 1 replayed"]);
}

#[test]
#[should_panic(expected = "call `given_state` before `given`")]
fn a_state_that_is_given_after_events_is_refused() {
    let _ = shop().given([Happened::Shipped]).given_state(Orders::default());
}

#[test]
fn a_restart_recovers_from_the_newest_snapshot_and_the_events_behind_it() {
    let mut shop = shop();
    let _ = shop.run(Order("a", 1));
    assert!(shop.run(TakeSnapshot).took_snapshot());
    let _ = shop.run(Order("b", 1));
    shop.model().did();
    assert_eq!(shop.restart().total(), 2);
    assert_eq!(shop.model().did(), ["recovered 2 from 1, 1 replayed"]);
}

#[test]
fn snapshots_are_due_as_the_options_say() {
    let mut shop = TestKit::with(persistent(Shop::default(), "a").snapshot_every(2));
    let took = [1, 2, 3, 4].map(|count| shop.run(Order("a", count)).took_snapshot());
    assert_eq!(took, [false, true, false, true]);
}

#[test]
fn recovered_is_run_on_demand_and_persists() {
    let mut shop = shop().given([Happened::Ordered("a".to_owned(), 3)]);
    assert_eq!(shop.restart().total(), 3);
    assert_eq!(shop.recovered().events(), [Happened::Cleared]);
    assert_eq!(shop.state().total(), 0);
    assert!(shop.recovered().events().is_empty());
}

#[test]
fn a_stashed_command_is_answered_once_it_is_called_back() {
    let mut shop = shop();
    let mut waiting = shop.run(OnceThereAre(3));
    assert!(waiting.is_stashed());
    assert_eq!(shop.stashed(), 1);
    assert!(!shop.run(OrderAndCall(1)).is_stashed());
    assert!(waiting.try_reply().is_none());
    assert!(shop.run(OrderAndCall(2)).unstashes());
    assert_eq!(waiting.reply().unwrap(), 3);
    assert_eq!(shop.stashed(), 0);
}

#[test]
#[should_panic(expected = "the command is stashed")]
fn to_ask_a_stashed_command_for_its_reply_says_why_there_is_none() {
    let _ = shop().run(OnceThereAre(3)).reply();
}

#[test]
fn a_restart_loses_what_is_stashed() {
    let mut shop = shop();
    let mut waiting = shop.run(OnceThereAre(1));
    shop.restart();
    let _ = shop.run(OrderAndCall(1));
    assert!(waiting.try_reply().is_none());
}

#[test]
fn a_stopped_model_refuses_until_it_is_restarted() {
    let mut shop = shop();
    assert!(shop.run(Stop).stops());
    let mut refused = shop.run(Order("a", 1));
    assert!(matches!(refused.refusal(), Some(PersistError::Stopped)));
    assert!(matches!(refused.reply(), Err(PersistError::Stopped)));
    assert!(shop.events().is_empty());
    shop.restart();
    assert_eq!(shop.run(Order("a", 1)).reply().unwrap(), 1);
}

#[test]
fn what_means_nothing_is_unhandled_and_signalled() {
    let mut shop = shop();
    assert!(shop.run(Odd).is_unhandled());
    assert_eq!(shop.model().did(), ["unhandled"]);
}

#[test]
fn what_the_engine_refuses_changes_nothing_and_is_signalled_where_nobody_waits() {
    let mut shop = shop();
    let huge = shop.run(Huge);
    assert!(matches!(huge.refusal(), Some(PersistError::Rejected(_))));
    assert!(huge.events().is_empty() && shop.events().is_empty());
    assert_eq!(shop.state().total(), 0);
    let [told] = shop.model().did().try_into().unwrap();
    assert!(told.starts_with("failed: rejected"), "{told}");
}

#[test]
fn a_restart_from_here_in_another_than_the_initial_state_is_refused() {
    let mut shop = shop().given([Happened::Ordered("a".to_owned(), 1)]);
    let mut refused = shop.run(StartAgain(false));
    assert!(matches!(refused.reply(), Err(PersistError::NotInitialState)));
    assert!(!refused.restarts_from_here());
    let mut done = shop.run(StartAgain(true));
    done.reply().unwrap();
    assert!(done.restarts_from_here());
    assert_eq!(shop.restart().total(), 0);
}

#[test]
fn deletions_are_shown() {
    let mut shop = shop().given([Happened::Shipped]);
    assert_eq!(shop.run(DeleteTo(1)).deletes_to(), Some(SequenceNr::new(1)));
    assert_eq!(shop.run(Order("a", 1)).deletes_to(), None);
}

#[test]
#[should_panic(expected = "oh dear")]
fn a_panic_of_the_model_is_one_of_the_test() {
    let _ = shop().run(Panics);
}

#[test]
fn deliveries_are_sent_and_sent_again_after_a_restart_until_they_are_confirmed() {
    let mut shop = TestKit::with(persistent(Shop::default(), "a").delivers());
    let delivered = shop.run(Deliver("a"));
    let id = DeliveryId::new(2);
    assert_eq!(delivered.delivered(), [id]);
    assert_eq!(shop.model().did(), ["ship 2 a"]);
    let _ = shop.run(TakeSnapshot);
    shop.restart();
    assert_eq!(shop.model().did(), ["recovered 2 from 2, 0 replayed", "ship 2 a"]);
    assert_eq!(shop.unconfirmed(), [id]);
    assert_eq!(shop.run(Shipped(id)).confirmed(), [id]);
    assert!(shop.unconfirmed().is_empty());
    shop.restart();
    assert_eq!(shop.model().did(), ["recovered 4 from 2, 2 replayed"]);
    assert_eq!(shop.events().len(), 2);
}

#[test]
fn a_model_that_was_not_set_up_to_deliver_is_refused() {
    let mut refused = shop().run(Deliver("a"));
    assert!(matches!(refused.reply(), Err(PersistError::NotDelivering)));
}

#[test]
#[should_panic(expected = "must not be empty")]
fn an_id_that_no_actor_could_have_is_refused() {
    let _ = TestKit::with(persistent(Shop::default(), ""));
}
