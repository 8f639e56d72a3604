//! Conditions of a status: what holds, since when. Pure.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::api::times::time_of;

/// The longest message.
pub(crate) const MAX_MESSAGE: usize = 256;

/// Whether something holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holds {
    True,
    False,
    Unknown,
}

impl Holds {
    fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

/// A condition that is to be said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) type_: &'static str,
    pub(crate) holds: Holds,
    pub(crate) reason: String,
    pub(crate) message: String,
}

impl Said {
    pub(crate) fn new(
        type_: &'static str,
        holds: Holds,
        reason: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self { type_, holds, reason: reason.into(), message: message.into() }
    }
}

/// The conditions that take the place of those before: what is not said any more goes; a moment of change stays while what is
/// said holds as before.
pub(crate) fn conditions(
    before: &[Condition],
    said: &[Said],
    generation: Option<i64>,
    now: Timestamp,
) -> Vec<Condition> {
    let said = said.iter().map(|said| {
        let known = before.iter().find(|known| known.type_ == said.type_);
        let since =
            known.filter(|known| known.status == said.holds.as_str()).map(|known| known.last_transition_time.clone());
        Condition {
            type_: said.type_.to_owned(),
            status: said.holds.as_str().to_owned(),
            reason: said.reason.clone(),
            message: shortened(&said.message),
            observed_generation: generation,
            last_transition_time: since.unwrap_or(time_of(now)),
        }
    });
    said.collect()
}

/// Not longer than the schema lets it be.
pub(crate) fn shortened(message: &str) -> String {
    if message.len() <= MAX_MESSAGE {
        return message.to_owned();
    }
    let mut end = MAX_MESSAGE - '…'.len_utf8();
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", &message[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn the_moment_of_change_moves_only_with_the_status() {
        let first = conditions(&[], &[Said::new("Ready", Holds::Unknown, "Pending", "")], Some(1), at(10));
        let second = conditions(&first, &[Said::new("Ready", Holds::Unknown, "Other", "still")], Some(2), at(20));
        assert_eq!(second[0].last_transition_time, time_of(at(10)));
        assert_eq!((second[0].reason.as_str(), second[0].observed_generation), ("Other", Some(2)));
        let third = conditions(&second, &[Said::new("Ready", Holds::True, "Ready", "")], Some(2), at(30));
        assert_eq!(third[0].last_transition_time, time_of(at(30)));
        assert_eq!(conditions(&third, &[], Some(2), at(40)), []);
    }

    #[test]
    fn a_message_is_cut_between_characters() {
        let long = "ä".repeat(200);
        let cut = shortened(&long);
        assert!(cut.len() <= MAX_MESSAGE && cut.ends_with("ä…"), "{cut}");
        assert_eq!(shortened("short"), "short");
    }
}
