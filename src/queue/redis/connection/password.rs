//! The password, which may change while we run.

use std::path::PathBuf;

use tokio::io::AsyncReadExt;

/// A password is no longer than this; tokens of identity providers have some thousand characters.
const MAX_LENGTH: u64 = 64 * 1024;

/// Where the password comes from. Has no `Debug`.
pub(super) enum Password {
    None,
    Known(String),
    /// Read again with each connection, so that it can be changed.
    InFile(PathBuf),
}

impl Password {
    /// The password as it is now, or a sentence why there is none.
    pub(super) async fn current(&self) -> Result<Option<String>, String> {
        match self {
            Self::None => Ok(None),
            Self::Known(password) => Ok(Some(password.clone())),
            Self::InFile(path) => {
                let wrong = |why: &dyn std::fmt::Display| {
                    format!("the password for the queue's Redis can't be read from {}: {why}", path.display())
                };
                let file = tokio::fs::File::open(path).await.map_err(|error| wrong(&error))?;
                let mut text = String::new();
                let length =
                    file.take(MAX_LENGTH + 1).read_to_string(&mut text).await.map_err(|error| wrong(&error))?;
                if length as u64 > MAX_LENGTH {
                    return Err(wrong(&"it is too long"));
                }
                let password = text.trim_end_matches(['\r', '\n']);
                if password.is_empty() {
                    return Err(wrong(&"it is empty"));
                }
                Ok(Some(password.to_owned()))
            }
        }
    }

    pub(super) fn may_change(&self) -> bool {
        matches!(self, Self::InFile(_))
    }
}
