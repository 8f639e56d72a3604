//! Moments as the API has them, and as the rest of the program has: two versions of one library.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, Time};

/// A moment that the API gave.
pub fn moment_of(time: &Time) -> Timestamp {
    // Both versions know the same span of time.
    Timestamp::from_microsecond(time.0.as_microsecond()).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// A moment for the API, which keeps whole seconds.
pub fn time_of(moment: Timestamp) -> Time {
    Time(
        k8s_openapi::jiff::Timestamp::from_second(moment.as_second())
            .unwrap_or(k8s_openapi::jiff::Timestamp::UNIX_EPOCH),
    )
}

/// A moment for the API where it keeps microseconds: in Leases.
pub fn micro_time_of(moment: Timestamp) -> MicroTime {
    let moment = k8s_openapi::jiff::Timestamp::from_microsecond(moment.as_microsecond());
    MicroTime(moment.unwrap_or(k8s_openapi::jiff::Timestamp::UNIX_EPOCH))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_goes_to_the_api_and_back_to_the_second() {
        let moment: Timestamp = "2026-11-30T01:02:03.456789Z".parse().unwrap();
        assert_eq!(moment_of(&time_of(moment)), "2026-11-30T01:02:03Z".parse().unwrap());
        assert_eq!(micro_time_of(moment).0.to_string(), "2026-11-30T01:02:03.456789Z");
    }
}
