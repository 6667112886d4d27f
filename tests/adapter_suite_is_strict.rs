//! The adapter suite catches each wrong adapter, by the cases that are named here, and finds nothing wrong with the
//! right one that they are made of.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[path = "common/mini.rs"]
mod mini;
#[path = "common/stores.rs"]
mod stores;

use std::time::Duration;

use journal_conformance::{Outcome, Subject, adapter_cases, check_adapter};

use crate::{
    mini::{Fault, Mini},
    stores::Memory,
};

mod in_memory {
    journal_conformance::adapter_suite!(crate::Mini, crate::Memory);
}

mod on_disk {
    journal_conformance::adapter_suite!(crate::Mini, crate::stores::Embedded);
}

/// A fault that hangs must be caught by the deadline, any other one by what it does.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Caught {
    ByAnAssertion,
    ByTheDeadline,
}

fn assert_caught(fault: Fault, test: &str, cases: &[&str], caught: Caught) {
    let deadline = match caught {
        Caught::ByAnAssertion => Duration::from_secs(60),
        Caught::ByTheDeadline => Duration::from_secs(1),
    };
    let subject = Subject::new(test, module_path!(), test, deadline);
    for wanted in cases {
        let case = *adapter_cases()
            .iter()
            .find(|case| case.name == *wanted)
            .unwrap_or_else(|| panic!("no case is called {wanted}"));
        let outcome = check_adapter(case, &subject, move || (Mini::new(Some(fault)), Memory::new()));
        match (&outcome, caught) {
            (Outcome::Failed(_), Caught::ByAnAssertion) | (Outcome::TimedOut(_), Caught::ByTheDeadline) => {}
            _ => panic!("{wanted} must catch {fault:?}, but: {outcome:?}"),
        }
    }
}

macro_rules! caught {
    ($($test:ident $fault:ident $caught:ident [$($case:literal),+ $(,)?],)*) => {
        $(
            #[test]
            fn $test() {
                assert_caught(Fault::$fault, stringify!($test), &[$($case),+], Caught::$caught);
            }
        )*

        /// As an array, so that a fault without a test does not compile.
        #[test]
        fn every_fault_is_caught() {
            let tested = [$(Fault::$fault),*];
            assert_eq!(tested, Fault::ALL);
        }
    };
}

caught! {
    an_early_acknowledgement AcknowledgesEarly ByAnAssertion [
        "replies::are_withheld_until_all_before_is_durable",
        "effects::are_done_before_their_reply",
        "deliveries::are_sent_once_durable_in_the_order_of_the_commands",
        "stop::that_is_handled_refuses_what_follows",
        "kill::loses_nothing_that_was_handled",
        "schedules::leave_no_message_without_its_one_true_answer",
    ],
    a_lost_queue LosesQueuedCommands ByAnAssertion ["failure::spares_commands_not_yet_handled"],
    a_lost_stash RestartsInsteadOfRecovering ByAnAssertion ["stash::survives_a_failed_write_in_order"],
    a_restart_after_fencing RestartsAfterFencing ByAnAssertion [
        "fencing::ends_the_actor_without_a_restart",
        "deliveries::end_with_a_fenced_actor",
    ],
    a_restart_without_backoff RestartsAtOnce ByAnAssertion [
        "recovery::that_fails_is_tried_again_with_growing_waits",
        "failure::of_the_recovery_after_it_starts_the_actor_again",
    ],
    a_hidden_failure HidesFailedRecoveries ByTheDeadline [
        "recovery::that_fails_is_the_error_of_spawn",
        "recovery::after_a_deletion_without_a_snapshot_is_refused",
    ],
    a_stop_that_does_not_wait StopsWithoutWaiting ByAnAssertion ["stop::finishes_what_is_handled"],
    an_ignored_stop IgnoresHandledStops ByTheDeadline [
        "stop::that_is_handled_ends_the_actor",
        "stop::that_is_handled_refuses_what_follows",
    ],
    a_restart_after_a_kill RestartsAfterKill ByAnAssertion [
        "kill::is_not_followed_by_a_restart",
    ],
    a_kept_id KeepsItsId ByAnAssertion ["stop::frees_the_id", "recovery::from_events_applies_them_all"],
    an_ignored_wake SleepsThroughWakes ByTheDeadline [
        "unknown::that_was_stored_is_answered_as_stored",
        "deliveries::are_sent_again_after_a_failed_write",
    ],
    a_flood_without_bound TakesAnyFlood ByTheDeadline [
        "overload::is_answered_and_leaves_no_trace",
        "overload::while_recovering_is_answered",
    ],
    a_reversed_queue ReversesWhatWaited ByAnAssertion ["recovery::lets_commands_wait_and_answers_them_in_order"],
    a_registry_of_its_own SharesNothing ByAnAssertion [
        "identity::lives_once",
        "identity::of_many_spawned_at_once_lives_once",
        "permits::bound_how_many_of_ten_thousand_recover_at_once",
    ],
    a_black_hole KeepsWhatWaited ByTheDeadline ["recovery::that_fails_answers_what_waits"],
    a_recovery_that_cannot_be_stopped RecoversToTheEnd ByTheDeadline [
        "permits::are_not_kept_from_others_by_a_stop_in_the_queue",
        "permits::are_given_back_by_a_stop_while_recovering",
    ],
    a_recovery_that_outlives_its_actor RecoversOnItsOwn ByTheDeadline [
        "permits::are_not_kept_from_others_by_a_kill_in_the_queue",
        "permits::are_given_back_by_a_kill_while_recovering",
    ],
    a_recovery_that_commands_begin_anew RecoversAnewWithEachCommand ByTheDeadline [
        "recovery::that_hangs_times_out_whatever_commands_come",
    ],
    a_restart_without_hope TriesWhatCannotWork ByTheDeadline ["recovery::of_options_that_cannot_work_ends_the_actor"],
    an_actor_that_gives_up GivesUp ByTheDeadline ["outage::is_survived_by_every_actor"],
    a_passivation_for_good PassivatesForGood ByAnAssertion [
        "passivation::ends_an_idle_actor_until_the_next_command",
        "passivation::ends_an_actor_that_was_never_used",
    ],
    an_actor_that_never_goes PassivatesNever ByTheDeadline [
        "passivation::ends_an_idle_actor_until_the_next_command",
        "passivation::ends_an_actor_that_was_never_used",
    ],
    a_passivation_of_the_busy PassivatesTheBusy ByAnAssertion [
        "passivation::waits_for_the_stash",
        "passivation::spares_an_actor_in_use",
    ],
    a_race_with_passivation LosesWhatRacesWithPassivation ByAnAssertion [
        "passivation::loses_and_doubles_nothing_in_a_flood",
    ],
}
