//! Real servers for the tests of the queue in Redis. One is shared by all tests of the contract; others are a test's own, to be
//! stopped, restarted and damaged. All end with the process.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use trawler::queue::redis::{RedisSettings, acl};

/// A server that ends when this process does, however it ends: its keeper reads from a pipe until then.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) port: u16,
    arguments: Vec<String>,
    running: Option<(Child, ChildStdin)>,
    dir: tempfile::TempDir,
}

const KEEPER: &str = "exec 2>/dev/null; redis-server \"$@\" >> redis.log 2>&1 & pid=$!; echo $pid > pid; cat > /dev/null; kill -9 $pid; wait $pid";

/// What a server keeps, and when.
pub(crate) const FORGETS: [&str; 4] = ["--save", "", "--appendonly", "no"];
pub(crate) const KEEPS: [&str; 6] = ["--save", "", "--appendonly", "yes", "--appendfsync", "always"];

/// The password of all users.
pub(crate) const PASSWORD: &str = "secret";

impl Server {
    /// A server with these arguments.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), arguments)
    }

    /// A server with these arguments and a file in its directory.
    pub(crate) fn start_with(file: &str, content: &str, arguments: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(file), content).unwrap();
        Self::start_in(dir, arguments)
    }

    fn start_in(dir: tempfile::TempDir, arguments: &[&str]) -> Self {
        let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
        let mut server = Self { port: free_port(), arguments, running: None, dir };
        server.run();
        server
    }

    /// Runs it again in its directory and at its port, after [`Server::kill`].
    pub(crate) fn run(&mut self) {
        let mut keeper = Command::new("sh")
            .args(["-c", KEEPER, "redis"])
            .args(&self.arguments)
            // Behind a test's own arguments: a test may have put a TLS port in its place.
            .args(["--port", &self.port.to_string(), "--bind", "127.0.0.1"])
            .current_dir(self.dir.path())
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let pipe = keeper.stdin.take().unwrap();
        self.running = Some((keeper, pipe));
        for _ in 0..1_000 {
            // One that asks for a password is there too.
            let answer = self.try_ask(&["PING"]);
            if answer.is_ok() || answer.is_err_and(|error| error.code() == Some("NOAUTH")) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let log = std::fs::read_to_string(self.path("redis.log")).unwrap_or_default();
        panic!("redis-server did not start; install it (on Debian: apt-get install redis-server). It said: {log}");
    }

    /// Ends it at once, as a crash does.
    pub(crate) fn kill(&mut self) {
        if let Some((mut keeper, pipe)) = self.running.take() {
            drop(pipe);
            keeper.wait().unwrap();
        }
    }

    /// Sends it a signal by name.
    pub(crate) fn signal(&self, name: &str) {
        let pid = std::fs::read_to_string(self.path("pid")).unwrap();
        let sent = Command::new("kill").args([&format!("-{name}"), pid.trim()]).status().unwrap();
        assert!(sent.success());
    }

    /// Something in its directory.
    pub(crate) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// The settings of an instance, as the user who may do everything.
    pub(crate) fn settings(&self, instance: &str) -> RedisSettings {
        RedisSettings { url: self.url(), password_file: None, ca_file: None, instance: instance.to_owned() }
    }

    /// The settings of an instance, as one of its users, who is made for it.
    pub(crate) fn settings_as(&self, role: &str, instance: &str) -> RedisSettings {
        for line in acl::lines(instance) {
            let line = line.replace("PASSWORD", PASSWORD);
            let words: Vec<&str> = line.split(' ').skip(1).collect();
            self.ask::<String>(&[&["ACL", "SETUSER"], words.as_slice()].concat());
        }
        let url = format!("redis://trawler-{instance}-{role}:{PASSWORD}@127.0.0.1:{}", self.port);
        RedisSettings { url, ..self.settings(instance) }
    }

    /// Asks it something as the user who may do everything.
    pub(crate) fn ask<T: redis::FromRedisValue>(&self, words: &[&str]) -> T {
        redis::from_redis_value(self.try_ask(words).unwrap()).unwrap()
    }

    pub(crate) fn try_ask(&self, words: &[&str]) -> redis::RedisResult<redis::Value> {
        ask(&self.url(), words)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Asks a server something.
pub(crate) fn ask(url: &str, words: &[&str]) -> redis::RedisResult<redis::Value> {
    let (command, arguments) = words.split_first().unwrap();
    redis::cmd(command).arg(arguments).query(&mut redis::Client::open(url)?.get_connection()?)
}

/// A port that nobody listens at.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// An instance of its own on a shared server, with an append-only file or without, as its owner.
pub(crate) fn new_instance(append_only: bool) -> RedisSettings {
    let (server, instance) = shared(append_only);
    server.settings_as("owner", &instance)
}

/// A server that tests share, and the name of an instance that nobody else uses. It ends with the process.
pub(crate) fn shared(append_only: bool) -> (&'static Server, String) {
    static WITHOUT: OnceLock<Server> = OnceLock::new();
    static WITH: OnceLock<Server> = OnceLock::new();
    static INSTANCES: AtomicU32 = AtomicU32::new(0);
    let server = if append_only {
        WITH.get_or_init(|| Server::start(&["--save", "", "--appendonly", "yes"]))
    } else {
        WITHOUT.get_or_init(|| Server::start(&FORGETS))
    };
    (server, format!("i{}", INSTANCES.fetch_add(1, Ordering::Relaxed)))
}
