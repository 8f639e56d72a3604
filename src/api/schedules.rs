//! Cron expressions and time zones, read in one way wherever they stand.

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::tz::TimeZone;

/// Why a schedule can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// Not a cron expression as CronJob takes it.
    #[error("{cron:?} is not a cron expression: {why}")]
    NotACron {
        /// The text.
        cron: String,
        /// What is wrong with it.
        why: String,
    },
    /// Not the name of a time zone.
    #[error("{0:?} is not a time zone")]
    NotATimeZone(String),
}

/// Reads a cron expression as Kubernetes' CronJob takes it: five fields, or a macro such as `@daily`.
pub fn parse_cron(cron: &str) -> Result<Cron, ScheduleError> {
    let fields = cron.split_whitespace().count();
    if fields != 5 && !cron.starts_with('@') {
        return Err(ScheduleError::NotACron { cron: cron.to_owned(), why: format!("it has {fields} fields, not 5") });
    }
    let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build();
    parser.parse(cron).map_err(|error| {
        let why = error.to_string();
        let why =
            why.trim_end_matches('.').trim_start_matches("Invalid pattern: ").trim_start_matches("Component error: ");
        ScheduleError::NotACron { cron: cron.to_owned(), why: why.to_owned() }
    })
}

/// Reads the name of a time zone of the IANA database.
pub fn parse_time_zone(name: &str) -> Result<TimeZone, ScheduleError> {
    TimeZone::get(name).map_err(|_| ScheduleError::NotATimeZone(name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_fields_and_macros_are_cron_expressions_and_seconds_are_not() {
        let valid =
            ["0 2 * * *", "*/5 1-3 1,15 JAN MON", "@daily", "  17 * * * * "].map(|cron| parse_cron(cron).is_ok());
        assert_eq!(valid, [true; 4]);
        let invalid =
            ["", "* * * *", "0 0 2 * * *", "61 * * * *", "@never", "a b c d e"].map(|cron| parse_cron(cron).is_ok());
        assert_eq!(invalid, [false; 6]);
    }

    #[test]
    fn time_zones_are_known_without_the_systems_database() {
        let known = ["UTC", "Europe/Berlin", "Mars/Base", ""].map(|name| parse_time_zone(name).is_ok());
        assert_eq!(known, [true, true, false, false]);
    }
}
