//! What to do: pure decisions over snapshots.
//!
//! [`plan_run()`] decides one run, [`plan_shares`] divides an instance's tokens between runs. A snapshot holds everything
//! that was read, and `now`; a plan is ordered data: steps, a status, and when to look again. Nothing here reads a
//! clock, a file or a network, so the same functions serve `trawler run`, `trawler plan`, the operator and golden tests.

mod brief;
mod budgets;
mod crew;
mod estimate;
mod execution_plan;
mod health;
mod hours;
mod plan_run;
mod schedules;
mod select;
mod shares;
mod snapshot;
mod spent;
mod text;

pub use brief::{NodeBrief, RunBrief};
pub use budgets::{
    DEFAULT_BUDGET, ORIGIN_PROTECTION, describe_default_budget, policy_name_of, target_owner, unusable_hours,
};
pub use crew::{CrawlerFate, CrawlerJob, CrewPlan, CrewSnapshot, Leave, plan_crew};
pub use estimate::{LaneLoad, estimate_end};
pub use execution_plan::{ExecutionPlan, Phase, SkipReason, SkippedNode, Step, Verdict};
pub use health::{Health, Outage, health, spec_hash};
pub use plan_run::{demand, plan_run, run_config};
pub use schedules::{NewRun, RunObservation, SchedulePlan, ScheduleSnapshot, plan_schedules};
pub use select::unusable;
pub use shares::{InstanceSnapshot, RunDemand, Shares, plan_shares};
pub use snapshot::{CrawlerState, NodeObservation, NodeSpending, QueueObservation, RunSnapshot, SpentObservation};
pub use spent::uncounted;
