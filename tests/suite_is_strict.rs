//! The conformance suite catches each wrong journal and each wrong snapshot store, by the cases that are named here,
//! and finds nothing wrong with the right ones they are made of.

use std::{collections::BTreeSet, time::Duration};

use journal_conformance::{
    Outcome, Subject, check_journal, check_snapshots,
    faults::{SimulatedJournals, SimulatedSnapshots, journal_faults, snapshot_faults},
    journal_cases, snapshot_cases,
};

/// A fault that hangs must be caught by the deadline, any other one by what it answers.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Caught {
    ByAnAssertion,
    ByTheDeadline,
}

fn assert_caught(fault: &str, case: &str, outcome: &Outcome, caught: Caught) {
    match (outcome, caught) {
        (Outcome::Failed(_), Caught::ByAnAssertion) | (Outcome::TimedOut(_), Caught::ByTheDeadline) => {}
        (Outcome::NotThisOne, _) => {}
        _ => panic!("{case} must catch a store that {fault}, but: {outcome:?}"),
    }
}

fn deadline(caught: Caught) -> Duration {
    Duration::from_secs(if caught == Caught::ByTheDeadline { 1 } else { 60 })
}

fn assert_journal_fault_is_caught(name: &str, cases: &[&str], caught: Caught) {
    let fault = *journal_faults()
        .iter()
        .find(|fault| fault.name == name)
        .unwrap_or_else(|| panic!("no fault is called {name}"));
    for wanted in cases {
        let case = *journal_cases()
            .iter()
            .find(|case| case.name == *wanted)
            .unwrap_or_else(|| panic!("no case is called {wanted}"));
        let subject = Subject::new(
            name,
            concat!(module_path!(), "::journals"),
            name,
            deadline(caught),
        );
        let outcome = check_journal(case, &subject, move || fault.fixture());
        assert_caught(name, wanted, &outcome, caught);
    }
}

fn assert_snapshot_fault_is_caught(name: &str, cases: &[&str], caught: Caught) {
    let fault = *snapshot_faults()
        .iter()
        .find(|fault| fault.name == name)
        .unwrap_or_else(|| panic!("no fault is called {name}"));
    for wanted in cases {
        let case = *snapshot_cases()
            .iter()
            .find(|case| case.name == *wanted)
            .unwrap_or_else(|| panic!("no case is called {wanted}"));
        let subject = Subject::new(
            name,
            concat!(module_path!(), "::snapshots"),
            name,
            deadline(caught),
        );
        let outcome = check_snapshots(case, &subject, move || fault.fixture());
        assert_caught(name, wanted, &outcome, caught);
    }
}

macro_rules! caught {
    ($check:ident, $($fault:ident $caught:ident [$($case:literal),+ $(,)?],)*) => {
        $(
            #[test]
            fn $fault() {
                super::$check(stringify!($fault), &[$($case),+], super::Caught::$caught);
            }
        )*

        pub(super) const NAMES: &[&str] = &[$(stringify!($fault)),*];
    };
}

mod journals {
    caught! { assert_journal_fault_is_caught,
        splits_atomic_writes ByAnAssertion [
            "append::is_atomic_for_a_concurrent_reader",
            "limits::reject_a_write_with_one_oversized_event",
            "cancellation::of_an_append_tears_no_write",
        ],
        acknowledges_before_flushing ByAnAssertion ["restart::keeps_every_acknowledged_event"],
        acknowledges_groups_before_flushing ByAnAssertion ["group::survives_a_restart"],
        shows_appends_late ByAnAssertion ["append::is_seen_by_a_replay_that_starts_after_ok"],
        alters_metadata ByAnAssertion ["record::returns_every_field_as_written"],
        alters_tags ByAnAssertion ["record::returns_the_tags"],
        alters_payloads ByAnAssertion ["record::returns_a_large_payload"],
        aliases_ids ByAnAssertion ["ids::are_never_aliased", "ids::are_claimed_alone"],
        goes_on_after_a_shutdown ByAnAssertion [
            "lifecycle::shutdown_refuses_further_calls",
            "lifecycle::shutdown_refuses_groups",
        ],
        stores_the_rest_of_a_rejected_append ByAnAssertion ["limits::reject_the_whole_append"],
        consumes_numbers_on_rejection ByAnAssertion ["limits::reject_the_whole_append"],
        accepts_appends_without_writes ByAnAssertion ["limits::reject_an_append_without_writes"],
        leaves_the_id_out_of_errors ByAnAssertion ["outcome::names_id_and_operation"],
        calls_trouble_a_rejection ByAnAssertion ["outcome::of_a_silent_engine_is_settled_by_the_next_claim"],
        mixes_up_group_results ByAnAssertion ["group::stores_every_part", "group::names_the_id_of_a_failed_part"],
        fails_a_group_as_one ByAnAssertion ["group::lets_parts_fail_on_their_own"],
        ignores_the_fence ByAnAssertion [
            "fencing::ends_the_former_claim",
            "fencing::ends_a_claim_of_another_process",
            "fencing::acknowledges_one_of_many_writers",
            "purge::ends_all_claims",
        ],
        acknowledges_fenced_writers ByAnAssertion [
            "fencing::acknowledges_one_of_many_writers",
            "fencing::acknowledges_no_number_twice",
        ],
        keeps_the_claim_after_unknown ByAnAssertion ["outcome::unknown_leaves_the_claim_spent"],
        ignores_the_expected_number ByAnAssertion ["append::conflicts_where_the_expected_number_differs"],
        gives_all_claims_one_epoch ByAnAssertion ["fencing::orders_epochs", "restart::makes_later_claims_greater"],
        shows_another_incarnation ByAnAssertion ["bounds::carry_the_incarnation_of_the_claims"],
        stores_after_a_later_claim ByAnAssertion ["fencing::returns_final_bounds"],
        reuses_numbers_after_deleting_everything ByAnAssertion ["delete::of_everything_keeps_the_highest"],
        loses_the_highest_on_restart ByAnAssertion ["restart::keeps_the_highest_after_deleting_everything"],
        purges_by_deleting ByAnAssertion ["purge::forgets_everything", "purge::starts_a_new_life"],
        leaves_claims_alive_after_a_purge ByAnAssertion [
            "purge::ends_all_claims",
            "purge::ends_a_claim_that_never_wrote",
        ],
        shows_claims_to_readers ByAnAssertion ["bounds::of_an_id_only_claimed_are_empty"],
        stops_before_the_upper_bound ByAnAssertion ["replay::stops_at_the_upper_bound_inclusive"],
        starts_after_the_lower_bound ByAnAssertion ["replay::starts_at_the_lower_bound_inclusive"],
        ignores_max ByAnAssertion [
            "replay::delivers_at_most_max_events",
            "replay::delivers_nothing_for_a_max_of_zero",
        ],
        refuses_to_start_from_zero ByAnAssertion [
            "replay::from_zero_starts_at_the_first_event",
            "replay::of_an_unknown_id_is_empty",
        ],
        refuses_crossed_bounds ByAnAssertion ["replay::delivers_nothing_where_the_bounds_are_crossed"],
        delivers_backwards ByAnAssertion ["replay::delivers_everything_in_order"],
        replays_deleted_events ByAnAssertion ["delete::is_inclusive"],
        ends_a_replay_silently ByAnAssertion ["replay::of_a_long_stream_is_complete"],
        skips_missing_events ByAnAssertion ["replay::ends_with_an_error_at_a_missing_event"],
        ends_silently_at_damage ByAnAssertion [
            "replay::ends_with_an_error_at_a_corrupt_event",
            "replay::ends_with_an_error_where_the_last_event_is_missing",
        ],
        takes_silence_for_the_end ByAnAssertion ["replay::of_a_silent_engine_ends_with_an_error"],
        hangs_on_silence ByTheDeadline ["replay::of_a_silent_engine_ends_with_an_error"],
        reads_the_whole_stream_into_memory ByAnAssertion ["memory::of_a_replay_does_not_grow_with_the_stream"],
        deletes_in_advance ByAnAssertion ["delete::beyond_the_highest_spares_later_events"],
        deletes_up_to_but_not_including ByAnAssertion ["delete::is_inclusive"],
        deletes_whole_writes ByAnAssertion ["delete::inside_an_atomic_write_spares_its_rest"],
        moves_deletions_back ByAnAssertion ["delete::is_monotonic"],
        deletes_in_any_life ByAnAssertion [
            "delete::of_another_incarnation_is_refused",
            "purge::refuses_deletions_of_the_former_life",
        ],
        forgets_fresh_starts ByAnAssertion ["delete::records_a_fresh_start"],
        revives_deleted_events_on_restart ByAnAssertion ["restart::keeps_deletions"],
        reads_what_was_deleted ByAnAssertion ["replay::of_the_tail_does_not_read_what_was_deleted"],
        leaves_the_claim_usable_when_dropped ByAnAssertion ["cancellation::of_an_append_tears_no_write"],
        skips_unknown_events ByAnAssertion [
            "decoding::an_unknown_manifest_is_an_error_at_its_number",
            "decoding::a_newer_version_is_an_error_at_its_number",
            "decoding::an_unknown_codec_is_an_error_at_its_number",
        ],
    }
}

mod snapshots {
    caught! { assert_snapshot_fault_is_caught,
        keeps_the_first_snapshot ByAnAssertion ["load::gives_the_newest"],
        ignores_the_highest_number ByAnAssertion [
            "load::below_all_numbers_is_none",
            "load::stops_at_the_highest_number",
        ],
        stops_before_the_highest_number ByAnAssertion ["load::stops_at_the_highest_number"],
        ignores_the_lowest_number ByAnAssertion ["load::honours_the_lower_bounds"],
        ignores_timestamps ByAnAssertion [
            "load::before_all_timestamps_is_none",
            "load::applies_number_and_timestamp",
        ],
        ignores_the_life ByAnAssertion ["load::can_be_limited_to_one_life"],
        prefers_the_latest_timestamp ByAnAssertion ["load::prefers_the_number_to_the_timestamp"],
        keeps_the_former_of_equal_numbers ByAnAssertion ["save::replaces_the_same_number"],
        replaces_other_lives ByAnAssertion ["save::replaces_nothing_of_another_life"],
        cuts_payloads ByAnAssertion ["save::keeps_a_large_payload"],
        returns_damaged_payloads ByAnAssertion ["damage::is_skipped_and_reported"],
        takes_damage_for_none ByAnAssertion ["damage::is_skipped_and_reported", "damage::of_all_is_no_silent_none"],
        fails_at_damage ByAnAssertion ["damage::is_skipped_and_reported"],
        hides_what_it_skipped ByAnAssertion ["damage::of_all_is_no_silent_none"],
        deletes_by_timestamp ByAnAssertion ["delete::of_one_ignores_the_timestamp"],
        deletes_by_number_only ByAnAssertion ["delete::matching_needs_number_and_timestamp"],
        deletes_from_all_lives ByAnAssertion ["delete::matching_spares_another_life"],
        keeps_the_oldest ByAnAssertion ["retention::keeps_the_newest"],
        keeps_one_too_few ByAnAssertion ["retention::keeps_the_newest"],
        lists_oldest_first ByAnAssertion ["list::is_newest_first"],
        aliases_snapshot_ids ByAnAssertion ["ids::are_never_aliased"],
        loses_the_newest_on_restart ByAnAssertion ["restart::keeps_every_snapshot"],
        hangs_on_an_unknown_id ByTheDeadline ["load::of_an_unknown_id_is_none"],
    }
}

#[test]
fn every_fault_has_a_case_that_catches_it() {
    let all: BTreeSet<&str> = journal_faults().iter().map(|fault| fault.name).collect();
    assert_eq!(all, journals::NAMES.iter().copied().collect());
    let all: BTreeSet<&str> = snapshot_faults().iter().map(|fault| fault.name).collect();
    assert_eq!(all, snapshots::NAMES.iter().copied().collect());
}

#[test]
fn every_guarantee_has_a_fault_that_breaks_it() {
    let broken: BTreeSet<u8> = journal_faults().iter().map(|fault| fault.guarantee).collect();
    assert_eq!(broken, (1..=9).collect());
}

#[test]
fn every_case_applies_to_and_passes_the_right_journal() {
    let test = "every_case_applies_to_and_passes_the_right_journal";
    let subject = Subject::new("the right journal", module_path!(), test, Duration::from_secs(60));
    for case in journal_cases() {
        let outcome = check_journal(case, &subject, SimulatedJournals::right);
        assert!(
            matches!(outcome, Outcome::Passed | Outcome::NotThisOne),
            "{case:?}: {outcome:?}"
        );
    }
}

#[test]
fn every_case_applies_to_and_passes_the_right_snapshot_store() {
    let test = "every_case_applies_to_and_passes_the_right_snapshot_store";
    let subject = Subject::new("the right store", module_path!(), test, Duration::from_secs(60));
    for case in snapshot_cases() {
        let outcome = check_snapshots(case, &subject, SimulatedSnapshots::right);
        assert!(
            matches!(outcome, Outcome::Passed | Outcome::NotThisOne),
            "{case:?}: {outcome:?}"
        );
    }
}
