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
