//! Which users of the server the queue and the store need, and what they may do: `trawler queue acl` prints it.
//!
//! A function runs with the rights of whoever calls it, so that crawlers need the commands that the functions are made of, on
//! the keys of their instance only. They need none that loads code, reads settings, or sees all keys.

/// The commands that the functions of both call, sorted, and how many arguments each needs.
pub(crate) const COMMANDS: [(&str, usize); 37] = [
    ("DEL", 1),
    ("EXISTS", 1),
    ("HDEL", 2),
    ("HEXISTS", 2),
    ("HGET", 2),
    ("HGETALL", 1),
    ("HINCRBY", 3),
    ("HKEYS", 1),
    ("HLEN", 1),
    ("HMGET", 2),
    ("HSCAN", 2),
    ("HSET", 3),
    ("HSETNX", 3),
    ("HVALS", 1),
    ("LPOP", 1),
    ("LRANGE", 3),
    ("LREM", 3),
    ("PEXPIRE", 2),
    ("PUBLISH", 2),
    ("RENAME", 2),
    ("RPUSH", 2),
    ("SADD", 2),
    ("SMEMBERS", 1),
    ("SRANDMEMBER", 1),
    ("SREM", 2),
    ("TIME", 0),
    ("UNLINK", 1),
    ("ZADD", 3),
    ("ZCARD", 1),
    ("ZLEXCOUNT", 3),
    ("ZPOPMIN", 1),
    ("ZRANGE", 3),
    ("ZRANGEBYLEX", 3),
    ("ZRANGEBYSCORE", 3),
    ("ZREM", 2),
    ("ZREMRANGEBYRANK", 3),
    ("ZSCORE", 2),
];

/// What a connection needs beside them; by `ROLE` it is known whether the sentinels named the master.
const CONNECTION: [&str; 9] =
    ["fcall", "subscribe", "unsubscribe", "ping", "hello", "auth", "select", "role", "client|setname"];

/// What loads the functions, and what `trawler queue doctor` looks at.
pub(crate) const OWNER: [&str; 6] =
    ["function|load", "function|list", "info", "config|get", "acl|whoami", "acl|dryrun"];

/// The two users of an instance, as lines of an ACL file: whoever opens runs and pushes, and the crawlers. Each has `PASSWORD`
/// where its password goes; without the leading `user` a line is what follows `ACL SETUSER`.
pub fn lines(instance: &str) -> Vec<String> {
    let owner = CONNECTION.iter().chain(&OWNER).copied();
    let crawler = CONNECTION.iter().copied();
    vec![line(instance, "owner", owner), line(instance, "crawler", crawler)]
}

fn line(instance: &str, role: &str, more: impl Iterator<Item = &'static str>) -> String {
    let commands: Vec<String> =
        more.map(str::to_owned).chain(COMMANDS.iter().map(|(name, _)| name.to_lowercase())).collect();
    format!(
        "user trawler-{instance}-{role} reset on >PASSWORD -@all ~trawler:{{{instance}}}:* &trawler:{{{instance}}}:* +{}",
        commands.join(" +")
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{COMMANDS, lines};
    use crate::queue::redis::library::Library as QueueLibrary;
    use crate::store::redis::library::Library as StoreLibrary;

    fn libraries() -> [&'static str; 2] {
        [&QueueLibrary::own().code, &StoreLibrary::own().code]
    }

    /// The words in single quotes that stand where a command does: in a call, or first in a table that is called.
    fn commands_in(lua: &str) -> BTreeSet<String> {
        let places = ["call('", "{ '"];
        let starts = places.iter().flat_map(|place| lua.match_indices(place).map(|(at, place)| at + place.len()));
        let words = starts.filter_map(|start| lua[start..].split_once('\'').map(|(word, _)| word));
        words
            .filter(|word| !word.is_empty() && word.chars().all(|c| c.is_ascii_uppercase()))
            .map(str::to_owned)
            .collect()
    }

    #[test]
    fn the_users_may_do_exactly_what_the_functions_do() {
        let named: BTreeSet<String> = COMMANDS.iter().map(|&(name, _)| name.to_owned()).collect();
        assert_eq!(libraries().into_iter().flat_map(commands_in).collect::<BTreeSet<_>>(), named);
    }

    #[test]
    fn no_function_calls_what_is_not_written_out() {
        let code = libraries().concat();
        let calls = code.match_indices("call(").map(|(at, _)| &code[at..]);
        let hidden: Vec<&str> = calls
            .filter(|call| !call.starts_with("call('") && !call.starts_with("call(unpack("))
            .map(|call| call.lines().next().unwrap_or_default())
            .collect();
        assert_eq!(hidden, Vec::<&str>::new());
    }

    #[test]
    fn a_crawler_has_its_instances_keys_and_channels_and_loads_no_code() {
        let lines = lines("prod");
        let [owner, crawler] = lines.as_slice() else { panic!("two users, not {lines:?}") };
        let head = |role| {
            format!(
                "user trawler-prod-{role} reset on >PASSWORD -@all ~trawler:{{prod}}:* &trawler:{{prod}}:* +fcall +subscribe "
            )
        };
        assert!(owner.starts_with(&head("owner")) && crawler.starts_with(&head("crawler")), "{lines:?}");
        assert!(owner.contains(" +function|load ") && owner.contains(" +config|get "), "{owner}");
        for right in ["function", "config", "acl", "info", "keys", "scan ", "@admin", "flush", "eval"] {
            assert!(!crawler.contains(&format!("+{right}")), "{crawler}");
        }
    }
}
