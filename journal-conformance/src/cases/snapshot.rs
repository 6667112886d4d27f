//! The one list of the cases of the snapshot store contract.

mod cancellation;
mod damage;
mod delete;
mod ids;
mod list;
mod load;
mod restart;
mod retention;
mod save;

use crate::{runner::Case, snapshot::SnapshotsUnderTest};

/// Passes the list to a macro, which makes tests of it or values.
#[doc(hidden)]
#[macro_export]
macro_rules! __snapshot_cases {
    ([$($callback:tt)+] $subject:tt) => {
        $($callback)+! {
            $subject
            save {
                returns_every_field_as_saved,
                accepts_the_extremes,
                replaces_the_same_number,
                replaces_nothing_of_another_life,
                keeps_a_large_payload,
                in_any_order_keeps_the_order_of_numbers,
                at_once_leaves_whole_snapshots,
            }
            load {
                of_an_unknown_id_is_none,
                before_all_timestamps_is_none,
                below_all_numbers_is_none,
                gives_the_newest,
                stops_at_the_highest_number,
                applies_number_and_timestamp,
                applies_timestamp_and_number,
                stops_at_the_latest_timestamp,
                honours_the_lower_bounds,
                prefers_the_number_to_the_timestamp,
                prefers_the_latest_of_equal_numbers,
                can_be_limited_to_one_life,
            }
            list {
                is_newest_first,
                applies_the_criteria,
                of_an_unknown_id_is_empty,
            }
            delete {
                of_one_ignores_the_timestamp,
                of_one_is_idempotent,
                of_one_spares_another_life,
                matching_deletes_what_matches,
                matching_needs_number_and_timestamp,
                matching_is_idempotent,
                matching_spares_another_life,
                leaves_other_ids_alone,
            }
            retention {
                keeps_the_newest,
                counts_one_life,
            }
            ids {
                are_never_aliased,
                are_deleted_alone,
            }
            restart {
                keeps_every_snapshot,
                keeps_replacements,
                keeps_deletions,
            }
            damage {
                is_skipped_and_reported,
                of_all_is_no_silent_none,
                of_an_older_one_is_not_reported,
                is_healed_by_a_new_save,
                can_be_deleted,
            }
            cancellation {
                of_a_save_leaves_a_whole_snapshot,
            }
        }
    };
}

/// Every case of the snapshot store contract, by name.
#[must_use]
pub fn snapshot_cases() -> Vec<Case<SnapshotsUnderTest>> {
    __snapshot_cases!([registry]())
}
