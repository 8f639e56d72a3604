//! The limit: what the same server does when claiming is no more than moving ids from a list to a hash, and settling no more than
//! deleting them; with payloads it also reads and deletes those.

use redis::aio::MultiplexedConnection;

use crate::server::Server;

type Failure = Box<dyn std::error::Error>;

const LIBRARY: &str = "#!lua name=limit
redis.register_function('limit_claim', function(keys, arguments)
  local ids = redis.call('LPOP', keys[1] .. 'ready', arguments[1])
  if not ids then return {} end
  local leased = {}
  for position = 1, #ids do
    leased[2 * position - 1], leased[2 * position] = ids[position], arguments[2]
  end
  redis.call('HSET', keys[1] .. 'leased', unpack(leased))
  if arguments[3] == '1' then
    return {ids, redis.call('HMGET', keys[1] .. 'payload', unpack(ids))}
  end
  return {ids}
end)
redis.register_function('limit_settle', function(keys, arguments)
  local with_payload = table.remove(arguments) == '1'
  local ended = redis.call('HDEL', keys[1] .. 'leased', unpack(arguments))
  if with_payload then
    redis.call('HDEL', keys[1] .. 'payload', unpack(arguments))
  end
  return ended
end)";

pub(crate) async fn fill(server: &Server, tasks: usize) -> Result<(), Failure> {
    let mut connection = server.connect().await?;
    redis::cmd("FUNCTION").arg("LOAD").arg("REPLACE").arg(LIBRARY).query_async::<()>(&mut connection).await?;
    let payload = "x".repeat(150);
    for from in (0..tasks).step_by(1000) {
        let ids: Vec<String> = (from..(from + 1000).min(tasks)).map(id).collect();
        let payloads: Vec<(&str, &str)> = ids.iter().map(|id| (id.as_str(), payload.as_str())).collect();
        redis::cmd("RPUSH").arg("limit:ready").arg(&ids).query_async::<()>(&mut connection).await?;
        redis::cmd("HSET").arg("limit:payload").arg(&payloads).query_async::<()>(&mut connection).await?;
    }
    Ok(())
}

fn id(number: usize) -> String {
    format!("{number:016x}")
}

/// Works until nothing is left. Returns how many tasks that were.
pub(crate) async fn work(
    mut connection: MultiplexedConnection,
    batch: usize,
    with_payload: bool,
) -> Result<usize, redis::RedisError> {
    let flag = if with_payload { "1" } else { "0" };
    let mut done = 0;
    loop {
        let mut claimed: Vec<Vec<Vec<u8>>> = redis::cmd("FCALL")
            .arg("limit_claim")
            .arg(1)
            .arg("limit:")
            .arg(batch)
            .arg("nonce--1")
            .arg(flag)
            .query_async(&mut connection)
            .await?;
        if claimed.is_empty() {
            return Ok(done);
        }
        let ids = claimed.swap_remove(0);
        done += ids.len();
        let settle = redis::cmd("FCALL").arg("limit_settle").arg(1).arg("limit:").arg(&ids).arg(flag).clone();
        settle.query_async::<i64>(&mut connection).await?;
    }
}
