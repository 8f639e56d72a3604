//! The federation's request log: what the servers saw, one line per request.

use std::time::{Duration, UNIX_EPOCH};

/// A request as the server that it was sent to saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    /// When its last byte arrived, in microseconds since 1970.
    pub(crate) arrived: i64,
    /// When the first byte of the answer was sent, or the client was found to have left.
    pub(crate) answered: i64,
    /// Whose protection it counts against: the server's address.
    pub(crate) origin: String,
    /// Whose catalogue it asked for.
    pub(crate) node: String,
    /// Method and target.
    pub(crate) request: String,
    /// The answer's status; 0: the client left before there was one.
    pub(crate) status: u16,
    /// Datasets in the answer.
    pub(crate) records: u64,
    /// Bytes of the answer's body.
    pub(crate) bytes: u64,
    /// How many requests this answer makes possible that were not before: links to follow.
    pub(crate) opens: u32,
    /// The answer's `Retry-After`, as sent.
    pub(crate) retry_after: Option<String>,
}

impl Seen {
    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The server asked to be left alone.
    pub(crate) fn is_pushback(&self) -> bool {
        matches!(self.status, 429 | 503)
    }

    /// Until when `Retry-After` asks for patience. A header of zero asks for none.
    pub(crate) fn asks_until(&self) -> Option<i64> {
        let value = self.retry_after.as_deref()?;
        if let Ok(seconds) = value.parse::<i64>() {
            return (seconds > 0).then(|| self.answered + seconds * 1_000_000);
        }
        let date = httpdate::parse_http_date(value).ok()?;
        i64::try_from(date.duration_since(UNIX_EPOCH).ok()?.as_micros()).ok()
    }

    /// The line that [`parse`] reads.
    pub(crate) fn line(&self) -> String {
        let Self { arrived, answered, origin, node, request, status, records, bytes, opens, retry_after } = self;
        let retry_after = retry_after.as_deref().unwrap_or("-");
        format!(
            "{arrived}\t{answered}\t{origin}\t{node}\t{request}\t{status}\t{records}\t{bytes}\t{opens}\t{retry_after}\n"
        )
    }
}

/// Reads a log; the requests come in the order of their arrival.
pub(crate) fn parse(text: &str) -> Result<Vec<Seen>, String> {
    let parsed = text.lines().enumerate().map(|(number, line)| {
        parse_line(line).ok_or_else(|| format!("line {} of the request log is none: {line:?}", number + 1))
    });
    let mut seen = parsed.collect::<Result<Vec<_>, _>>()?;
    seen.sort_by_key(|seen| seen.arrived);
    Ok(seen)
}

fn parse_line(line: &str) -> Option<Seen> {
    let fields: Vec<&str> = line.split('\t').collect();
    let [arrived, answered, origin, node, request, status, records, bytes, opens, retry_after] = fields[..] else {
        return None;
    };
    Some(Seen {
        arrived: arrived.parse().ok()?,
        answered: answered.parse().ok()?,
        origin: origin.to_owned(),
        node: node.to_owned(),
        request: request.to_owned(),
        status: status.parse().ok()?,
        records: records.parse().ok()?,
        bytes: bytes.parse().ok()?,
        opens: opens.parse().ok()?,
        retry_after: (retry_after != "-").then(|| retry_after.to_owned()),
    })
}

/// A duration in the log's unit.
pub(crate) fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(retry_after: Option<&str>) -> Seen {
        Seen {
            arrived: 1_800_000_000_000_000,
            answered: 1_800_000_000_400_000,
            origin: "127.0.0.1:8080".into(),
            node: "n-1".into(),
            request: "GET /n-1?page=2".into(),
            status: 429,
            records: 5,
            bytes: 600,
            opens: 1,
            retry_after: retry_after.map(str::to_owned),
        }
    }

    #[test]
    fn what_was_written_is_read_in_order_of_arrival() {
        let first = seen(Some("Fri, 15 Jan 2027 08:00:07 GMT"));
        let second = Seen { arrived: first.arrived + 1, ..seen(None) };
        assert_eq!(parse(&(second.line() + &first.line())), Ok(vec![first, second]));
        assert_eq!(parse("1\t2\n"), Err("line 1 of the request log is none: \"1\\t2\"".into()));
    }

    #[test]
    fn retry_after_is_read_in_both_forms_and_zero_is_none() {
        let until = |value| seen(Some(value)).asks_until();
        assert_eq!(until("3"), Some(1_800_000_003_400_000));
        assert_eq!(until("Fri, 15 Jan 2027 08:00:07 GMT"), Some(1_800_000_007_000_000));
        assert_eq!((until("0"), until("soon"), seen(None).asks_until()), (None, None, None));
    }
}
