//! What to do: pure decisions over snapshots.
//!
//! [`plan_run()`] decides one run, [`plan_shares`] divides an instance's tokens between runs. A snapshot holds everything
//! that was read, and `now`; a plan is ordered data: steps, a status, and when to look again. Nothing here reads a
//! clock, a file or a network, so the same functions serve `trawler run`, `trawler plan`, the operator and golden tests.

mod brief;
mod budgets;
mod execution_plan;
mod health;
mod hours;
mod plan_run;
mod select;
mod shares;
mod snapshot;
mod spent;
mod text;

pub use brief::{NodeBrief, RunBrief};
pub use budgets::{DEFAULT_BUDGET, ORIGIN_PROTECTION, describe_default_budget};
pub use execution_plan::{ExecutionPlan, Phase, SkipReason, SkippedNode, Step, Verdict};
pub use health::{Health, Outage, health, spec_hash};
pub use plan_run::plan_run;
pub use shares::{InstanceSnapshot, RunDemand, Shares, plan_shares};
pub use snapshot::{CrawlerState, NodeObservation, NodeSpending, QueueObservation, RunSnapshot, SpentObservation};
pub use spent::uncounted;
