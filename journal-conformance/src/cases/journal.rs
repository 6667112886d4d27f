//! The one list of the cases of the journal contract.

mod append;
mod bounds;
mod cancellation;
mod concurrency;
mod decoding;
mod delete;
mod fencing;
mod group;
mod ids;
mod lifecycle;
mod limits;
mod memory;
mod outcome;
mod purge;
mod record;
mod replay;
mod restart;

pub(crate) use ids::odd_ids;

use crate::{journal::JournalUnderTest, runner::Case};

/// Passes the list to a macro, which makes tests of it or values.
#[doc(hidden)]
#[macro_export]
macro_rules! __journal_cases {
    ([$($callback:tt)+] $subject:tt) => {
        $($callback)+! {
            $subject
            append {
                starts_at_number_one,
                continues_after_the_highest,
                is_seen_by_a_replay_that_starts_after_ok,
                is_seen_by_another_process_after_ok,
                is_atomic_for_a_concurrent_reader,
                stores_a_thousand_writes_in_one_call,
                stores_a_thousand_events_in_one_write,
                conflicts_where_the_expected_number_differs,
                keeps_many_ids_apart,
                goes_on_while_a_replay_is_open,
            }
            record {
                returns_every_field_as_written,
                returns_the_tags,
                keeps_the_fields_of_each_event_of_a_write,
                accepts_empty_fields,
                does_not_interpret_a_payload,
                returns_a_large_payload,
                names_writer_and_epoch,
                orders_commits_across_ids,
                keeps_its_number_when_the_clock_goes_back,
            }
            decoding {
                an_unknown_manifest_is_an_error_at_its_number,
                a_newer_version_is_an_error_at_its_number,
                an_unknown_codec_is_an_error_at_its_number,
            }
            replay {
                delivers_everything_in_order,
                starts_at_the_lower_bound_inclusive,
                stops_at_the_upper_bound_inclusive,
                delivers_at_most_max_events,
                includes_both_bounds,
                applies_max_within_bounds,
                delivers_one_event_where_the_bounds_are_equal,
                delivers_one_event_for_a_max_of_one,
                delivers_nothing_for_a_max_of_zero,
                delivers_nothing_where_the_bounds_are_crossed,
                of_an_unknown_id_is_empty,
                from_zero_starts_at_the_first_event,
                up_to_zero_is_empty,
                beyond_the_highest_is_empty,
                at_the_largest_number_is_empty,
                can_start_inside_an_atomic_write,
                can_stop_inside_an_atomic_write,
                of_a_long_stream_is_complete,
                reaches_the_highest_known_at_its_start,
                gives_the_same_in_chunks,
                with_a_callback_returns_the_highest,
                runs_beside_others,
                can_be_dropped_half_way,
                that_a_deletion_overtakes_has_no_hole,
                ends_with_an_error_at_a_corrupt_event,
                ends_with_an_error_at_a_missing_event,
                ends_with_an_error_where_the_last_event_is_missing,
                of_a_silent_engine_ends_with_an_error,
                of_the_tail_does_not_read_what_was_deleted,
            }
            bounds {
                of_an_unknown_id_are_empty,
                of_an_id_only_claimed_are_empty,
                carry_the_incarnation_of_the_claims,
                differ_in_incarnation_between_ids,
                of_a_claim_are_those_of_the_id,
                do_not_depend_on_the_replayed_range,
                never_show_a_lower_highest,
            }
            delete {
                is_inclusive,
                keeps_the_highest,
                of_everything_keeps_the_highest,
                lets_a_replay_start_at_the_last_deleted,
                leaves_nothing_inside_the_deleted_prefix,
                leaves_nothing_up_to_the_last_deleted,
                lets_a_replay_start_behind_it,
                lets_a_range_span_the_deleted_prefix,
                does_not_count_against_max,
                is_idempotent,
                is_monotonic,
                to_zero_changes_nothing,
                beyond_the_highest_spares_later_events,
                of_an_unknown_id_is_a_no_op,
                inside_an_atomic_write_spares_its_rest,
                leaves_the_claim_usable,
                beside_appends_spares_later_events,
                leaves_other_ids_alone,
                of_another_incarnation_is_refused,
                records_a_fresh_start,
                can_follow_a_growing_stream,
            }
            purge {
                forgets_everything,
                starts_a_new_life,
                ends_all_claims,
                ends_a_claim_that_never_wrote,
                refuses_deletions_of_the_former_life,
                is_idempotent,
                leaves_other_ids_alone,
                can_follow_a_purge,
            }
            fencing {
                ends_the_former_claim,
                ends_a_claim_of_another_process,
                ends_a_former_claim_of_the_same_writer,
                leaves_the_former_claim_spent,
                orders_epochs,
                leaves_claims_of_other_ids_alone,
                acknowledges_one_of_many_writers,
                acknowledges_no_number_twice,
                returns_final_bounds,
                of_many_claims_at_once_leaves_one,
            }
            outcome {
                of_a_silent_engine_is_settled_by_the_next_claim,
                unknown_leaves_the_claim_spent,
                of_every_call_to_a_silent_engine_is_an_error,
                names_id_and_operation,
            }
            limits {
                reject_the_whole_append,
                reject_a_write_with_one_oversized_event,
                reject_an_append_without_writes,
                reject_a_write_without_events,
                reject_an_oversized_append,
                accept_the_largest_event,
                are_constant,
            }
            cancellation {
                of_an_append_tears_no_write,
                of_a_group_tears_no_write,
                of_a_deletion_is_no_half_deletion,
                of_a_claim_hinders_nobody,
                of_a_purge_is_no_half_purge,
            }
            restart {
                keeps_every_acknowledged_event,
                keeps_many_ids,
                keeps_records_as_they_were,
                keeps_the_highest_after_deleting_everything,
                keeps_deletions,
                keeps_the_fresh_start,
                keeps_the_incarnation,
                keeps_purges,
                makes_later_claims_greater,
                forgets_ids_only_claimed,
                can_follow_a_shutdown,
            }
            group {
                stores_every_part,
                lets_parts_fail_on_their_own,
                names_the_id_of_a_failed_part,
                can_be_empty,
                survives_a_restart,
                runs_beside_single_appends,
            }
            ids {
                are_never_aliased,
                are_deleted_and_purged_alone,
                are_claimed_alone,
                survive_a_restart,
            }
            concurrency {
                of_many_writers_keeps_each_id_whole,
                of_all_calls_keeps_each_id_right,
                of_claims_waits_for_no_other_id,
            }
            lifecycle {
                flush_can_always_be_asked_for,
                shutdown_refuses_further_calls,
                shutdown_refuses_groups,
                shutdown_is_idempotent,
                shutdown_finishes_what_is_in_flight,
            }
            memory {
                of_a_replay_does_not_grow_with_the_stream,
            }
        }
    };
}

/// Every case of the journal contract, by name.
#[must_use]
pub fn journal_cases() -> Vec<Case<JournalUnderTest>> {
    __journal_cases!([registry]())
}
