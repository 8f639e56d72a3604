//! Queues with one defect each: the model must catch every one within the steps that a run of the tests takes, and for
//! the right reason.

mod adapter;
mod defects;

use std::sync::Arc;

use trawler::clock::SharedClock;
use trawler::queue::SharedQueue;
use trawler::queue::memory::MemoryQueue;

use self::adapter::Faulty;
use crate::contract::model::{Law, STEPS, run_histories};

/// What is wrong with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    SettlesForWhoLostTheLease,
    ClaimsForWhoWasReplaced,
    LosesFeedback,
    TakesFeedbackOfTheUnknown,
    ClaimsWhileFrozen,
    PermitsWhileFrozen,
    PermitsWithoutLimit,
    AllowsOneCallMore,
    ForgetsWhatADatasetCosts,
    ForgetsToSpread,
    ForgetsTheHours,
    ForgetsDocuments,
    AllowsOneMoreAtAnOrigin,
    LeasesTwice,
    StarvesANode,
    BreaksRows,
    KeepsTheTokenOfWhoWasReleased,
    ShortensDelays,
    NeverLetsLeasesExpire,
    IgnoresPushbacks,
    QueuesWhatIsDoneAgain,
    IgnoresStatus,
    DriftsInItsLedger,
    WaitsTooLong,
    SaysNowForEver,
    SleepsThroughWakes,
    ChargesDisruptions,
    CountsWhatWasReleasedUntried,
    IdlesNowAndThen,
    HandsOutWhatIsSuspended,
    MixesGroups,
    ForgetsWhyTasksDied,
}

/// That this defect is caught, and which law it breaks.
macro_rules! caught {
    ($($name:ident: $fault:ident breaks $($law:ident)|+,)*) => {
        $(
            #[tokio::test]
            async fn $name() {
                let law = law_broken_by(Fault::$fault).await;
                assert!(matches!(law, Some($(Law::$law)|+)), "{law:?}");
            }
        )*
    };
}

caught! {
    a_settlement_of_who_lost_the_lease_is_caught: SettlesForWhoLostTheLease breaks Fenced,
    a_claim_of_who_was_replaced_is_caught: ClaimsForWhoWasReplaced breaks Fenced,
    lost_feedback_is_caught: LosesFeedback breaks Account | Answer | NothingWaits,
    feedback_of_the_unknown_is_caught: TakesFeedbackOfTheUnknown breaks Whole,
    a_claim_while_frozen_is_caught: ClaimsWhileFrozen breaks Frozen,
    a_permit_while_frozen_is_caught: PermitsWhileFrozen breaks Frozen,
    a_permit_too_many_is_caught: PermitsWithoutLimit breaks Window | Pacing,
    a_window_that_is_too_wide_is_caught: AllowsOneCallMore breaks Window,
    a_dataset_that_is_too_cheap_is_caught: ForgetsWhatADatasetCosts breaks Window | Pacing,
    calls_that_are_not_spread_are_caught: ForgetsToSpread breaks Pacing,
    hours_that_are_ignored_are_caught: ForgetsTheHours breaks Hours,
    documents_that_are_not_counted_are_caught: ForgetsDocuments breaks PostPaid,
    a_request_too_many_under_way_is_caught: AllowsOneMoreAtAnOrigin breaks Concurrency,
    a_double_lease_is_caught: LeasesTwice breaks OneLease,
    a_starved_node_is_caught: StarvesANode breaks Starved,
    a_broken_row_is_caught: BreaksRows breaks Turns,
    a_token_that_is_kept_after_its_release_is_caught: KeepsTheTokenOfWhoWasReleased breaks Places,
    a_delay_that_ends_early_is_caught: ShortensDelays breaks Account,
    a_lease_that_never_expires_is_caught: NeverLetsLeasesExpire breaks Account | Moment,
    a_pushback_that_is_ignored_is_caught: IgnoresPushbacks breaks BackOff | Pacing,
    a_task_that_is_queued_again_is_caught: QueuesWhatIsDoneAgain breaks Once,
    a_status_that_is_ignored_is_caught: IgnoresStatus breaks Order,
    a_ledger_that_drifts_is_caught: DriftsInItsLedger breaks Account,
    a_wait_that_is_too_long_is_caught: WaitsTooLong breaks Moment,
    a_wait_that_is_always_now_is_caught: SaysNowForEver breaks Moment,
    a_wake_that_is_missed_is_caught: SleepsThroughWakes breaks Woken,
    a_charge_for_a_disruption_is_caught: ChargesDisruptions breaks Charges,
    an_attempt_that_was_none_is_caught: CountsWhatWasReleasedUntried breaks Charges | Order,
    a_queue_that_idles_is_caught: IdlesNowAndThen breaks NothingWaits,
    a_task_of_another_group_is_caught: MixesGroups breaks Group | NothingWaits,
    a_forgotten_failure_is_caught: ForgetsWhyTasksDied breaks Dead,
    a_suspension_that_is_ignored_is_caught: HandsOutWhatIsSuspended breaks Suspended,
}

async fn law_broken_by(fault: Fault) -> Option<Law> {
    let make = |clock: SharedClock| -> SharedQueue {
        let inner = Arc::new(MemoryQueue::new(Arc::clone(&clock)));
        Arc::new(Faulty::new(inner, fault, clock))
    };
    let found = run_histories(make, STEPS, 1).await.err()?;
    println!("after {} steps: {:?}", found.steps, found.violation);
    Some(found.violation.law)
}
