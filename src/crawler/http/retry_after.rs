//! `Retry-After` (RFC 9110 §10.2.3), read with suspicion.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;

/// The delay that a `Retry-After` asks for, at most `cap`. Zero, the past, and anything that is neither a number of
/// seconds nor an HTTP date are no header: the back-off then decides alone.
pub(super) fn parse(value: &str, now: Timestamp, cap: Duration) -> Option<Duration> {
    let value = value.trim();
    let delay = if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        // A number too big to read is a long time.
        value.parse().map_or(Duration::MAX, Duration::from_secs)
    } else {
        let date = httpdate::parse_http_date(value).ok()?;
        let now = Duration::from_millis(u64::try_from(now.as_millisecond()).ok()?);
        date.duration_since(SystemTime::UNIX_EPOCH).ok()?.checked_sub(now)?
    };
    (!delay.is_zero()).then_some(delay.min(cap))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_retry_after_is_read_or_ignored() {
        let now: Timestamp = "2026-11-30T02:00:00Z".parse().unwrap();
        let cap = Duration::from_hours(1);
        for (value, expected_s) in [
            ("120", Some(120)),
            (" 7 ", Some(7)),
            ("0", None),
            ("-5", None),
            ("1.5", None),
            ("", None),
            ("soon", None),
            ("99999999999999999999999999", Some(3600)),
            ("86400", Some(3600)),
            ("Mon, 30 Nov 2026 02:01:30 GMT", Some(90)),
            ("Monday, 30-Nov-26 02:01:30 GMT", Some(90)),
            ("Mon Nov 30 02:01:30 2026", Some(90)),
            ("Mon, 30 Nov 2026 01:59:59 GMT", None),
            ("Mon, 30 Nov 2026 02:00:00 GMT", None),
            ("Fri, 31 Dec 9999 23:59:59 GMT", Some(3600)),
            ("Mon, 30 Nov 2026 02:01:30 CET", None),
        ] {
            assert_eq!(parse(value, now, cap), expected_s.map(Duration::from_secs), "{value:?}");
        }
    }
}
