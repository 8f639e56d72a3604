//! Which crawlers of a run come and go on a cluster: one token, one Job, one pod.
//!
//! Nothing is counted up and down: which tokens are held is derived from the Jobs that exist, so that nothing leaks. Who holds a
//! place in the queue, and who is gone, is told by the ids of the Jobs.

use std::collections::BTreeSet;

use jiff::Timestamp;

/// A Job that has ended is kept, for its logs, until its token is needed, and for so long at least: whoever has to tell the
/// queue of its end looks at it.
const KEPT_SECONDS: i64 = 10;

/// Everything that was read about the crawlers of an instance, for one of its runs.
#[derive(Debug, Clone)]
pub struct CrewSnapshot<'a> {
    /// The moment.
    pub now: Timestamp,
    /// The uid of the run's CrawlRun.
    pub owner: &'a str,
    /// The instance's tokens: 0, 1, … and so many in all.
    pub tokens: u32,
    /// How many of them the run may hold.
    pub share: u32,
    /// All crawler Jobs of the instance.
    pub jobs: &'a [CrawlerJob],
    /// Ids of Jobs that are gone, but whose pods are still there and may be at work.
    pub orphans: &'a BTreeSet<String>,
    /// Who has joined the run's queue: token, and the id of its Job.
    pub holders: &'a [(u32, String)],
}

/// A crawler's Job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CrawlerJob {
    /// The token that its name says.
    pub token: u32,
    /// Its uid, by which the crawler has joined the queue.
    pub uid: String,
    /// The uid of its CrawlRun.
    pub owner: String,
    /// The group of nodes that it serves.
    pub group: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// What has become of it.
    pub fate: CrawlerFate,
}

/// What has become of a crawler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrawlerFate {
    /// It has no running pod yet.
    Starting,
    /// Its pod runs.
    Working,
    /// It was told to end, and may still settle what it has.
    Ending,
    /// Its machine is lost, or it is being evicted: its pod may still run, but what it works on is given to others.
    Lost,
    /// Its pod has ended.
    Ended {
        /// When.
        at: Timestamp,
        /// Whether what it was working on is to be charged.
        crashed: bool,
        /// Whether it ended in order.
        in_order: bool,
    },
}

impl CrawlerFate {
    /// Its token is free.
    pub fn has_ended(self) -> bool {
        matches!(self, Self::Ended { .. })
    }

    /// It counts as one of the run's crawlers: it will take tasks.
    pub fn is_at_work(self) -> bool {
        matches!(self, Self::Starting | Self::Working)
    }
}

/// Why a holder's place in the queue is freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leave {
    /// It ended in order.
    Finished,
    /// It crashed, or ran out of memory.
    Crashed,
    /// Eviction, preemption, a lost machine, or somebody deleted it.
    Disrupted,
}

/// What to do about a run's crawlers, beside starting them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CrewPlan {
    /// Places in the queue to be freed.
    pub leaves: Vec<(u32, Leave)>,
    /// Crawlers to be told to end: the run holds more tokens than its share.
    pub stops: Vec<u32>,
    /// Tokens that can be taken, in this order. Where a Job that has ended has the name, it is deleted first.
    pub free: Vec<u32>,
    /// No crawler is started before: those before ended badly, one after the other.
    pub not_before: Option<Timestamp>,
}

/// Decides it. Pure.
pub fn plan_crew(snapshot: &CrewSnapshot<'_>) -> CrewPlan {
    let own = || snapshot.jobs.iter().filter(|job| job.owner == snapshot.owner);
    let leaves: Vec<(u32, Leave)> = snapshot
        .holders
        .iter()
        .filter_map(|(token, uid)| {
            let leave = match own().find(|job| job.uid == *uid) {
                None if snapshot.orphans.contains(uid) => return None,
                None => Leave::Disrupted,
                Some(job) => match job.fate {
                    CrawlerFate::Starting | CrawlerFate::Working | CrawlerFate::Ending => return None,
                    CrawlerFate::Ended { in_order: true, .. } => Leave::Finished,
                    CrawlerFate::Ended { crashed: true, .. } => Leave::Crashed,
                    CrawlerFate::Lost | CrawlerFate::Ended { .. } => Leave::Disrupted,
                },
            };
            Some((*token, leave))
        })
        .collect();

    let mut at_work: Vec<&CrawlerJob> = own().filter(|job| job.fate.is_at_work()).collect();
    at_work.sort_by_key(|job| (job.created_at, job.token));
    let stops = at_work.iter().skip(snapshot.share as usize).map(|job| job.token).collect();

    let named: BTreeSet<u32> = snapshot.jobs.iter().map(|job| job.token).collect();
    let mut free: Vec<u32> = (0..snapshot.tokens).filter(|token| !named.contains(token)).collect();
    let mut ended: Vec<(Timestamp, u32)> = Vec::new();
    for job in snapshot.jobs.iter().filter(|job| job.token < snapshot.tokens) {
        let CrawlerFate::Ended { at, .. } = job.fate else { continue };
        let is_ours = job.owner == snapshot.owner;
        let was_seen = snapshot.now.duration_since(at).as_secs() >= KEPT_SECONDS;
        if is_ours || was_seen {
            ended.push((at, job.token));
        }
    }
    ended.sort_unstable();
    free.extend(ended.into_iter().map(|(_, token)| token));
    let not_before = not_before(own()).filter(|moment| *moment > snapshot.now);
    CrewPlan { leaves, stops, free, not_before }
}

/// The pause after the first crawler that ended badly; it doubles with each that is still there to be seen.
const FIRST_PAUSE_SECONDS: i64 = 2;
/// The longest.
const LONGEST_PAUSE_SECONDS: i64 = 300;

/// Crawlers that come to nothing are started ever more slowly. One that ended in order after them begins anew.
fn not_before<'a>(own: impl Iterator<Item = &'a CrawlerJob>) -> Option<Timestamp> {
    let mut ends: Vec<(Timestamp, bool)> = own
        .filter_map(|job| match job.fate {
            CrawlerFate::Ended { at, in_order, crashed } => Some((at, in_order || !crashed)),
            _ => None,
        })
        .collect();
    ends.sort_unstable();
    let in_a_row = ends.iter().rev().take_while(|(_, is_fine)| !is_fine).count();
    let (last, _) = ends.last().filter(|_| in_a_row > 0)?;
    let doublings = u32::try_from(in_a_row - 1).unwrap_or(u32::MAX).min(10);
    let pause = (FIRST_PAUSE_SECONDS << doublings).min(LONGEST_PAUSE_SECONDS);
    last.checked_add(jiff::SignedDuration::from_secs(pause)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    fn job(token: u32, owner: &str, fate: CrawlerFate) -> CrawlerJob {
        let created_at = at(i64::from(token));
        CrawlerJob {
            token,
            uid: format!("job-{token}"),
            owner: owner.into(),
            group: "default".into(),
            created_at,
            fate,
        }
    }

    fn ended(second: i64, crashed: bool, in_order: bool) -> CrawlerFate {
        CrawlerFate::Ended { at: at(second), crashed, in_order }
    }

    fn plan(jobs: &[CrawlerJob], holders: &[(u32, &str)], orphans: &[&str], tokens: u32, share: u32) -> CrewPlan {
        let holders: Vec<(u32, String)> = holders.iter().map(|(token, uid)| (*token, (*uid).to_owned())).collect();
        let orphans = orphans.iter().map(|uid| (*uid).to_owned()).collect();
        plan_crew(&CrewSnapshot { now: at(100), owner: "a", tokens, share, jobs, orphans: &orphans, holders: &holders })
    }

    #[test]
    fn a_place_in_the_queue_is_freed_when_its_pod_has_ended_or_is_lost_with_the_right_blame() {
        let jobs = [
            job(0, "a", CrawlerFate::Working),
            job(1, "a", ended(90, false, true)),
            job(2, "a", ended(90, true, false)),
            job(3, "a", CrawlerFate::Lost),
            job(4, "a", CrawlerFate::Ending),
            job(5, "a", ended(90, false, false)),
        ];
        let holders = [(0, "job-0"), (1, "job-1"), (2, "job-2"), (3, "job-3"), (4, "job-4"), (5, "job-5")];
        let leaves = plan(&jobs, &holders, &[], 6, 6).leaves;
        assert_eq!(leaves, [(1, Leave::Finished), (2, Leave::Crashed), (3, Leave::Disrupted), (5, Leave::Disrupted)]);
    }

    #[test]
    fn a_crawler_whose_job_was_deleted_keeps_its_place_while_its_pod_is_there() {
        assert_eq!(plan(&[], &[(0, "gone")], &["gone"], 1, 1).leaves, Vec::<(u32, Leave)>::new());
        assert_eq!(plan(&[], &[(0, "gone")], &[], 1, 1).leaves, [(0, Leave::Disrupted)]);
    }

    #[test]
    fn a_new_job_of_the_same_token_is_not_blamed_for_the_one_before() {
        let jobs = [job(0, "a", ended(90, true, false))];
        assert_eq!(plan(&jobs, &[(0, "another")], &[], 1, 1).leaves, [(0, Leave::Disrupted)]);
    }

    #[test]
    fn tokens_without_a_job_go_first_then_those_of_the_jobs_that_ended_longest_ago() {
        let jobs = [
            job(0, "b", ended(95, false, true)),
            job(1, "a", ended(96, false, true)),
            job(2, "b", ended(50, false, true)),
            job(3, "b", CrawlerFate::Working),
            job(9, "b", ended(0, false, true)),
        ];
        assert_eq!(
            plan(&jobs, &[], &[], 6, 6).free,
            [4, 5, 2, 1],
            "0 ended a moment ago, and its run may not have seen it"
        );
    }

    #[test]
    fn crawlers_that_end_badly_one_after_the_other_are_started_ever_more_slowly() {
        let bad = |token: u32, second: i64| job(token, "a", ended(second, true, false));
        let fine = |token: u32, second: i64| job(token, "a", ended(second, false, true));
        let wait = |jobs: &[CrawlerJob]| plan(jobs, &[], &[], 9, 9).not_before;
        assert_eq!(wait(&[bad(0, 99)]), Some(at(101)));
        assert_eq!(wait(&[bad(0, 97), bad(1, 98), bad(2, 99)]), Some(at(107)));
        assert_eq!(wait(&[bad(0, 97), bad(1, 98), fine(2, 99)]), None);
        assert_eq!(wait(&[bad(0, 90)]), None, "its pause is over");
        assert_eq!(wait(&[job(0, "b", ended(99, true, false))]), None, "another run's");
    }

    #[test]
    fn who_holds_more_than_its_share_stops_the_youngest() {
        let jobs = [0, 1, 2, 3].map(|token| job(token, if token == 1 { "b" } else { "a" }, CrawlerFate::Working));
        assert_eq!(plan(&jobs, &[], &[], 4, 1).stops, [2, 3]);
        assert_eq!(plan(&jobs, &[], &[], 4, 3).stops, Vec::<u32>::new());
    }
}
