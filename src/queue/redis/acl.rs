//! The rights that Trawler's users need in Redis, and no more.
//!
//! Functions run with the rights of whoever calls them, so that a crawler needs every command that a function uses; the
//! keys and channels of other instances stay closed to it.

/// The commands that the queue's functions use.
pub(super) const COMMANDS: &[&str] = &[
    "get",
    "set",
    "hget",
    "hset",
    "hmget",
    "hdel",
    "hlen",
    "hexists",
    "hgetall",
    "hincrby",
    "zadd",
    "zrem",
    "zcard",
    "zscore",
    "zrange",
    "zrangebyscore",
    "zpopmin",
    "zremrangebyrank",
    "rpush",
    "lpop",
    "lrange",
    "llen",
    "lindex",
    "lset",
    "ltrim",
    "del",
    "unlink",
    "exists",
    "publish",
    "time",
];

/// What every client sends, beside calls. (HELLO and AUTH need no right.)
const OF_CLIENTS: &[&str] = &["ping", "select", "fcall", "subscribe", "unsubscribe"];

/// What only the operator, or whoever starts a run, sends: loads the functions, and looks whether the server is fit.
const OF_OWNERS: &[&str] = &["function|load", "function|list", "info", "config|get", "acl|whoami", "acl|dryrun"];

/// The users of an instance, each as a line for an ACL file: first the owner (the operator, or who starts runs), then the
/// crawler. With `ACL SETUSER` instead of `user` a line is a command. Passwords stand for themselves: put in others.
pub fn lines(instance: &str) -> Vec<String> {
    let user = |role: &str, commands: &[&[&str]]| {
        let rights: Vec<String> = commands.concat().iter().map(|command| format!("+{command}")).collect();
        format!(
            "user trawler-{instance}-{role} reset on >{}-PASSWORD ~trawler:{{{instance}}}:* &trawler:{{{instance}}}:* {}",
            role.to_uppercase(),
            rights.join(" ")
        )
    };
    vec![user("owner", &[OF_OWNERS, OF_CLIENTS, COMMANDS]), user("crawler", &[OF_CLIENTS, COMMANDS])]
}
