//! Claims and permits: what may be handed out, what must be, and what a wait may say.

use jiff::Timestamp;
use trawler::queue::{Claim, Gate, Holder, LeaseRef, Leased, Permit, Woken};
use trawler::task::TaskId;

use super::Model;
use super::account::{Held, Known, Lease, State, Told};
use super::laws::{Law, Verdict, Violation, broken, demand, same};
use super::turns::Place;
use super::world::{LEASE_MS, ORIGINS, origin_key};

/// "Come back now" is said no more often than this.
const MAX_AT_ONCE: u32 = 3;

impl Model {
    pub(super) async fn claim(&mut self, run: usize, token: u32, max: usize) -> Verdict {
        for _ in 0..MAX_AT_ONCE {
            let Some(held) = self.runs[run].holders.get(&token).filter(|held| !held.stalled).cloned() else {
                return Ok(());
            };
            let claim = self.queue.claim(&held.holder, max).await;
            let claim = claim.map_err(|error| Violation { law: Law::Answer, what: error.to_string() })?;
            if self.claimed(run, token, max, claim).await? {
                return Ok(());
            }
        }
        broken(Law::Moment, format!("told {MAX_AT_ONCE} times to come back at once"))
    }

    /// Compares what a claim was answered. Returns false if it is to come back now.
    pub(super) async fn claimed(
        &mut self,
        run: usize,
        token: u32,
        max: usize,
        claim: Claim,
    ) -> Result<bool, Violation> {
        let Some(held) = self.runs[run].holders.get_mut(&token) else { return Ok(true) };
        let (group, told) = (held.group, held.told.take());
        demand(Law::Frozen, self.runs[run].frozen == (claim == Claim::Frozen), || format!("{claim:?}"))?;
        match claim {
            Claim::Tasks(tasks) => {
                self.check_woken(run, told).await?;
                self.check_handed_out(run, token, max, &tasks)?;
            }
            Claim::Wait { until, sequence } if max > 0 => {
                self.check_wait(run, token, group, until)?;
                self.contend(run, group);
                let told = Told { until, sequence };
                self.runs[run].holders.entry(token).and_modify(|held| held.told = Some(told));
                self.woken_at = Some(until.as_microsecond().div_euclid(1_000) + 1);
                self.tally.count("wait");
                return Ok(until > self.timestamp());
            }
            Claim::Wait { .. } => {
                demand(Law::Answer, !self.runs[run].ledger().is_drained(), || "drained".into())?;
            }
            Claim::Drained => {
                self.tally.count("drained");
                demand(Law::Answer, self.runs[run].ledger().is_drained(), || "not drained".into())?;
            }
            Claim::Frozen => self.tally.count("claim while frozen"),
        }
        Ok(true)
    }

    /// A group may have been told to wait at the budgets that are closed for what it has.
    fn contend(&mut self, run: usize, group: usize) {
        for place in self.runs[run].places().iter().filter(|place| place.group == group && !place.suspended) {
            let (now, calls) = (self.now(), self.dearest(place.budget));
            let budget = &mut self.budgets[place.budget];
            let (ahead, lapses) = budget.ahead(now, None);
            self.tally.add("claim beside a promise", (ahead > 0).into());
            let opens_at = budget.surely_open_at(now, calls).max(lapses);
            if opens_at > now {
                budget.contend(opens_at);
            }
        }
    }

    /// Who was told to wait longer than he had to was woken.
    async fn check_woken(&mut self, run: usize, told: Option<Told>) -> Verdict {
        let Some(Told { until, sequence }) = told.filter(|told| told.until > self.timestamp()) else { return Ok(()) };
        self.tally.count("woken before his time");
        let woken = self.queue.wait(&self.runs[run].config.run, sequence, self.timestamp()).await;
        demand(Law::Woken, woken == Ok(Woken::Changed), || {
            format!("something was eligible before {until}, and no wait ended")
        })
    }

    fn check_wait(&self, run: usize, token: u32, group: usize, until: Timestamp) -> Verdict {
        demand(Law::Answer, !self.runs[run].ledger().is_drained(), || "nothing is left to wait for".into())?;
        self.check_nothing_waits(run, token, group)?;
        if self.may_be_kept_free(run, token, group) {
            return Ok(());
        }
        let Some(first) = self.first_opening(run, group) else { return Ok(()) };
        let late_ms = until.as_millisecond() - first;
        demand(Law::Moment, late_ms <= 0, || format!("told to come {late_ms} ms after something becomes eligible"))
    }

    /// All that is ready stands behind a gate that may be closed.
    fn check_nothing_waits(&self, run: usize, token: u32, group: usize) -> Verdict {
        let mut open = if self.runs[run].under_way(token).is_empty() {
            self.open_places(run, &self.runs[run].suspected_places(), &self.load())
        } else {
            Vec::new()
        };
        if !self.may_be_kept_free(run, token, group) {
            open.extend(self.open_places(run, &self.runs[run].places(), &self.load()));
        }
        open.retain(|place| place.group == group);
        demand(Law::NothingWaits, open.is_empty(), || format!("could go and was not handed out: {open:?}"))
    }

    /// Whether a holder may be given nothing though there is something: it works on a suspect, or is to take one next.
    fn may_be_kept_free(&self, run: usize, token: u32, group: usize) -> bool {
        let under_way = self.runs[run].under_way(token);
        under_way.iter().any(|known| known.is_suspect()) || !under_way.is_empty() && self.runs[run].has_suspects(group)
    }

    fn check_handed_out(&mut self, run: usize, token: u32, max: usize, tasks: &[Leased]) -> Verdict {
        demand(Law::Answer, (1..=max).contains(&tasks.len()), || format!("{} tasks instead of {max}", tasks.len()))?;
        let under_way = self.runs[run].under_way(token);
        let is_alone = under_way.iter().any(|known| known.is_suspect());
        demand(Law::Alone, !is_alone, || format!("{tasks:?} beside what was in a crash"))?;
        let is_suspect = |leased: &Leased| self.runs[run].tasks.get(&leased.task.id).is_some_and(Known::is_suspect);
        let suspects = tasks.iter().filter(|leased| is_suspect(leased)).count();
        let is_free = under_way.is_empty() && tasks.len() == 1;
        demand(Law::Alone, suspects == 0 || is_free, || format!("{suspects} that were in a crash in {tasks:?}"))?;
        self.tally.add("suspect handed out", suspects as u64);
        for leased in tasks {
            self.hand_out(run, token, leased)?;
        }
        let group = self.runs[run].holders[&token].group;
        if tasks.len() < max && suspects == 0 {
            self.check_nothing_waits(run, token, group)?;
        }
        self.contend(run, group);
        Ok(())
    }

    fn hand_out(&mut self, run: usize, token: u32, leased: &Leased) -> Verdict {
        let now = self.now();
        let Some(known) = self.runs[run].tasks.get(&leased.task.id).cloned() else {
            return broken(Law::Once, format!("nobody pushed {:?}", leased.task));
        };
        match known.state {
            State::Queued => {}
            State::Leased(_) => return broken(Law::OneLease, "it is leased already"),
            State::Delayed { until, .. } => return broken(Law::Delay, format!("{} ms early", until - now)),
            State::Done | State::Dead | State::Dropped => return broken(Law::Once, "it is settled already"),
        }
        let is_new = self.runs[run].numbers.insert(leased.lease.lease);
        demand(Law::OneLease, is_new, || "a lease's number came twice".into())?;
        same(Law::Answer, &leased.task, &known.task)?;
        same(Law::Answer, &leased.lease.task, &known.task.id)?;
        same(Law::Charges, &leased.attempt, &known.attempts)?;
        self.check_place(run, token, &known)?;

        let calls = self.runs[run].calls(&known);
        let budget = self.runs[run].nodes[known.node].expect("checked").budget;
        let (ahead, _) = self.budgets[budget].ahead(now, None);
        self.tally.add("task handed out beside a promise", (ahead > 0).into());
        self.budgets[budget].check(now, calls, ahead)?;
        self.budgets[budget].spend(now, calls);
        self.origins[known.origin].last_sent = Some(now);
        let lease =
            Lease { held: leased.lease, token, expires: now + LEASE_MS, sent_at: now, budget, calls, elsewhere: None };
        let entry = self.runs[run].known(known.task.id);
        (entry.state, entry.attempts) = (State::Leased(lease), entry.attempts + 1);
        self.tally.count("task handed out");
        Ok(())
    }

    /// Whether it is this task's turn, and its gates are open.
    fn check_place(&mut self, run: usize, token: u32, known: &Known) -> Verdict {
        let (places, load) = (self.runs[run].places(), self.load());
        let place = self.runs[run].place(known.node, known.origin, 1);
        let is_place = |place: &&Place| (place.node, place.origin) == (known.node, known.origin);
        let place = places.iter().find(is_place).copied().filter(|_| !known.is_suspect()).or(place);
        let Some(place) = place else { return broken(Law::Account, "its node is gone") };
        demand(Law::Suspended, !place.suspended, || "its node is suspended".into())?;
        same(Law::Group, &place.group, &self.runs[run].holders[&token].group)?;
        let older = self.runs[run].tasks.values().find(|other| {
            other.is_queued()
                && (other.node, other.origin) == (known.node, known.origin)
                && other.is_suspect() == known.is_suspect()
                && if known.is_suspect() { other.seq < known.seq } else { other.rank() < known.rank() }
        });
        demand(Law::Order, older.is_none(), || format!("{older:?} comes before {known:?}"))?;
        let open = self.open_places(run, &places, &load);
        if !known.is_suspect() {
            self.runs[run].turns.served(&place, &places, &open)?;
        }
        self.check_origin(run, known.origin, true)?;
        let is_full = self.is_budget_full(place.budget, &load);
        demand(Law::Concurrency, !is_full, || "as many of the budget are under way as may be".into())
    }

    fn check_origin(&self, run: usize, origin: usize, is_one_more: bool) -> Verdict {
        let until = self.origins[origin].backs_off_until(self.now());
        demand(Law::BackOff, until.is_none(), || format!("{} asked to be left alone", ORIGINS[origin]))?;
        let is_full = is_one_more && self.is_origin_full(run, origin, &self.load());
        demand(Law::Concurrency, !is_full, || format!("as many are under way to {} as may be", ORIGINS[origin]))
    }

    pub(super) async fn permit(&mut self, run: usize, pick: usize, elsewhere: Option<usize>) -> Verdict {
        let Some((_, ids)) = self.runs[run].pick(pick) else { return Ok(()) };
        let origin = elsewhere.unwrap_or(self.runs[run].tasks[&ids[0]].origin);
        self.permit_for(run, ids[0], origin).await
    }

    pub(super) async fn permit_again(&mut self, run: usize) -> Verdict {
        let Some((id, origin)) = self.runs[run].waiting_permit.take() else { return Ok(()) };
        self.permit_for(run, id, origin).await
    }

    async fn permit_for(&mut self, run: usize, id: TaskId, origin: usize) -> Verdict {
        let Some(known) = self.runs[run].tasks.get(&id).cloned() else { return Ok(()) };
        let Some(lease) = known.lease().cloned() else { return Ok(()) };
        let Some(Held { holder, stalled: false, .. }) = self.runs[run].holders.get(&lease.token).cloned() else {
            return Ok(());
        };
        let permit = self.ask_permit(&holder, &lease.held, origin).await?;
        demand(Law::Frozen, self.runs[run].frozen == (permit == Permit::Frozen), || format!("{permit:?}"))?;
        let now = self.now();
        let is_own = origin == known.origin;
        let name = (run, lease.held.lease);
        let calls = if is_own { lease.calls } else { 1 };
        let is_one_more = !is_own && lease.elsewhere != Some(origin);
        match permit {
            Permit::Granted => {
                self.tally.count(if is_own { "permit" } else { "permit elsewhere" });
                self.check_origin(run, origin, is_one_more)?;
                let budget = &mut self.budgets[lease.budget];
                let (ahead, _) = budget.ahead(now, Some(name));
                let was_promised = budget.reserved.iter().any(|known| (known.run, known.lease) == name);
                self.tally.add("permit that was promised", was_promised.into());
                budget.check(now, calls, ahead)?;
                budget.spend(now, calls);
                budget.reserved.retain(|known| (known.run, known.lease) != name);
                self.origins[origin].last_sent = Some(now);
                let elsewhere = (!is_own).then_some(origin);
                self.runs[run].known(id).state = State::Leased(Lease { sent_at: now, elsewhere, ..lease });
                Ok(())
            }
            Permit::Wait { until, gate } => {
                self.tally.count("permit that waits");
                self.runs[run].waiting_permit = Some((id, origin));
                demand(Law::Moment, until > self.timestamp(), || "told to come back at once".into())?;
                let is_closed = match gate {
                    Gate::OriginBackOff { .. } => self.origins[origin].backs_off_until(now).is_some(),
                    Gate::OriginConcurrency { .. } => is_one_more && self.is_origin_full(run, origin, &self.load()),
                    Gate::Budget { .. } | Gate::Hours { .. } => {
                        let budget = &mut self.budgets[lease.budget];
                        let (ahead, _) = budget.ahead(now, Some(name));
                        let is_closed = budget.surely_open_at(now, calls) > now || ahead > 0;
                        budget.reserve(run, lease.held.lease, calls, until.as_microsecond());
                        self.woken_at = Some(until.as_microsecond().div_euclid(1_000) + 1);
                        is_closed
                    }
                    _ => false,
                };
                demand(Law::NothingWaits, is_closed, || format!("{gate:?} is open, and a permit waits for it"))
            }
            Permit::Frozen => Ok(()),
        }
    }

    async fn ask_permit(&self, holder: &Holder, lease: &LeaseRef, origin: usize) -> Result<Permit, Violation> {
        let permit = self.queue.permit(holder, lease, &origin_key(ORIGINS[origin])).await;
        permit.map_err(|error| Violation { law: Law::Answer, what: error.to_string() })
    }
}
