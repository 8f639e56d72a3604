//! What the user may do, rehearsed with `ACL DRYRUN`: nothing is done.

use super::{Finding, allowed, strings_in};
use crate::queue::QueueError;
use crate::redis::Connection;
use crate::redis::acl;

const ABOUT: &str = "rights";

pub(super) async fn examine(connection: &Connection) -> Result<Vec<Finding>, QueueError> {
    let user = match allowed(connection.command(&["ACL", "WHOAMI"]).await)? {
        Ok(answer) => strings_in(&answer).concat(),
        Err(why) => return Ok(vec![Finding::not_looked_at(ABOUT, &why)]),
    };
    // As a key and as a channel: the instance's patterns allow both.
    let own = format!("{}1:i", connection.prefix());
    let mut needed = vec![vec!["fcall", "f", "1", &own], vec!["subscribe", &own]];
    for (name, arguments) in acl::COMMANDS {
        needed.push([vec![name], vec![own.as_str(); arguments]].concat());
    }
    let missing = match missing(connection, &user, &needed).await? {
        Ok(missing) => missing,
        Err(why) => return Ok(vec![Finding::not_looked_at(ABOUT, &why)]),
    };
    let load = vec![vec!["function", "load", "code"]];
    let may_load = missing_of(connection, &user, &load).await?.is_empty();
    let others = missing_of(connection, &user, &[vec!["hget", "trawler:{}:1:i", "epoch"]]).await?.is_empty();
    Ok(judge(&user, &missing, may_load, others))
}

async fn missing_of(connection: &Connection, user: &str, needed: &[Vec<&str>]) -> Result<Vec<String>, QueueError> {
    Ok(missing(connection, user, needed).await?.unwrap_or_default())
}

/// The commands that the user may not give, or why that can't be told.
async fn missing(
    connection: &Connection,
    user: &str,
    needed: &[Vec<&str>],
) -> Result<Result<Vec<String>, String>, QueueError> {
    let mut missing = Vec::new();
    for command in needed {
        let rehearsal = [vec!["ACL", "DRYRUN", user], command.clone()].concat();
        match allowed(connection.command(&rehearsal).await)? {
            Ok(answer) if strings_in(&answer) == ["OK"] => {}
            Ok(_) => missing.push(command[0].to_uppercase()),
            Err(why) => return Ok(Err(why)),
        }
    }
    Ok(Ok(missing))
}

fn judge(user: &str, missing: &[String], may_load: bool, reaches_others: bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    if missing.is_empty() {
        let load = if may_load { "load and " } else { "" };
        findings.push(Finding::fine(ABOUT, format!("the user {user} may {load}call the queue's functions")));
    } else {
        let says = format!("the user {user} lacks rights that the queue's functions need: {}", missing.join(", "));
        findings.push(Finding::problem(ABOUT, says, "give it the rights that `trawler queue acl` prints"));
    }
    if !may_load {
        let says = format!("the user {user} may not load functions, so that it can't open runs");
        findings.push(Finding::warning(
            ABOUT,
            says,
            "use the owner's user for whatever opens runs; crawlers need no more",
        ));
    }
    if reaches_others {
        let says = format!("the user {user} reaches keys of other instances and whatever else the server holds");
        findings.push(Finding::warning(ABOUT, says, "give each instance the users that `trawler queue acl` prints"));
    }
    findings
}
