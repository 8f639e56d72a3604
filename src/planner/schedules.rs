//! When a Catalog's runs start, which of them go, and when to look again. Pure.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use jiff02::tz::TimeZone;

use crate::api::schedules::{ScheduleError, parse_cron, parse_time_zone};
use crate::api::times::moment_of;
use crate::api::{Catalog, ConcurrencyPolicy, RunMode, Schedule};

/// Everything that was read about a Catalog's runs, at one moment.
#[derive(Debug, Clone)]
pub struct ScheduleSnapshot<'a> {
    /// The moment.
    pub now: Timestamp,
    /// The Catalog, with its status: when each schedule last started a run.
    pub catalog: &'a Catalog,
    /// The value of its annotation that asks for a run now.
    pub requested: Option<&'a str>,
    /// Its runs.
    pub runs: &'a [RunObservation],
}

/// A run of a Catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunObservation {
    /// Name of the CrawlRun.
    pub name: String,
    /// How much it looks at.
    pub mode: RunMode,
    /// A schedule made it.
    pub is_scheduled: bool,
    /// How it ended: well or not; `None`: it is active.
    pub succeeded: Option<bool>,
    /// When it was made.
    pub created_at: Timestamp,
}

/// What to do about a Catalog's runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SchedulePlan {
    /// Runs to make.
    pub start: Vec<NewRun>,
    /// Runs to delete: active ones that are replaced, and finished ones beyond the history.
    pub delete: Vec<String>,
    /// For each schedule the moment that was handled last.
    pub handled: Vec<(String, Timestamp)>,
    /// The request that was handled last.
    pub handled_request: Option<String>,
    /// Moments that passed without a run, each with a sentence.
    pub missed: Vec<String>,
    /// When the next run is due.
    pub next: Option<Timestamp>,
    /// A moment that is due waits for an active run to end.
    pub waits: bool,
}

/// A run to make. Its name follows from what asks for it, so that it is made once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRun {
    /// Its name.
    pub name: String,
    /// The schedule that asks for it; `None`: a person did.
    pub schedule: Option<String>,
    /// How much it looks at.
    pub mode: RunMode,
}

/// Decides it. `Err`: a schedule can't be used.
pub fn plan_schedules(snapshot: &ScheduleSnapshot<'_>) -> Result<SchedulePlan, ScheduleError> {
    let (spec, status) = (&snapshot.catalog.spec, snapshot.catalog.status.clone().unwrap_or_default());
    let name = snapshot.catalog.metadata.name.as_deref().unwrap_or_default();
    let mut plan = SchedulePlan { handled_request: status.last_handled_run_request.clone(), ..SchedulePlan::default() };
    let created = snapshot.catalog.metadata.creation_timestamp.as_ref().map_or(Timestamp::MIN, moment_of);
    for schedule in &spec.schedules {
        let known = status.schedules.iter().find(|known| known.name == schedule.name);
        let handled = known.and_then(|known| known.last_schedule_time.as_ref()).map_or(created, moment_of);
        let moments = Moments::of(schedule, name)?;
        plan.next = match (plan.next, moments.after(snapshot.now)) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        let due = moments.at_or_before(snapshot.now).filter(|due| *due > handled);
        let handled = match due {
            Some(due) if spec.suspend => due,
            Some(due) => decide(&mut plan, snapshot, schedule, name, due).unwrap_or(handled),
            None => handled,
        };
        if handled > created {
            plan.handled.push((schedule.name.clone(), handled));
        }
    }
    if spec.suspend {
        plan.next = None;
    }
    if let Some(requested) = snapshot.requested.filter(|requested| plan.handled_request.as_deref() != Some(*requested))
    {
        let digest = blake3::hash(requested.as_bytes()).to_hex();
        let name = format!("{name}-requested-{}", digest.as_str().get(..10).unwrap_or_default());
        plan.start.push(NewRun { name, schedule: None, mode: spec.run_template.spec.mode });
        plan.handled_request = Some(requested.chars().take(256).collect());
    }
    plan.delete.extend(beyond_history(snapshot));
    Ok(plan)
}

/// What becomes of a moment that is due. `None`: it is not handled yet.
fn decide(
    plan: &mut SchedulePlan,
    snapshot: &ScheduleSnapshot<'_>,
    schedule: &Schedule,
    catalog: &str,
    due: Timestamp,
) -> Option<Timestamp> {
    let spec = &snapshot.catalog.spec;
    let is_late = due.checked_add(spec.starting_deadline.get()).is_ok_and(|latest| latest < snapshot.now);
    if is_late {
        plan.missed.push(format!(
            "schedule {} was due at {due}, longer ago than spec.startingDeadline ({}); no run is started for it",
            schedule.name, spec.starting_deadline
        ));
        return Some(due);
    }
    let active: Vec<&RunObservation> =
        snapshot.runs.iter().filter(|run| run.succeeded.is_none() && run.mode == schedule.mode).collect();
    if !active.is_empty() {
        match spec.concurrency_policy {
            ConcurrencyPolicy::Allow => {}
            // It starts late, once the active one has ended, if that is not too late.
            ConcurrencyPolicy::Forbid => {
                plan.waits = true;
                return None;
            }
            ConcurrencyPolicy::Replace => plan.delete.extend(active.iter().map(|run| run.name.clone())),
        }
    }
    plan.start.push(NewRun {
        name: format!("{catalog}-{}-{}", schedule.name, due.as_second() / 60),
        schedule: Some(schedule.name.clone()),
        mode: schedule.mode,
    });
    Some(due)
}

/// Finished runs that schedules made, but for the youngest.
fn beyond_history(snapshot: &ScheduleSnapshot<'_>) -> BTreeSet<String> {
    let history = &snapshot.catalog.spec.history;
    let mut surplus = BTreeSet::new();
    for (wanted, kept) in [(true, history.successful), (false, history.failed)] {
        let mut ended: Vec<&RunObservation> =
            snapshot.runs.iter().filter(|run| run.is_scheduled && run.succeeded == Some(wanted)).collect();
        ended.sort_by(|a, b| b.created_at.cmp(&a.created_at).then_with(|| b.name.cmp(&a.name)));
        surplus.extend(ended.into_iter().skip(kept as usize).map(|run| run.name.clone()));
    }
    surplus
}

/// The same part of the jitter each time: whoever looks again comes to the same moment.
fn shift_of(schedule: &Schedule, catalog: &str) -> SignedDuration {
    let jitter = schedule.jitter.map_or(0, |jitter| jitter.get().as_secs());
    let digest = blake3::hash(format!("{catalog}/{}", schedule.name).as_bytes());
    let number = digest.as_bytes().iter().take(8).fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    let seconds = if jitter == 0 { 0 } else { number % jitter };
    SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(0))
}

/// The moments of a schedule.
struct Moments {
    cron: croner::Cron,
    zone: TimeZone,
    /// Each comes so much later than the expression says.
    shift: SignedDuration,
}

impl Moments {
    fn of(schedule: &Schedule, catalog: &str) -> Result<Self, ScheduleError> {
        let cron = parse_cron(&schedule.cron)?;
        parse_time_zone(&schedule.time_zone)?;
        let unknown = |_| ScheduleError::NotATimeZone(schedule.time_zone.clone());
        let shift = shift_of(schedule, catalog);
        Ok(Self { cron, zone: TimeZone::get(&schedule.time_zone).map_err(unknown)?, shift })
    }

    /// The first one after a moment, if there is one in the years that calendars know.
    fn after(&self, moment: Timestamp) -> Option<Timestamp> {
        let next = self.cron.find_next_occurrence(&self.wall(moment)?, false).ok()?;
        self.shifted(&next)
    }

    fn at_or_before(&self, moment: Timestamp) -> Option<Timestamp> {
        let last = self.cron.find_previous_occurrence(&self.wall(moment)?, true).ok()?;
        self.shifted(&last)
    }

    fn wall(&self, moment: Timestamp) -> Option<jiff02::Zoned> {
        let moment = moment.checked_sub(self.shift).ok()?;
        let moment = jiff02::Timestamp::from_microsecond(moment.as_microsecond()).ok()?;
        Some(moment.to_zoned(self.zone.clone()))
    }

    fn shifted(&self, at: &jiff02::Zoned) -> Option<Timestamp> {
        Timestamp::from_second(at.timestamp().as_second()).ok()?.checked_add(self.shift).ok()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::api::times::time_of;
    use crate::api::{CatalogStatus, ScheduleStatus};

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn catalog(spec: &Value, last: Option<&str>) -> Catalog {
        let mut whole = json!({
            "catalogNodeSelector": {},
            "schedules": [{"name": "nightly", "cron": "0 2 * * *", "timeZone": "Europe/Berlin"}],
        });
        whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        let mut catalog = Catalog::new("mobility", serde_json::from_value(whole).unwrap());
        catalog.metadata.creation_timestamp = Some(time_of(at("2026-11-01T00:00:00Z")));
        let last_schedule_time = last.map(|last| time_of(at(last)));
        let schedules = vec![ScheduleStatus { name: "nightly".into(), last_schedule_time }];
        catalog.status = Some(CatalogStatus { schedules, ..CatalogStatus::default() });
        catalog
    }

    fn run(name: &str, succeeded: Option<bool>, second: i64) -> RunObservation {
        let created_at = Timestamp::from_second(second).unwrap();
        RunObservation { name: name.into(), mode: RunMode::Full, is_scheduled: true, succeeded, created_at }
    }

    fn plan(catalog: &Catalog, now: &str, runs: &[RunObservation]) -> SchedulePlan {
        plan_schedules(&ScheduleSnapshot { now: at(now), catalog, requested: None, runs }).unwrap()
    }

    fn names(plan: &SchedulePlan) -> Vec<&str> {
        plan.start.iter().map(|run| run.name.as_str()).collect()
    }

    #[test]
    fn a_run_starts_once_for_each_moment_in_the_schedules_own_time_zone() {
        let seen = catalog(&json!({}), Some("2026-11-29T01:00:00Z"));
        let before = plan(&seen, "2026-11-30T00:59:59Z", &[]);
        assert_eq!((names(&before), before.next), (vec![], Some(at("2026-11-30T01:00:00Z"))));
        let due = plan(&seen, "2026-11-30T01:00:10Z", &[]);
        assert_eq!(names(&due), ["mobility-nightly-29933340"]);
        assert_eq!(due.handled, [("nightly".to_owned(), at("2026-11-30T01:00:00Z"))]);
        assert_eq!(due.next, Some(at("2026-12-01T01:00:00Z")));
        let again = plan(&catalog(&json!({}), Some("2026-11-30T01:00:00Z")), "2026-11-30T01:00:20Z", &[]);
        assert_eq!(names(&again), Vec::<&str>::new());
    }

    #[test]
    fn jitter_shifts_each_moment_of_a_schedule_by_the_same_part_and_another_catalogs_by_another() {
        let schedules = json!({"schedules": [{"name": "nightly", "cron": "0 2 * * *", "jitter": "1h"}]});
        let mut seen = catalog(&schedules, Some("2026-11-29T03:00:00Z"));
        let shift = |seen: &Catalog| {
            let next = plan(seen, "2026-11-30T00:00:00Z", &[]).next.unwrap();
            next.duration_since(at("2026-11-30T02:00:00Z")).as_secs()
        };
        let first = shift(&seen);
        assert!((0..3600).contains(&first), "{first}");
        assert_eq!(shift(&seen), first);
        let before = plan(&seen, "2026-11-30T01:59:59Z", &[]);
        assert_eq!(names(&before), Vec::<&str>::new());
        assert_eq!(names(&plan(&seen, "2026-11-30T03:00:00Z", &[])).len(), 1);
        seen.metadata.name = Some("energy".into());
        assert_ne!(shift(&seen), first);
    }

    #[test]
    fn a_moment_that_was_missed_for_too_long_starts_nothing_and_is_named() {
        let late = plan(&catalog(&json!({}), Some("2026-11-28T01:00:00Z")), "2026-11-30T02:00:01Z", &[]);
        assert_eq!(names(&late), Vec::<&str>::new());
        assert!(late.missed[0].starts_with("schedule nightly was due at 2026-11-30T01:00:00Z"), "{:?}", late.missed);
        assert_eq!(late.handled, [("nightly".to_owned(), at("2026-11-30T01:00:00Z"))]);
    }

    #[test]
    fn of_many_moments_that_were_missed_the_last_counts() {
        let back = plan(&catalog(&json!({}), Some("2026-11-02T01:00:00Z")), "2026-11-30T01:30:00Z", &[]);
        assert_eq!(names(&back), ["mobility-nightly-29933340"]);
    }

    #[test]
    fn an_active_run_of_the_same_mode_is_waited_for_replaced_or_joined() {
        let active = [run("mobility-x", None, 0)];
        let of = |policy: &str| {
            let seen = catalog(&json!({"concurrencyPolicy": policy}), Some("2026-11-29T01:00:00Z"));
            plan(&seen, "2026-11-30T01:00:10Z", &active)
        };
        let (forbid, replace, allow) = (of("Forbid"), of("Replace"), of("Allow"));
        assert_eq!((names(&forbid), forbid.waits), (vec![], true));
        assert_eq!(forbid.handled, [("nightly".to_owned(), at("2026-11-29T01:00:00Z"))]);
        assert_eq!((names(&replace).len(), replace.delete), (1, vec!["mobility-x".to_owned()]));
        assert_eq!((names(&allow).len(), allow.delete), (1, vec![]));
    }

    #[test]
    fn a_suspended_catalog_starts_nothing_and_does_not_make_up_for_it() {
        let suspended =
            plan(&catalog(&json!({"suspend": true}), Some("2026-11-29T01:00:00Z")), "2026-11-30T01:00:10Z", &[]);
        assert_eq!((names(&suspended), suspended.next), (vec![], None));
        assert_eq!(suspended.handled, [("nightly".to_owned(), at("2026-11-30T01:00:00Z"))]);
    }

    #[test]
    fn a_person_gets_one_run_for_each_request() {
        let seen = catalog(&json!({"schedules": []}), None);
        let now = at("2026-11-30T01:00:10Z");
        let asked = |catalog: &Catalog, requested| {
            plan_schedules(&ScheduleSnapshot { now, catalog, requested: Some(requested), runs: &[] }).unwrap()
        };
        let first = asked(&seen, "today");
        assert_eq!((first.start.len(), first.handled_request.as_deref()), (1, Some("today")));
        assert_eq!(asked(&seen, "today").start, first.start, "the name follows from the request");
        let mut handled = seen;
        handled.status.as_mut().unwrap().last_handled_run_request = Some("today".into());
        assert_eq!(asked(&handled, "today").start, []);
        assert_eq!(asked(&handled, "tomorrow").start.len(), 1);
    }

    #[test]
    fn the_youngest_finished_runs_of_schedules_stay() {
        let seen = catalog(&json!({"history": {"successful": 1, "failed": 1}}), Some("2026-11-30T01:00:00Z"));
        let by_hand = RunObservation { is_scheduled: false, ..run("by-hand", Some(true), 0) };
        let runs = [
            run("a", Some(true), 1),
            run("b", Some(true), 2),
            run("c", Some(false), 3),
            run("d", Some(false), 4),
            run("e", None, 0),
            by_hand,
        ];
        assert_eq!(plan(&seen, "2026-11-30T01:30:00Z", &runs).delete, ["a", "c"]);
    }
}
