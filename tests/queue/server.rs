//! A real Redis for the contract: one server for all tests of a process, ended with it.

use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use trawler::queue::redis::RedisSettings;

/// A server that ends when this process does, however it ends: its keeper reads from a pipe until then.
#[derive(Debug)]
pub(crate) struct Server {
    url: String,
    _keeper: Child,
    _pipe: ChildStdin,
    _dir: tempfile::TempDir,
}

const KEEPER: &str = "redis-server \"$@\" > redis.log 2>&1 & pid=$!; cat > /dev/null; kill -9 $pid";

impl Server {
    fn start(append_only: bool) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut keeper = Command::new("sh")
            .args(["-c", KEEPER, "redis", "--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""])
            .args(["--appendonly", if append_only { "yes" } else { "no" }])
            .current_dir(dir.path())
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let pipe = keeper.stdin.take().unwrap();
        let address = format!("127.0.0.1:{port}");
        for _ in 0..500 {
            if std::net::TcpStream::connect(&address).is_ok() {
                return Self { url: format!("redis://{address}"), _keeper: keeper, _pipe: pipe, _dir: dir };
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let log = std::fs::read_to_string(dir.path().join("redis.log")).unwrap_or_default();
        panic!("redis-server did not start; install it (on Debian: apt-get install redis-server). It said: {log}");
    }
}

/// An instance of its own on the shared server, with an append-only file or without.
pub(crate) fn new_instance(append_only: bool) -> RedisSettings {
    static WITHOUT: OnceLock<Arc<Server>> = OnceLock::new();
    static WITH: OnceLock<Arc<Server>> = OnceLock::new();
    static INSTANCES: AtomicU32 = AtomicU32::new(0);
    let server = if append_only { &WITH } else { &WITHOUT }.get_or_init(|| Arc::new(Server::start(append_only)));
    RedisSettings {
        url: server.url.clone(),
        password_file: None,
        ca_file: None,
        instance: format!("i{}", INSTANCES.fetch_add(1, Ordering::Relaxed)),
    }
}
