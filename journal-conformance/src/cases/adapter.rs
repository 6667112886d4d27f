//! The one list of the cases of the adapter contract. A doc comment names the rule that a case checks:
//!
//! - R: recovery takes a permit, claims, loads the newest usable snapshot and replays from there to the claim's highest
//!   number; it is ready, or an error, never a guess. Commands wait meanwhile.
//! - P1: a reply or an effect is withheld until every event its command was handled on is durable; then released in
//!   the order of the commands.
//! - P2: a reply is computed when its command is handled. A panic of the model enqueues nothing and lets earlier writes
//!   finish; no code of the model runs under a lock.
//! - P3: events are checked before they are applied: a refused command changes nothing.
//! - P4: one append in flight; what gathers meanwhile is the next.
//! - P5: a snapshot is saved once its number is durable, then events are deleted up to the oldest kept one, then older
//!   snapshots; a step that fails ends the round.
//! - P6: after a failed append the actor recovers in place: same mailbox, stash back at the head of the queue. If that
//!   fails, the actor fails and is started again under the backoff.
//! - P7: a rejected write takes down what came after it, not what came before.
//! - P8: a stop finishes what is handled; a kill loses only what is not. The id is free when all of it is written.
//! - P9: a fenced actor stops and is not restarted.
//! - P10: deliveries are sent only once their event is durable, and again, after each recovery too, until they are
//!   confirmed.

mod deliveries;
mod effects;
mod failure;
mod fencing;
mod identity;
mod kill;
mod outage;
mod overload;
mod panics;
mod passivation;
mod permits;
mod recovered;
mod recovery;
mod replies;
mod retention;
mod schedules;
mod snapshots;
mod stash;
mod stop;
mod strict;
mod unknown;

use crate::{
    adapter::{AdapterHarness, AdapterUnderTest},
    runner::Case,
};

/// Passes the list to a macro, which makes tests of it or values.
#[doc(hidden)]
#[macro_export]
macro_rules! __adapter_cases {
    ([$($callback:tt)+] $subject:tt) => {
        $($callback)+! {
            $subject
            recovery {
                from_nothing_is_the_initial_state,
                from_events_applies_them_all,
                from_a_snapshot_applies_only_the_tail,
                after_a_deletion_needs_only_what_is_left,
                after_a_deletion_of_everything_keeps_the_numbers,
                after_a_deletion_reads_nothing_that_was_deleted,
                after_a_deletion_without_a_snapshot_is_refused,
                after_a_purge_begins_a_new_life,
                after_a_declared_fresh_start_needs_no_snapshot,
                after_a_restart_of_the_process_is_the_same,
                of_an_unreadable_snapshot_applies_all_events,
                of_an_unreadable_snapshot_takes_an_older_one,
                of_an_unreadable_snapshot_without_its_events_fails_once,
                of_a_lost_snapshot_without_its_events_is_refused,
                of_an_event_that_cannot_be_applied_is_an_error,
                that_fails_is_the_error_of_spawn,
                that_the_snapshot_store_fails_is_an_error,
                lets_commands_wait_and_answers_them_in_order,
                that_hangs_times_out_whatever_commands_come,
                that_fails_answers_what_waits,
                that_fails_for_ever_leaves_the_id_to_be_purged,
                that_fails_is_tried_again_with_growing_waits,
                of_options_that_cannot_work_ends_the_actor,
            }
            permits {
                bound_how_many_of_ten_thousand_recover_at_once,
                of_one_persistence_hold_up_no_other,
                are_not_kept_from_others_by_a_stop_in_the_queue,
                are_not_kept_from_others_by_a_kill_in_the_queue,
                are_given_back_by_a_stop_while_recovering,
                are_given_back_by_a_kill_while_recovering,
                are_given_back_by_whatever_fails,
            }
            recovered {
                runs_before_the_first_command,
                runs_after_a_recovery_in_place,
                that_panics_fails_the_recovery,
            }
            replies {
                are_withheld_until_all_before_is_durable,
                come_in_the_order_of_the_commands,
                show_the_state_right_after_their_command,
                of_a_refused_command_leave_no_trace,
                that_nobody_waits_for_become_signals,
                of_what_gathers_share_an_append,
            }
            effects {
                are_done_before_their_reply,
                of_a_write_that_fails_do_not_run,
                that_panic_harm_nobody,
                may_use_the_actor,
                of_a_command_without_events_come_in_turn,
                of_an_unhandled_command_are_a_signal,
            }
            deliveries {
                are_sent_once_durable_in_the_order_of_the_commands,
                of_a_write_that_fails_are_not_sent,
                are_sent_again_until_they_are_confirmed,
                are_sent_again_by_the_next_life,
                are_sent_again_after_a_kill,
                are_sent_again_after_a_failed_write,
                are_kept_where_their_events_are_deleted,
                that_are_given_up_become_a_signal,
                that_panic_harm_nobody,
                end_with_a_fenced_actor,
                are_refused_where_nobody_delivers,
            }
            strict {
                writes_one_command_at_a_time,
            }
            overload {
                is_answered_and_leaves_no_trace,
                while_recovering_is_answered,
            }
            failure {
                of_a_write_fails_its_command_alone,
                of_a_moment_is_not_seen,
                fails_what_was_handled_behind_it,
                spares_commands_not_yet_handled,
                by_rejection_stores_what_came_before,
                is_followed_by_no_write_of_the_same_claim,
                drops_a_stop_decided_on_lost_state,
                of_the_recovery_after_it_starts_the_actor_again,
            }
            unknown {
                that_was_stored_is_answered_as_stored,
                that_was_lost_is_answered_as_not_stored,
                fails_what_was_never_sent,
            }
            panics {
                in_a_handler_lose_no_queued_command,
                in_apply_store_nothing,
                in_a_reply_store_nothing,
                let_earlier_writes_finish,
            }
            stash {
                is_answered_after_unstash_in_order,
                survives_a_panic_in_order,
                survives_a_failed_write_in_order,
                may_be_stashed_again_without_loss,
                of_a_hundred_thousand_commands_is_drained,
                is_bounded,
            }
            stop {
                finishes_what_is_handled,
                that_is_handled_ends_the_actor,
                that_is_handled_refuses_what_follows,
                frees_the_id,
            }
            kill {
                loses_nothing_that_was_handled,
                closes_what_is_queued,
                is_not_followed_by_a_restart,
                leaves_nobody_without_an_answer,
            }
            identity {
                lives_once,
                of_many_spawned_at_once_lives_once,
            }
            fencing {
                ends_the_actor_without_a_restart,
                lets_a_later_command_begin_again,
                stores_nothing_that_was_fenced,
            }
            snapshots {
                that_fail_delete_nothing,
                are_tried_again_by_the_next_round,
                follow_a_long_replay,
            }
            retention {
                leaves_exactly_what_it_should,
                leaves_exactly_what_it_should_where_writes_pass_its_multiples,
                keeps_all_events_unless_told_otherwise,
                makes_up_for_a_round_that_failed,
                deletes_nothing_beyond_the_newest_event,
            }
            passivation {
                ends_an_idle_actor_until_the_next_command,
                ends_an_actor_that_was_never_used,
                goes_on_from_the_newest_snapshot,
                waits_for_writes,
                waits_for_the_stash,
                spares_an_actor_in_use,
                loses_and_doubles_nothing_in_a_flood,
                can_be_followed_by_a_stop,
                can_be_followed_by_a_kill,
                leaves_the_id_to_others,
            }
            outage {
                is_survived_by_every_actor,
            }
            schedules {
                leave_no_message_without_its_one_true_answer,
            }
        }
    };
}

/// Every case of the adapter contract, by name.
#[must_use]
pub fn adapter_cases<H: AdapterHarness>() -> Vec<Case<AdapterUnderTest<H>>> {
    __adapter_cases!([registry]())
}
