//! The connection against real servers, and against listeners that pretend to be one.

#[path = "../../../../../tests/support/redis.rs"]
#[allow(dead_code, reason = "shared with other test binaries")]
mod server;

mod calls;
mod fake;
mod listening;
mod login;
mod outages;
mod refusals;
mod sentinel;
mod tls;

use std::time::Duration;

use self::server::{Options, RedisServer};
use super::{CallError, Connection, Fault, Heard};
use crate::queue::redis::RedisSettings;
use crate::queue::redis::connection::timing::Timing;

/// Short enough for tests, long enough for a machine that is busy with others.
const QUICK: Timing = Timing {
    connect: Duration::from_secs(1),
    response: Duration::from_secs(2),
    patience: Duration::from_secs(2),
    shortest_pause: Duration::from_millis(5),
    longest_pause: Duration::from_millis(100),
    sentinel: Duration::from_millis(500),
    ping: Duration::from_millis(200),
};

/// A library with a function for each behaviour.
const LIBRARY: &str = "#!lua name=tests
local function first(keys, arguments) return keys[1] .. ' ' .. arguments[1] end
redis.register_function{function_name='echo', callback=first, flags={'allow-oom', 'no-writes'}}
redis.register_function('write', function(keys, arguments)
  redis.call('SET', keys[1] .. 'text', arguments[1]) return arguments[1]
end)
redis.register_function('count', function(keys) return tostring(redis.call('INCR', keys[1] .. 'count')) end)
redis.register_function('read', function(keys) redis.call('GET', keys[1] .. 'config') return 'done' end)
redis.register_function('fail', function(keys) error('no such thing') end)
redis.register_function('number', function(keys) return 7 end)
redis.register_function('spin', function(keys) while true do end end)
";

fn settings(url: String) -> RedisSettings {
    RedisSettings { url, password_file: None, ca_file: None, instance: "it".to_owned() }
}

fn quick(url: String) -> Connection {
    Connection::with_timing(&settings(url), QUICK).unwrap()
}

/// A server with the library, and a connection to it.
async fn served(options: Options) -> (RedisServer, Connection) {
    let server = RedisServer::start(options);
    let connection = quick(server.url());
    connection.load_library("tests", LIBRARY).await.unwrap();
    (server, connection)
}

/// Returns once the connection knows that it is lost: until then the fate of a call is unknown.
async fn loss_seen(connection: &Connection) {
    let link = connection.shared.slot.lock().await.link.clone();
    link.expect("there was a link").closed().await;
}

async fn echo(connection: &Connection) -> Result<String, CallError> {
    let answer = connection.call("echo", &[b"hello"]).await?;
    Ok(String::from_utf8(answer).unwrap())
}

fn assert_fault<T: std::fmt::Debug>(result: &Result<T, CallError>, kind: Fault, words: &[&str]) {
    let error = result.as_ref().expect_err("it fails");
    let sentence = error.to_string();
    assert_eq!(error.kind, kind, "{sentence}");
    for words in words {
        assert!(sentence.contains(words), "{words:?} is not in: {sentence}");
    }
}
