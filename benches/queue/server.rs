//! The server that is measured: started for this, ended with it; and what it says of itself.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use redis::aio::MultiplexedConnection;

type Failure = Box<dyn std::error::Error>;

/// A server on a free port of loopback, without persistence unless asked for.
#[derive(Debug)]
pub(crate) struct Server {
    child: Option<Child>,
    _dir: Option<tempfile::TempDir>,
    pub(crate) url: String,
}

impl Server {
    pub(crate) async fn start() -> Result<Self, Failure> {
        if let Some((_, url)) = std::env::vars().find(|(name, _)| name == "TRAWLER_BENCH_REDIS") {
            return Ok(Self { child: None, _dir: None, url });
        }
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let dir = tempfile::tempdir()?;
        let child = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--dir"])
            .arg(dir.path())
            .stdout(Stdio::null())
            .spawn()?;
        let server = Self { child: Some(child), _dir: Some(dir), url: format!("redis://127.0.0.1:{port}") };
        for _ in 0..200 {
            if server.connect().await.is_ok() {
                return Ok(server);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Err("redis-server did not start".into())
    }

    pub(crate) async fn connect(&self) -> Result<MultiplexedConnection, Failure> {
        Ok(redis::Client::open(self.url.as_str())?.get_multiplexed_async_connection().await?)
    }

    /// Microseconds of processor time that it has used.
    pub(crate) async fn cpu_us(&self) -> Result<f64, Failure> {
        let info = self.info("cpu").await?;
        let of = |name: &str| info_number(&info, name);
        Ok((of("used_cpu_user_main_thread:") + of("used_cpu_sys_main_thread:")) * 1e6)
    }

    pub(crate) async fn memory(&self) -> Result<f64, Failure> {
        Ok(info_number(&self.info("memory").await?, "used_memory:"))
    }

    /// The longest call of each function since the server was emptied, in microseconds: those over a millisecond, longest first.
    pub(crate) async fn longest_calls(&self) -> Result<String, Failure> {
        let mut connection = self.connect().await?;
        let entries: Vec<redis::Value> = redis::cmd("SLOWLOG").arg("GET").arg(-1).query_async(&mut connection).await?;
        let mut longest: Vec<(String, i64)> = Vec::new();
        for entry in entries {
            let (_, _, us, arguments, ..): (i64, i64, i64, Vec<redis::Value>, String, String) =
                redis::from_redis_value(entry)?;
            let name = arguments.into_iter().nth(1).map(redis::from_redis_value::<String>).transpose()?;
            // A function's name begins with its library's, which has two more underscores and a number.
            let name = name.unwrap_or_default().splitn(4, '_').nth(3).unwrap_or("other").to_owned();
            match longest.iter_mut().find(|(known, _)| *known == name) {
                Some((_, most)) => *most = us.max(*most),
                None => longest.push((name, us)),
            }
        }
        longest.sort_by_key(|(_, us)| -us);
        let shown: Vec<String> = longest.iter().map(|(name, us)| format!("{name} {us} us")).collect();
        Ok(if shown.is_empty() { "none over 1 ms".to_owned() } else { shown.join(", ") })
    }

    pub(crate) async fn flush(&self) -> Result<(), Failure> {
        let mut connection = self.connect().await?;
        redis::cmd("FLUSHALL").arg("ASYNC").query_async::<()>(&mut connection).await?;
        // What it held is freed beside the next measurement otherwise, and counted as that one's memory.
        while info_number(&self.info("memory").await?, "lazyfree_pending_objects:") > 0.0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        redis::cmd("CONFIG")
            .arg("SET")
            .arg("slowlog-log-slower-than")
            .arg(1000)
            .query_async::<()>(&mut connection)
            .await?;
        redis::cmd("CONFIG").arg("SET").arg("slowlog-max-len").arg(10_000).query_async::<()>(&mut connection).await?;
        Ok(redis::cmd("SLOWLOG").arg("RESET").query_async::<()>(&mut connection).await?)
    }

    async fn info(&self, section: &str) -> Result<String, Failure> {
        Ok(redis::cmd("INFO").arg(section).query_async(&mut self.connect().await?).await?)
    }
}

fn info_number(info: &str, name: &str) -> f64 {
    info.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok()).unwrap_or(0.0)
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            drop(child.kill());
            drop(child.wait());
        }
    }
}
