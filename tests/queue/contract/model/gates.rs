//! Gates as plain logs of what was spent: every window is added up anew. Where the contract leaves a queue room (the
//! grain of a window, the lateness that pacing forgives), [`Budget::check`] is the most that it may allow, and
//! [`Budget::surely_open_at`] the least.

use trawler::queue::{BudgetConfig, BudgetLimit, Unit};

use super::laws::{Law, Verdict, demand};
use super::world::{INITIAL_BACK_OFF_MS, MAX_BACK_OFF_MS};

/// A caller this late still has his slot.
const LATENESS_US: i64 = 20_000;
/// So long after its moment somebody who waits may go before others, and those who were told so before the next.
const RIGHT_OF_WAY_MS: i64 = 300;
/// So long after its moment what was kept for a permit lapses.
const PATIENCE_US: i64 = 1_000_000;
const FULL: u32 = 1_000;

#[derive(Debug)]
pub(super) struct Budget {
    limits: Vec<Limit>,
    pub(super) max_concurrent: Option<u32>,
    floor_percent: Option<u32>,
    permille: u32,
    last_event: Option<i64>,
    contended_at: i64,
    open_hours: Option<Vec<(i64, i64)>>,
    /// Calls that permits were told to come back for, in the order in which they asked first.
    pub(super) reserved: Vec<Reserved>,
}

/// Calls kept for a permit.
#[derive(Debug)]
pub(super) struct Reserved {
    pub(super) run: usize,
    pub(super) lease: u64,
    pub(super) calls: u64,
    pub(super) lapses_us: i64,
}

#[derive(Debug)]
struct Limit {
    config: BudgetLimit,
    /// The moment at which each unit was spent, or will be paid: in any window as many as the amount.
    slots: Vec<i64>,
    /// So many of the slots came before what a window of the earlier length remembers.
    forgotten: usize,
    /// Calls that were spread: when, how dear, and how late they may have come, in microseconds.
    paced: Vec<(i64, u64, i64)>,
    /// How many of those came before the last configuration.
    outdated: usize,
}

impl Limit {
    fn new(config: BudgetLimit) -> Self {
        Self { config, slots: Vec::new(), forgotten: 0, paced: Vec::new(), outdated: 0 }
    }

    fn period_ms(&self) -> i64 {
        i64::try_from(self.config.period.as_millis()).unwrap()
    }

    fn amount(&self) -> usize {
        usize::try_from(self.config.amount).unwrap()
    }

    /// When so many more fit, as far as slots from that one on are remembered.
    fn fits_at(&self, units: u64, from: usize) -> i64 {
        let units = usize::try_from(units).unwrap().min(self.amount());
        let must_have_left = (self.slots.len() + units).checked_sub(self.amount() + 1);
        must_have_left.filter(|slot| *slot >= from).map_or(i64::MIN, |slot| self.slots[slot] + self.period_ms())
    }

    fn take(&mut self, now: i64, units: u64) {
        for _ in 0..units {
            let slot = self.fits_at(1, self.forgotten).max(now);
            self.slots.push(slot);
        }
        assert!(self.slots.len() < 100_000, "histories are short");
    }

    fn configure(&mut self, now: i64, config: BudgetLimit) {
        let before = std::mem::replace(&mut self.config, config);
        if before == config {
            return;
        }
        let remembered = now - i64::try_from(before.period.as_millis()).unwrap();
        self.forgotten = self.forgotten.max(self.slots.partition_point(|slot| *slot <= remembered));
        self.outdated = self.paced.len();
        let owed = self.slots.len() - self.slots.partition_point(|slot| *slot <= now);
        self.slots.truncate(self.slots.len() - owed);
        self.take(now, owed as u64);
    }

    fn gap_us(&self, calls: u64, permille: u32) -> i64 {
        let period_us = u64::try_from(self.config.period.as_micros()).unwrap();
        i64::try_from((period_us * calls * 1_000).div_ceil(self.config.amount * u64::from(permille))).unwrap()
    }

    fn is_paced(&self, permille: u32) -> bool {
        self.config.unit == Unit::ApiCalls && (self.config.even || permille < FULL)
    }

    /// Slots lie a gap apart, and a call comes at its slot or a little later: so do any two calls, less that lateness.
    fn check_pace(&self, now: i64, permille: u32) -> Verdict {
        let mut apart_us = 0;
        for (back, (at, calls, late_us)) in self.paced[self.outdated..].iter().rev().take(40).enumerate() {
            apart_us += self.gap_us(*calls, if back == 0 { permille } else { FULL });
            let is_apart = (now - at) * 1_000 >= apart_us - late_us;
            demand(Law::Pacing, is_apart, || format!("{} calls in {} ms", back + 2, now - at))?;
        }
        Ok(())
    }
}

impl Budget {
    pub(super) fn new(config: &BudgetConfig) -> Self {
        Self {
            limits: config.limits.iter().copied().map(Limit::new).collect(),
            max_concurrent: config.max_concurrent,
            floor_percent: config.adaptive_floor_percent,
            permille: FULL,
            last_event: None,
            contended_at: i64::MIN / 2,
            open_hours: hours_of(config),
            reserved: Vec::new(),
        }
    }

    /// Somebody waits for it at this moment, and may go before others when it opens.
    pub(super) fn contend(&mut self, at: i64) {
        self.contended_at = self.contended_at.max(at);
    }

    /// When nobody goes first any more.
    pub(super) fn free_for_all_at(&self) -> i64 {
        self.contended_at.saturating_add(RIGHT_OF_WAY_MS)
    }

    pub(super) fn configure(&mut self, now: i64, config: &BudgetConfig) {
        self.max_concurrent = config.max_concurrent;
        self.open_hours = hours_of(config);
        for (limit, config) in self.limits.iter_mut().zip(&config.limits) {
            limit.configure(now, *config);
        }
    }

    /// What is kept for those that asked before: all, or those before this lease. How many calls, and until when.
    pub(super) fn ahead(&self, now: i64, of: Option<(usize, u64)>) -> (u64, i64) {
        let before = self.reserved.iter().take_while(|known| Some((known.run, known.lease)) != of);
        let lasting = before.filter(|known| known.lapses_us > now * 1_000);
        lasting
            .fold((0, i64::MIN), |(calls, until), known| (calls + known.calls, until.max(known.lapses_us / 1_000 + 1)))
    }

    /// A permit was told to come back then.
    pub(super) fn reserve(&mut self, run: usize, lease: u64, calls: u64, until_us: i64) {
        let lapses_us = until_us + PATIENCE_US;
        match self.reserved.iter_mut().find(|known| (known.run, known.lease) == (run, lease)) {
            Some(known) => (known.calls, known.lapses_us) = (calls, lapses_us),
            None => self.reserved.push(Reserved { run, lease, calls, lapses_us }),
        }
    }

    /// The first moment from then on that is in the hours.
    fn in_hours_at(&self, at: i64) -> i64 {
        let Some(hours) = &self.open_hours else { return at };
        hours.iter().find(|(_, until)| at < *until).map_or(i64::MAX, |(from, _)| at.max(*from))
    }

    /// Whether so many calls may be permitted now, and leave so many to others.
    pub(super) fn check(&self, now: i64, calls: u64, ahead: u64) -> Verdict {
        demand(Law::Hours, self.in_hours_at(now) == now, || format!("open only at {}", self.in_hours_at(now)))?;
        for limit in &self.limits {
            let BudgetLimit { unit, amount, .. } = limit.config;
            if unit != Unit::ApiCalls {
                let paid_at = limit.fits_at(1, limit.forgotten);
                demand(Law::PostPaid, paid_at <= now, || format!("{unit:?} are paid only {} ms later", paid_at - now))?;
                continue;
            }
            let start = now - limit.period_ms();
            let in_window = limit.slots[limit.forgotten..].iter().filter(|at| **at > start).count() as u64;
            let wanted = in_window + calls.min(amount);
            demand(Law::Window, wanted <= amount, || format!("{wanted} calls in a window of {amount}"))?;
            demand(Law::Reserved, wanted + ahead <= amount || ahead == 0, || {
                format!("{ahead} calls were promised, and of {amount} already {wanted} are taken")
            })?;
            if limit.is_paced(self.permille) {
                limit.check_pace(now, self.permille)?;
            }
        }
        Ok(())
    }

    pub(super) fn spend(&mut self, now: i64, calls: u64) {
        for limit in self.limits.iter_mut().filter(|limit| limit.config.unit == Unit::ApiCalls) {
            limit.take(now, calls);
            if limit.is_paced(self.permille) {
                let late_us = (limit.gap_us(1, self.permille) / 2).max(LATENESS_US);
                limit.paced.push((now, calls, late_us));
            }
        }
    }

    pub(super) fn charge(&mut self, now: i64, documents: u64, bytes: u64) {
        for limit in &mut self.limits {
            match limit.config.unit {
                Unit::ApiCalls => {}
                Unit::Documents => limit.take(now, documents),
                Unit::Bytes => limit.take(now, bytes),
            }
        }
    }

    /// From when on so many calls are allowed beyond doubt, if nothing else is spent.
    pub(super) fn surely_open_at(&self, now: i64, calls: u64) -> i64 {
        let opens = self.limits.iter().map(|limit| {
            let units = if limit.config.unit == Unit::ApiCalls { calls } else { 1 };
            // Spendings closer together than a 128th of the period leave the window with the last of them.
            let grain_ms = limit.period_ms() / 128 + 1;
            let fits_at = limit.fits_at(units, 0).saturating_add(grain_ms);
            let last = limit.paced.last().filter(|_| limit.is_paced(self.permille));
            let slot = last.map(|(at, calls, _)| at + limit.gap_us(*calls, self.permille) / 1_000 + 1);
            fits_at.max(slot.unwrap_or(i64::MIN))
        });
        self.in_hours_at(opens.max().unwrap_or(now).max(now))
    }

    /// A server pushed back: half the rate, not below the floor.
    pub(super) fn slow_down(&mut self, now: i64) {
        if let Some(floor_percent) = self.floor_percent {
            self.permille = (self.permille / 2).max(floor_percent * 10);
            self.last_event = Some(now);
        }
    }

    /// A later request than the last event's succeeded: a tenth more.
    pub(super) fn speed_up(&mut self, sent_at: i64) {
        if self.last_event.is_none_or(|event| sent_at > event) {
            self.permille = (self.permille + (self.permille / 10).max(1)).min(FULL);
        }
    }
}

fn hours_of(config: &BudgetConfig) -> Option<Vec<(i64, i64)>> {
    let hours = config.open_hours.as_ref()?;
    Some(hours.iter().map(|hours| (hours.from.as_millisecond(), hours.until.as_millisecond())).collect())
}

/// An origin's back-off.
#[derive(Debug, Default)]
pub(super) struct Origin {
    events: u32,
    last_event: Option<i64>,
    pub(super) last_sent: Option<i64>,
    until: Option<i64>,
}

impl Origin {
    pub(super) fn backs_off_until(&self, now: i64) -> Option<i64> {
        self.until.filter(|until| *until > now)
    }

    /// Returns whether it is a new event: not during a back-off, and not the answer to a request from before the last.
    pub(super) fn pushback(&mut self, now: i64, sent_at: Option<i64>, asked_ms: Option<i64>) -> bool {
        let is_later = sent_at.or(self.last_sent) > self.last_event;
        let is_new = self.last_event.is_none() || self.backs_off_until(now).is_none() && is_later;
        if is_new {
            self.events += 1;
            self.last_event = Some(now);
        }
        let doubled = INITIAL_BACK_OFF_MS.saturating_mul(1 << (self.events.saturating_sub(1)).min(20));
        let pause = asked_ms.filter(|asked| *asked > 0).or(is_new.then_some(doubled));
        let until = pause.map(|pause| now + pause.min(MAX_BACK_OFF_MS));
        self.until = self.until.max(until);
        is_new
    }

    pub(super) fn success(&mut self, sent_at: i64) {
        if Some(sent_at) > self.last_event {
            self.events = 0;
        }
    }
}
