//! What crawler processes say on their standard error, passed on line by line.

use std::io::Write;

use futures_util::StreamExt as _;
use serde_json::{Map, Value};
use tokio::process::ChildStderr;
use tokio_util::codec::{FramedRead, LinesCodec, LinesCodecError};

use super::super::display::LogWriter;

/// A longer line is left out.
const MAX_LINE_BYTES: usize = 64 * 1024;

/// What a command says when it fails begins so.
const SENTENCE: &str = "trawler: ";

/// Passes lines on until the child closes the stream. Returns the last sentence that it said of itself.
pub(super) async fn forward(errors: Option<ChildStderr>, token: u32, mut screen: LogWriter) -> Option<String> {
    let mut lines = FramedRead::new(errors?, LinesCodec::new_with_max_length(MAX_LINE_BYTES));
    let mut last_words = None;
    while let Some(line) = lines.next().await {
        let line = match line {
            Ok(line) => line,
            Err(LinesCodecError::MaxLineLengthExceeded) => continue,
            Err(LinesCodecError::Io(_)) => break,
        };
        if let Some(sentence) = line.strip_prefix(SENTENCE) {
            last_words = Some(sentence.to_owned());
        }
        screen.write_all(format!("{}\n", told_by(token, &line)).as_bytes()).unwrap_or_default();
    }
    last_words
}

/// The line, with who said it: as a field, if it is structured.
fn told_by(token: u32, line: &str) -> String {
    match serde_json::from_str::<Map<String, Value>>(line) {
        Ok(mut event) => {
            event.insert("crawler".to_owned(), token.into());
            Value::from(event).to_string()
        }
        Err(_) => format!("crawler {token}: {line}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_who_said_it() {
        assert_eq!(told_by(3, "WARN it is slow"), "crawler 3: WARN it is slow");
        assert_eq!(
            told_by(3, r#"{"level":"WARN","message":"it is slow"}"#),
            r#"{"crawler":3,"level":"WARN","message":"it is slow"}"#
        );
    }
}
