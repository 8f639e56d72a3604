//! The queue's contract: every guarantee of the port's documentation, as tests that every adapter passes unchanged.
//! Time is a clock that the test moves.

mod closed;
mod gates;
mod holders;
mod inspect;
mod lifecycle;
pub(crate) mod model;
mod order;
mod parity;
mod races;
pub(crate) mod scene;
mod shared;
mod stress;
mod usage;
mod waiting;

use std::sync::Arc;

use trawler::clock::SharedClock;
use trawler::queue::SharedQueue;
use trawler::queue::memory::MemoryQueue;
use trawler::queue::redis::open_with_callers_clock;

use crate::server::new_instance;

/// All tests, against one adapter: a module of its name, and how it is made.
macro_rules! contract {
    ($adapter:ident, $make:expr) => {
        contract! { $adapter, $make,
            lifecycle::a_run_opens_once,
            lifecycle::an_unknown_run_is_refused_by_name,
            lifecycle::closing_a_run_twice_is_fine_and_it_can_be_opened_anew,
            lifecycle::a_holder_of_a_closed_run_has_no_place_in_one_of_the_same_name,
            lifecycle::runs_do_not_see_each_other,
            lifecycle::a_configuration_that_contradicts_itself_is_refused,
            lifecycle::pushing_to_a_node_that_the_run_lacks_pushes_nothing,
            lifecycle::a_suspended_node_is_passed_over_until_it_is_resumed,
            lifecycle::a_frozen_run_hands_out_nothing_permits_nothing_and_takes_only_feedback,
            lifecycle::a_node_moves_to_another_budget_with_its_tasks,
            lifecycle::what_was_spent_stays_spent_when_a_budget_is_changed,
            lifecycle::what_a_removed_node_had_left_is_dropped,
            lifecycle::lanes_name_what_they_hold_and_the_gate_they_wait_for,
            lifecycle::lanes_name_the_nodes_whose_failed_tasks_are_tried_again,
            lifecycle::lanes_say_how_fast_their_budget_is_at_present,
            lifecycle::a_sound_run_has_nothing_to_repair,
            holders::no_more_holders_join_than_the_run_has_tokens,
            holders::a_second_join_fences_the_first_and_frees_its_leases,
            holders::releasing_a_holder_frees_its_leases_at_once_and_fences_it,
            holders::a_task_that_crashed_as_often_as_allowed_is_dead,
            holders::disruptions_charge_nothing,
            holders::the_dead_are_kept_with_their_latest_failures,
            holders::a_thousand_dead_are_kept_and_all_are_counted,
            holders::a_settled_lease_settles_no_second_time,
            holders::settling_and_claiming_at_once_does_both_in_this_order,
            holders::a_lease_is_its_holders_alone,
            holders::a_renewed_lease_lasts_longer,
            holders::a_retry_comes_back_after_its_delay_behind_the_others,
            holders::a_wait_names_the_moment_a_delay_ends,
            holders::what_was_released_untried_goes_back_to_its_place,
            holders::dead_and_dropped_tasks_stay_in_the_account_and_never_return,
            holders::a_run_is_drained_only_when_nobody_works_any_more,
            holders::only_crawlers_of_its_group_get_a_nodes_tasks,
            holders::what_was_being_worked_on_in_a_crash_is_handed_out_alone,
            holders::a_suspect_stays_one_until_it_is_settled,
            holders::one_busy_holder_is_kept_free_for_a_suspect_and_the_others_go_on,
            holders::a_suspect_behind_a_closed_gate_keeps_nobody_from_working,
            holders::lanes_name_what_waits_for_a_holder_of_its_own,
            holders::suspects_are_suspended_dropped_and_moved_with_their_node,
            holders::a_run_whose_crawlers_crash_again_and_again_is_worked_off,
            order::nodes_of_a_lane_take_turns_of_25_tasks,
            order::lanes_take_turns,
            order::inside_a_node_status_decides_then_age,
            order::a_node_of_higher_priority_goes_more_often_and_starves_nobody,
            order::a_small_node_is_done_within_three_rounds_of_turns,
            order::turns_are_kept_when_the_gate_lets_through_one_at_a_time,
            order::lanes_under_one_budget_go_by_their_active_nodes,
            order::a_closed_gate_blocks_no_other_lane,
            order::a_thousand_lanes_behind_one_budget_share_what_it_allows,
            gates::no_window_holds_more_calls_than_allowed,
            gates::even_pacing_spreads_calls_over_the_period,
            gates::a_latecomer_still_has_his_even_slot,
            gates::a_dataset_costs_what_its_node_says,
            gates::documents_may_overshoot_once_and_are_then_paid,
            gates::bytes_close_the_gate_of_their_budget_alone,
            gates::a_budgets_cap_on_requests_under_way_holds_until_one_is_settled,
            gates::an_origins_cap_holds_over_all_budgets,
            gates::a_lane_that_cannot_use_an_open_origin_does_not_keep_others_from_it,
            gates::a_lane_whose_budget_closed_while_it_waited_leaves_the_origin_to_the_next,
            gates::when_a_back_off_ends_every_lane_of_the_origin_goes_on,
            gates::retry_after_is_honoured_and_capped,
            gates::back_off_doubles_with_each_event_to_its_cap_and_success_resets_it,
            gates::pushbacks_of_one_moment_are_one_event,
            gates::a_pushing_origin_slows_its_budget_once_and_success_speeds_it_up,
            gates::a_further_request_takes_its_own_permit_from_the_same_budget,
            gates::a_request_to_another_origin_is_bound_by_that_origins_protection,
            gates::what_permits_did_at_an_origin_is_known_when_it_gets_tasks,
            gates::one_claim_gives_no_more_than_a_thousand_tasks,
            gates::a_budget_is_closed_outside_of_its_hours,
            gates::after_its_last_hours_a_budget_stays_closed_until_it_is_configured,
            gates::a_permit_that_waits_is_not_overtaken_by_claims,
            gates::a_dear_permit_that_waits_is_not_overtaken_for_ever_by_cheap_claims,
            gates::what_is_kept_for_a_permit_is_free_when_its_lease_ends_or_it_does_not_come,
            gates::a_budget_that_counts_no_calls_slows_down_by_its_places,
            shared::runs_share_what_one_budget_allows,
            shared::an_origins_protection_holds_over_runs,
            shared::what_one_run_frees_wakes_another,
            shared::who_finds_a_shared_budget_closed_wakes_nobody,
            shared::leases_of_a_run_that_nobody_works_at_lapse_for_the_others,
            shared::runs_go_by_their_weight_where_the_gate_lets_one_through_at_a_time,
            shared::runs_go_by_their_weight_in_bursts,
            shared::runs_go_by_their_weight_for_places_under_way,
            shared::a_run_that_does_not_come_in_time_keeps_nobody_waiting,
            shared::a_run_that_never_comes_in_time_costs_ever_less,
            shared::a_run_that_is_frozen_or_closed_keeps_no_budget_from_others,
            shared::dear_requests_of_one_run_are_not_overtaken_for_ever_by_cheap_ones_of_another,
            shared::the_latest_configuration_of_a_shared_budget_holds_and_what_was_spent_stays_spent,
            shared::what_a_closed_run_spent_and_was_told_is_remembered,
            shared::what_earlier_processes_spent_counts_once,
            shared::what_was_spent_over_a_minute_closes_a_shorter_window_once,
            shared::after_a_crash_short_windows_start_spent_and_long_ones_as_they_were_left,
            closed::an_origin_that_is_closed_from_the_start_hands_out_nothing_until_then,
            closed::an_origin_is_left_alone_until_the_latest_moment_that_is_known,
            closed::a_pushback_tells_until_when_the_origin_is_left_alone,
            usage::crawlers_of_many_runs_use_nine_tenths_of_a_shared_budget,
            inspect::runs_are_listed_in_the_order_of_their_ids_with_their_accounts,
            inspect::a_run_that_is_configured_anew_is_listed_so,
            inspect::holders_are_listed_by_token_with_what_they_work_on_and_when_it_lapses,
            inspect::a_holder_that_works_on_a_suspect_is_listed_as_alone,
            inspect::a_peek_shows_where_each_task_stands,
            inspect::a_peek_is_of_the_present_moment,
            inspect::a_peek_tells_what_was_in_a_crash,
            inspect::a_peek_shows_no_more_than_was_asked_for,
            inspect::dead_tasks_that_are_put_back_begin_anew_behind_the_others,
            inspect::a_dead_task_that_is_put_back_keeps_its_status,
            inspect::only_the_dead_that_are_named_are_put_back,
            inspect::the_dead_of_a_removed_node_are_dropped_when_they_are_put_back,
            inspect::the_dead_of_a_node_that_moved_are_put_back_where_it_is_now,
            inspect::what_is_put_back_waits_while_its_run_is_frozen_or_its_node_suspended,
            inspect::what_people_put_right_ends_a_wait,
            inspect::tasks_that_are_queued_or_delayed_can_be_dropped_and_no_others,
            inspect::a_dropped_task_named_twice_counts_once,
            inspect::dropping_what_is_left_drains_the_run,
            inspect::dropping_the_last_of_a_node_leaves_the_turns_to_the_others,
            inspect::what_is_dropped_while_its_gate_is_closed_is_gone_when_it_opens,
            inspect::a_suspect_that_is_dropped_keeps_nobody_from_working,
            inspect::crawlers_are_told_what_the_run_and_its_nodes_say_to_them,
            inspect::looking_at_an_unknown_run_is_refused_by_name,
            inspect::of_the_dead_only_those_that_are_kept_are_put_back,
            waiting::what_makes_work_claimable_ends_a_wait,
            waiting::a_change_between_claim_and_wait_is_not_missed,
            waiting::a_wait_ends_at_its_moment,
            waiting::closing_the_run_ends_a_wait,
            parity::a_18_claims_at_once_never_overlap,
            parity::a_19_a_claim_is_bounded_and_goes_by_status,
            parity::a_20_a_lease_lapses_and_the_task_is_handed_out_again,
            parity::a_21_success_retry_failure_release_and_lapse_each_end_a_lease,
            parity::a_22_releasing_a_holder_frees_all_its_leases_and_only_its,
            parity::a_23_an_empty_claim_is_a_normal_answer,
            parity::c_01_what_is_in_process_is_bounded,
            parity::c_02_feedback_enters_with_its_lease_and_takes_no_token,
            parity::c_03_a_token_is_freed_once_and_finishing_the_unknown_frees_nothing,
            parity::c_04_a_duplicate_or_a_stranger_costs_nothing,
            parity::c_05_feedback_of_the_unknown_is_refused_and_leaves_no_trace,
            parity::c_06_freeze_refuses_every_push_from_that_instant_and_can_be_lifted,
            parity::c_07_stop_loses_nothing_that_was_accepted,
            parity::c_08_what_is_tracked_can_be_listed_at_any_time,
            stress::c_09_50_tokens_50_workers_1_000_seeds,
            stress::c_09_10_tokens_50_workers_1_000_seeds,
            stress::c_09_50_tokens_10_workers_1_000_seeds,
        }
    };
    ($adapter:ident, $make:expr, $($topic:ident::$case:ident,)*) => {
        mod $adapter {
            $(
                #[tokio::test]
                async fn $case() {
                    super::$topic::$case($make).await;
                }
            )*
        }
    };
}

/// Each mutation against every other one, over two connections.
macro_rules! races {
    ($adapter:ident, $make:expr, $($name:ident: $mutation:ident,)*) => {
        mod $adapter {
            $(
                #[tokio::test]
                async fn $name() {
                    super::races::race($make, super::races::Mutation::$mutation).await;
                }
            )*
        }
    };
    ($adapter:ident, $make:expr) => {
        races! { $adapter, $make,
            push_and_any_other_at_once: Push,
            claim_and_any_other_at_once: Claim,
            claim_by_another_and_any_other_at_once: ClaimByAnother,
            permit_and_any_other_at_once: Permit,
            settle_done_and_any_other_at_once: SettleDone,
            settle_for_retry_and_any_other_at_once: SettleForRetry,
            settle_as_dead_and_any_other_at_once: SettleAsDead,
            settle_as_dropped_and_any_other_at_once: SettleAsDropped,
            settle_and_claim_and_any_other_at_once: SettleAndClaim,
            release_and_any_other_at_once: Release,
            renew_and_any_other_at_once: Renew,
            pushback_and_any_other_at_once: Pushback,
            release_holder_crashed_and_any_other_at_once: ReleaseHolderCrashed,
            release_holder_disrupted_and_any_other_at_once: ReleaseHolderDisrupted,
            join_and_any_other_at_once: Join,
            suspend_node_and_any_other_at_once: SuspendNode,
            resume_node_and_any_other_at_once: ResumeNode,
            freeze_and_any_other_at_once: Freeze,
            thaw_and_any_other_at_once: Thaw,
            remove_node_and_any_other_at_once: RemoveNode,
            tighten_budget_and_any_other_at_once: TightenBudget,
            retry_dead_and_any_other_at_once: RetryDead,
            drop_task_and_any_other_at_once: DropTask,
            close_and_any_other_at_once: Close,
        }
    };
}

races!(memory_races, super::two_ways_into_memory);
races!(redis_races, super::two_ways_into_redis);

contract!(memory, super::in_memory);
contract! { memory_at_length, super::in_memory,
    stress::c_09_5_000_tokens_5_000_workers_100_000_seeds,
    stress::c_09_50_tokens_5_000_workers_100_000_seeds,
    stress::c_09_5_000_tokens_50_workers_100_000_seeds,
    model::any_history_keeps_the_guarantees,
}

contract!(redis, super::in_redis);
contract! { redis_at_length, super::in_redis,
    stress::c_09_5_000_tokens_5_000_workers_100_000_seeds,
    stress::c_09_50_tokens_5_000_workers_100_000_seeds,
    stress::c_09_5_000_tokens_50_workers_100_000_seeds,
    model::histories_of_ten_thousand_steps_keep_the_guarantees,
}
contract!(redis_with_append_only_file, super::in_redis_with_append_only_file);
contract! { redis_with_append_only_file_at_length, super::in_redis_with_append_only_file,
    model::histories_of_ten_thousand_steps_keep_the_guarantees,
}

fn in_memory(clock: SharedClock) -> SharedQueue {
    Arc::new(MemoryQueue::new(clock))
}

fn in_redis(clock: SharedClock) -> SharedQueue {
    open_with_callers_clock(&new_instance(false), clock).unwrap()
}

fn in_redis_with_append_only_file(clock: SharedClock) -> SharedQueue {
    open_with_callers_clock(&new_instance(true), clock).unwrap()
}

fn two_ways_into_memory(clock: SharedClock) -> [SharedQueue; 2] {
    let queue = in_memory(clock);
    [queue.clone(), queue]
}

fn two_ways_into_redis(clock: SharedClock) -> [SharedQueue; 2] {
    let settings = new_instance(false);
    [clock.clone(), clock].map(|clock| open_with_callers_clock(&settings, clock).unwrap())
}
