//! A real `redis-server` on loopback, started for one test and ended with it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

/// The server is looked at so often, with a moment between, for what it is waited for.
const LOOKS: u32 = 4000;
const MOMENT: Duration = Duration::from_millis(5);

/// Whether, and how eagerly, the server writes to its append-only file.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Aof {
    #[default]
    Off,
    EverySec,
    Always,
}

/// How the server is started.
#[derive(Clone, Default)]
pub(crate) struct Options {
    pub(crate) aof: Aof,
    /// Further lines of its configuration.
    pub(crate) config: Vec<String>,
    /// Lines of an ACL file (`user crawler on >secret …`), beside the default user, who may do everything.
    pub(crate) users: Vec<String>,
    /// The executable's arguments after its configuration, such as `--sentinel`.
    pub(crate) arguments: Vec<String>,
}

/// A server with a port and a directory of its own, which it keeps over restarts.
pub(crate) struct RedisServer {
    port: u16,
    directory: TempDir,
    options: Options,
    child: Option<Child>,
}

impl RedisServer {
    /// Starts a server and waits until it answers.
    pub(crate) fn start(options: Options) -> Self {
        let directory = tempfile::tempdir().expect("a directory for the server");
        let mut server = Self { port: 0, directory, options, child: None };
        for _ in 0..5 {
            server.port = free_port();
            if server.try_start() {
                return server;
            }
        }
        panic!("redis-server does not start:\n{}", server.log());
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The address as the default user, who may do everything.
    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub(crate) fn url_for(&self, user: &str, password: &str) -> String {
        format!("redis://{user}:{password}@127.0.0.1:{}", self.port)
    }

    /// Where else it listens: a socket in its directory.
    pub(crate) fn socket(&self) -> PathBuf {
        self.directory().join("socket")
    }

    /// Adds lines to its configuration, for the next start.
    pub(crate) fn configure(&mut self, lines: &[&str]) {
        self.options.config.extend(lines.iter().map(|line| (*line).to_owned()));
    }

    /// Ends it without a warning, as a crash does.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("the server can be killed");
            child.wait().expect("the server has ended");
        }
    }

    /// Asks it to end, and waits for that. It saves what it is configured to save.
    pub(crate) fn stop(&mut self) {
        self.signal("TERM");
        if let Some(mut child) = self.child.take() {
            child.wait().expect("the server has ended");
        }
    }

    /// Starts it again on its port, with what it kept in its directory.
    pub(crate) fn restart(&mut self) {
        self.kill();
        for _ in 0..100 {
            if self.try_start() {
                return;
            }
            std::thread::sleep(MOMENT);
        }
        panic!("redis-server does not start again:\n{}", self.log());
    }

    /// Stops it in its tracks: connections stay, and nothing is answered.
    pub(crate) fn pause(&self) {
        self.signal("STOP");
    }

    pub(crate) fn resume(&self) {
        self.signal("CONT");
    }

    /// Sends a command as the default user; the answer as it came, or `None` if there was none.
    pub(crate) fn command(&self, parts: &[&str]) -> Option<String> {
        command(self.port, parts)
    }

    /// Waits until the answer to a command contains these words.
    pub(crate) fn wait_for(&self, parts: &[&str], words: &str) {
        let mut answer = None;
        for _ in 0..LOOKS {
            answer = self.command(parts);
            if answer.as_ref().is_some_and(|answer| answer.contains(words)) {
                return;
            }
            std::thread::sleep(MOMENT);
        }
        panic!("{parts:?} answers {answer:?} and never {words}:\n{}", self.log());
    }

    /// What the server wrote about itself.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.directory().join("log")).unwrap_or_default()
    }

    fn signal(&self, name: &str) {
        let child = self.child.as_ref().expect("the server runs");
        let sent = Command::new("kill").args([format!("-{name}"), child.id().to_string()]).status();
        assert!(sent.is_ok_and(|status| status.success()), "the signal {name} can't be sent");
    }

    fn try_start(&mut self) -> bool {
        let config = self.directory().join("redis.conf");
        std::fs::write(&config, self.config()).expect("the server's configuration is written");
        let started = Command::new("redis-server")
            .arg(&config)
            .args(&self.options.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let child = started.unwrap_or_else(|error| {
            panic!("redis-server can't be started ({error}); install it: `apt-get install redis-server`, version 7.0 or later")
        });
        self.child = Some(child);
        for _ in 0..LOOKS {
            let ended = self.child.as_mut().is_none_or(|child| !matches!(child.try_wait(), Ok(None)));
            if ended {
                self.child = None;
                return false;
            }
            // Another program may have taken the port meanwhile; this one's pid says that it is ours that answers.
            let pid = self.child.as_ref().map_or(0, Child::id);
            if self.command(&["INFO", "server"]).is_some_and(|info| info.contains(&format!("process_id:{pid}\r"))) {
                return true;
            }
            std::thread::sleep(MOMENT);
        }
        false
    }

    fn config(&self) -> String {
        let Self { port, options, .. } = self;
        let directory = self.directory().display();
        let mut lines = vec![
            format!("port {port}"),
            "bind 127.0.0.1".to_owned(),
            format!("dir {directory}"),
            format!("logfile {directory}/log"),
        ];
        if !options.arguments.iter().any(|argument| argument == "--sentinel") {
            let (aof, fsync) = match options.aof {
                Aof::Off => ("no", "everysec"),
                Aof::EverySec => ("yes", "everysec"),
                Aof::Always => ("yes", "always"),
            };
            lines.extend([
                format!("unixsocket {directory}/socket"),
                "save \"\"".to_owned(),
                format!("appendonly {aof}"),
                format!("appendfsync {fsync}"),
                "enable-debug-command local".to_owned(),
                "repl-diskless-sync-delay 0".to_owned(),
            ]);
        }
        lines.extend(options.users.iter().cloned());
        lines.extend(options.config.iter().cloned());
        lines.join("\n") + "\n"
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Sends a command to a server on loopback; the answer as it came, or `None` if there was none in time.
pub(crate) fn command(port: u16, parts: &[&str]) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    let texts: Vec<String> = parts.iter().map(|part| format!("${}\r\n{part}\r\n", part.len())).collect();
    let request = format!("*{}\r\n{}", parts.len(), texts.concat());
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    read_answer(&mut BufReader::new(stream), &mut answer)?;
    Some(answer)
}

/// Reads one answer, with the lines that it is made of.
fn read_answer(reader: &mut BufReader<TcpStream>, answer: &mut String) -> Option<()> {
    let mut line = String::new();
    if reader.read_line(&mut line).ok()? == 0 {
        return None;
    }
    answer.push_str(&line);
    let count: i64 = line.get(1..)?.trim().parse().unwrap_or(0);
    match line.as_bytes().first()? {
        b'$' if count >= 0 => {
            let mut bytes = vec![0; usize::try_from(count).ok()? + 2];
            reader.read_exact(&mut bytes).ok()?;
            answer.push_str(&String::from_utf8_lossy(&bytes));
        }
        b'*' => {
            for _ in 0..count.max(0) {
                read_answer(reader, answer)?;
            }
        }
        _ => {}
    }
    Some(())
}

/// A port of loopback that nobody listens on at present.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("loopback has a free port");
    listener.local_addr().expect("it has an address").port()
}
