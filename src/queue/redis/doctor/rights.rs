//! Whether the user may do all that the queue's functions do on its behalf.

use super::Finding;
use crate::queue::redis::acl::COMMANDS;
use crate::queue::redis::connection::{CallError, Connection, Fault, text_of};

const ABOUT: &str = "rights";

pub(super) async fn check(connection: &Connection, instance: &str) -> Finding {
    // A key, and a channel, of the instance that nothing else uses.
    let name = format!("trawler:{{{instance}}}:doctor");
    match missing(connection, &name).await {
        Ok(missing) if missing.is_empty() => Finding::fine(ABOUT, "the user may use all commands, keys and channels"),
        Ok(missing) => Finding::problem(
            ABOUT,
            format!("the user may not do what the queue's functions do: {}", missing.join("; ")),
            "give the user the rights that Trawler's ACL lines name",
        ),
        Err(error) => Finding::not_seen(ABOUT, "the user's rights", &error),
    }
}

async fn missing(connection: &Connection, name: &str) -> Result<Vec<String>, CallError> {
    let user = match connection.command(&["ACL", "WHOAMI"]).await {
        Ok(user) => text_of(&user).map(str::to_owned),
        Err(_) => None,
    };
    let mut missing = Vec::new();
    for command in COMMANDS.iter().chain(&["fcall", "subscribe"]) {
        let sample = sample(command, name);
        let denied = match dry_run(connection, user.as_deref(), &sample).await? {
            Some(denied) => denied,
            // What can't be asked is tried, as far as trying does nothing.
            None if matches!(*command, "fcall" | "subscribe") => None,
            None => tried(connection, &sample).await?,
        };
        missing.extend(denied.map(|why| format!("{command} ({why})")));
    }
    // What trying may have left.
    if let Err(error) = connection.command(&["UNLINK", name]).await {
        tracing::debug!(%error, "the doctor's key was not removed");
    }
    Ok(missing)
}

/// `None` if the server is not to be asked; else why it would be denied, if it would.
async fn dry_run(
    connection: &Connection,
    user: Option<&str>,
    sample: &[&str],
) -> Result<Option<Option<String>>, CallError> {
    let Some(user) = user else { return Ok(None) };
    let question = [&["ACL", "DRYRUN", user], sample].concat();
    match connection.command(&question).await {
        Ok(redis::Value::Okay) => Ok(Some(None)),
        Ok(answer) => Ok(Some(Some(text_of(&answer).unwrap_or("it does not say why").to_owned()))),
        Err(error) if error.kind.passes() => Err(error),
        Err(_) => Ok(None),
    }
}

/// Why the command was denied, if it was. Any other refusal came after the rights were looked at.
async fn tried(connection: &Connection, sample: &[&str]) -> Result<Option<String>, CallError> {
    match connection.command(sample).await {
        Err(error) if error.kind == Fault::Denied => Ok(Some("denied".to_owned())),
        Err(error) if error.kind.passes() && error.kind != Fault::OutOfMemory => Err(error),
        _ => Ok(None),
    }
}

/// A use of the command that changes nothing that matters: of a key that nothing else uses.
fn sample<'a>(command: &'a str, name: &'a str) -> Vec<&'a str> {
    let arguments: &[&str] = match command {
        "time" => return vec![command],
        "fcall" => return vec![command, "doctor", "1", name],
        "get" | "hlen" | "hgetall" | "zcard" | "llen" | "lpop" | "zpopmin" | "del" | "unlink" | "exists"
        | "subscribe" => &[],
        "set" => &["x", "XX"],
        "hset" | "hincrby" => &["field", "1"],
        "zadd" => &["XX", "1", "member"],
        "zrange" | "zrangebyscore" | "zremrangebyrank" | "lrange" => &["0", "0"],
        "ltrim" => &["0", "-1"],
        "lset" => &["0", "x"],
        "lindex" => &["0"],
        // A field, a member, an element, a message.
        _ => &["x"],
    };
    [&[command, name], arguments].concat()
}
