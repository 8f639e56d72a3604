//! Allowed hours as moments: what a calendar says in a time zone, over a span of time.
//!
//! A moment is allowed if a clock on the wall there shows a time of the span. So where clocks are set forward a span loses
//! the hour that no clock shows, and where they are set back it has the hour that is shown twice, twice.

use std::sync::Arc;

use jiff::civil::{Date, Time};
use jiff::tz::{Offset, TimeZone};
use jiff::{Span, Timestamp, ToSpan};

use crate::api::schedules::parse_time_zone;
use crate::api::{AllowedHours, Weekday};
use crate::flow::OpenInterval;

/// Hours are worked out for at most so many days; a run that goes on for longer must be configured anew.
const MAX_DAYS: i64 = 366;

/// All allowed intervals that touch the span of time, merged where they touch; `None`: always.
///
/// A time zone that is not known allows nothing: nobody can tell what was meant.
pub(super) fn open_intervals(hours: &[AllowedHours], from: Timestamp, until: Timestamp) -> Option<Arc<[OpenInterval]>> {
    if hours.is_empty() {
        return None;
    }
    let last = from.checked_add((MAX_DAYS * 24).hours()).unwrap_or(Timestamp::MAX);
    let span = OpenInterval { from, until: until.min(last) };
    let mut intervals: Vec<OpenInterval> = hours.iter().flat_map(|hours| intervals_of(hours, span)).collect();
    intervals.sort_unstable();
    let mut merged: Vec<OpenInterval> = Vec::new();
    for next in intervals {
        match merged.last_mut().filter(|last| next.from <= last.until) {
            Some(last) => last.until = last.until.max(next.until),
            None => merged.push(next),
        }
    }
    Some(merged.into())
}

fn intervals_of(hours: &AllowedHours, span: OpenInterval) -> Vec<OpenInterval> {
    let (Ok(zone), Some(start), Some(end)) =
        (parse_time_zone(&hours.time_zone), time_of(&hours.start), time_of(&hours.end))
    else {
        return Vec::new();
    };
    offsets(&zone, span).into_iter().flat_map(|(part, offset)| with_offset(hours, start, end, part, offset)).collect()
}

/// The parts of a span of time in each of which the zone's clocks are equally far from UTC.
fn offsets(zone: &TimeZone, span: OpenInterval) -> Vec<(OpenInterval, Offset)> {
    let mut parts = Vec::new();
    let mut from = span.from;
    let changes = zone.following(span.from).map(|transition| transition.timestamp());
    for until in changes.take_while(|change| *change < span.until).chain([span.until]) {
        if from < until {
            parts.push((OpenInterval { from, until }, zone.to_offset(from)));
        }
        from = until;
    }
    parts
}

fn with_offset(
    hours: &AllowedHours,
    start: Time,
    end: Time,
    part: OpenInterval,
    offset: Offset,
) -> impl Iterator<Item = OpenInterval> {
    let day: Span = 1.day();
    let last = offset.to_datetime(part.until).date();
    // One day earlier: a span that began then may still go on.
    let first = offset.to_datetime(part.from).date().saturating_sub(day);
    let days = first.series(day).take_while(move |date| *date <= last);
    days.filter(|date| hours.days.is_empty() || hours.days.contains(&weekday_of(*date))).filter_map(move |date| {
        let last_day = if end > start { date } else { date.checked_add(day).ok()? };
        let from = offset.to_timestamp(date.to_datetime(start)).ok()?.max(part.from);
        let until = offset.to_timestamp(last_day.to_datetime(end)).ok()?.min(part.until);
        (from < until).then_some(OpenInterval { from, until })
    })
}

fn weekday_of(date: Date) -> Weekday {
    match date.weekday() {
        jiff::civil::Weekday::Monday => Weekday::Mon,
        jiff::civil::Weekday::Tuesday => Weekday::Tue,
        jiff::civil::Weekday::Wednesday => Weekday::Wed,
        jiff::civil::Weekday::Thursday => Weekday::Thu,
        jiff::civil::Weekday::Friday => Weekday::Fri,
        jiff::civil::Weekday::Saturday => Weekday::Sat,
        jiff::civil::Weekday::Sunday => Weekday::Sun,
    }
}

/// `HH:MM`.
fn time_of(text: &str) -> Option<Time> {
    let (hour, minute) = text.split_once(':')?;
    Time::new(hour.parse().ok()?, minute.parse().ok()?, 0, 0).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hours(days: &[Weekday], start: &str, end: &str, time_zone: &str) -> AllowedHours {
        AllowedHours { days: days.to_vec(), start: start.into(), end: end.into(), time_zone: time_zone.into() }
    }

    /// As `from/until`, short where the seconds are zero.
    fn opened(hours: &[AllowedHours], from: &str, until: &str) -> Vec<String> {
        let moment = |text: &str| format!("{text}:00Z").parse::<Timestamp>().unwrap();
        let intervals = open_intervals(hours, moment(from), moment(until)).unwrap();
        let shown = |moment: Timestamp| moment.to_string().trim_end_matches(":00Z").to_owned();
        intervals.iter().map(|interval| format!("{}/{}", shown(interval.from), shown(interval.until))).collect()
    }

    #[test]
    fn hours_are_those_of_the_time_zone() {
        let cases = [
            (vec![hours(&[], "22:00", "23:30", "UTC")], vec!["2026-11-30T22:00/2026-11-30T23:30"]),
            (
                vec![hours(&[], "00:00", "06:00", "Europe/Berlin")],
                vec!["2026-11-30T00:00/2026-11-30T05:00", "2026-11-30T23:00/2026-12-01T00:00"],
            ),
            (vec![hours(&[], "21:15", "22:00", "Asia/Kathmandu")], vec!["2026-11-30T15:30/2026-11-30T16:15"]),
            (vec![hours(&[], "09:00", "11:00", "America/St_Johns")], vec!["2026-11-30T12:30/2026-11-30T14:30"]),
            (vec![hours(&[], "00:30", "01:30", "Pacific/Kiritimati")], vec!["2026-11-30T10:30/2026-11-30T11:30"]),
            (vec![hours(&[], "00:00", "00:01", "Nowhere/AtAll")], vec![]),
        ];
        for (hours, expected) in cases {
            assert_eq!(opened(&hours, "2026-11-30T00:00", "2026-12-01T00:00"), expected, "{hours:?}");
        }
    }

    #[test]
    fn a_span_over_midnight_belongs_to_the_day_on_which_it_starts() {
        let night = hours(&[Weekday::Fri], "22:00", "02:00", "UTC");
        // The 27th is a Friday. What began the day before the span of time still goes on in it.
        let nights = opened(std::slice::from_ref(&night), "2026-11-23T00:00", "2026-12-05T00:00");
        assert_eq!(nights, ["2026-11-27T22:00/2026-11-28T02:00", "2026-12-04T22:00/2026-12-05T00:00"]);
        assert_eq!(opened(&[night], "2026-11-28T01:00", "2026-11-28T12:00"), ["2026-11-28T01:00/2026-11-28T02:00"]);
    }

    #[test]
    fn spans_that_touch_or_overlap_are_one() {
        let spans = [
            hours(&[], "12:00", "14:00", "UTC"),
            hours(&[], "08:00", "10:00", "UTC"),
            hours(&[], "10:00", "11:00", "UTC"),
            hours(&[], "13:00", "15:00", "UTC"),
        ];
        let day = opened(&spans, "2026-11-30T00:00", "2026-12-01T00:00");
        assert_eq!(day, ["2026-11-30T08:00/2026-11-30T11:00", "2026-11-30T12:00/2026-11-30T15:00"]);
        let always = [hours(&[], "00:00", "12:00", "UTC"), hours(&[], "12:00", "00:00", "UTC")];
        assert_eq!(opened(&always, "2026-11-30T00:30", "2026-12-20T00:00"), ["2026-11-30T00:30/2026-12-20T00:00"]);
    }

    #[test]
    fn no_clock_shows_the_hour_that_is_left_out_when_clocks_are_set_forward() {
        // Berlin, 29 March 2026: after 01:59 (00:59 UTC) comes 03:00 (01:00 UTC).
        let cases = [
            ("01:30", "02:30", vec!["2026-03-29T00:30/2026-03-29T01:00"]),
            ("02:00", "03:00", vec![]),
            ("02:30", "04:00", vec!["2026-03-29T01:00/2026-03-29T02:00"]),
            ("01:00", "04:00", vec!["2026-03-29T00:00/2026-03-29T02:00"]),
        ];
        for (start, end, expected) in cases {
            let hours = [hours(&[], start, end, "Europe/Berlin")];
            assert_eq!(opened(&hours, "2026-03-28T12:00", "2026-03-29T12:00"), expected, "{start} to {end}");
        }
    }

    #[test]
    fn clocks_show_an_hour_twice_when_they_are_set_back() {
        // Berlin, 25 October 2026: 02:00 to 03:00 is 00:00 to 01:00 UTC, and again 01:00 to 02:00.
        let cases = [
            ("02:15", "02:45", vec!["2026-10-25T00:15/2026-10-25T00:45", "2026-10-25T01:15/2026-10-25T01:45"]),
            ("02:00", "03:00", vec!["2026-10-25T00:00/2026-10-25T02:00"]),
            ("01:30", "02:30", vec!["2026-10-24T23:30/2026-10-25T00:30", "2026-10-25T01:00/2026-10-25T01:30"]),
            ("23:00", "03:30", vec!["2026-10-24T21:00/2026-10-25T02:30"]),
        ];
        for (start, end, expected) in cases {
            let hours = [hours(&[], start, end, "Europe/Berlin")];
            assert_eq!(opened(&hours, "2026-10-24T12:00", "2026-10-25T12:00"), expected, "{start} to {end}");
        }
    }

    #[test]
    fn no_hours_are_all_hours_and_what_is_worked_out_is_bounded() {
        assert_eq!(open_intervals(&[], Timestamp::MIN, Timestamp::MAX), None);
        let many: Vec<_> =
            (0..16).map(|hour| hours(&[], &format!("{hour:02}:00"), &format!("{hour:02}:30"), "UTC")).collect();
        let from = "2026-11-30T00:00:00Z".parse().unwrap();
        assert_eq!(open_intervals(&many, from, Timestamp::MAX).map(|intervals| intervals.len()), Some(16 * 366));
        assert_eq!(open_intervals(&many, Timestamp::MAX, Timestamp::MAX).map(|intervals| intervals.len()), Some(0));
    }
}
