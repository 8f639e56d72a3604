//! The rights of the two users, tried on a real server.

use super::*;

fn dry_run(server: &RedisServer, user: &str, command: &[&str]) -> String {
    let answer = server.command(&[&["ACL", "DRYRUN", user], command].concat()).unwrap();
    answer.lines().last().unwrap().to_owned()
}

#[test]
fn users_may_do_what_they_need_and_no_more() {
    let server = server_with_users(&[]);
    let (owner, crawler) = ("trawler-it-owner", "trawler-it-crawler");
    let key = "trawler:{it}:x";
    for (command, owner_may, crawler_may) in [
        (&["fcall", "claim", "1", key][..], true, true),
        (&["zadd", key, "1", "member"], true, true),
        (&["publish", key, "x"], true, true),
        (&["subscribe", key], true, true),
        (&["ping"], true, true),
        (&["select", "1"], true, true),
        (&["function", "load", "x"], true, false),
        (&["function", "list"], true, false),
        (&["config", "get", "save"], true, false),
        (&["info"], true, false),
        // Other instances, and all that can do harm.
        (&["fcall", "claim", "1", "trawler:{other}:x"], false, false),
        (&["get", "trawler:{it"], false, false),
        (&["publish", "trawler:{other}:x", "x"], false, false),
        (&["subscribe", "news"], false, false),
        (&["psubscribe", "*"], false, false),
        (&["function", "flush"], false, false),
        (&["function", "delete", "x"], false, false),
        (&["config", "set", "save", ""], false, false),
        (&["eval", "return 1", "0"], false, false),
        (&["flushall"], false, false),
        (&["keys", "*"], false, false),
        (&["acl", "setuser", "x"], false, false),
        (&["debug", "sleep", "1"], false, false),
        (&["shutdown"], false, false),
        (&["replicaof", "no", "one"], false, false),
    ] {
        for (user, may) in [(owner, owner_may), (crawler, crawler_may)] {
            let answer = dry_run(&server, user, command);
            assert_eq!(answer == "+OK", may, "{user} {command:?}: {answer}");
        }
    }
}

#[test]
fn a_line_is_a_command_too() {
    let server = RedisServer::start(Options::default());
    for line in trawler::queue::redis::acl::lines("other.one-2") {
        let words: Vec<&str> = line.split(' ').skip(1).collect();
        assert_eq!(server.command(&[&["ACL", "SETUSER"][..], &words].concat()).unwrap(), "+OK\r\n", "{line}");
    }
    let users = server.command(&["ACL", "LIST"]).unwrap();
    assert!(users.contains("user trawler-other.one-2-crawler on"), "{users}");
}
