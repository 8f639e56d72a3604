//! Listeners that are no Redis server, or that say what a real one can't be made to say.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

/// What HELLO of a server that is well answers.
pub(super) const HELLO: &str =
    "%3\r\n$7\r\nversion\r\n$5\r\n7.0.0\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n";

/// Answers each command with what a function makes of it.
pub(super) struct Fake {
    pub(super) port: u16,
    connections: Arc<AtomicUsize>,
    task: AbortHandle,
}

impl Fake {
    /// `None` closes the connection.
    pub(super) async fn answering(answer: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        let answer = Arc::new(answer);
        Self::serving(move |stream| {
            let answer = Arc::clone(&answer);
            async move {
                let mut stream = BufReader::new(stream);
                while let Some(command) = read_command(&mut stream).await? {
                    let Some(answer) = answer(&command) else { break };
                    stream.write_all(answer.as_bytes()).await?;
                }
                Ok(())
            }
        })
        .await
    }

    pub(super) async fn serving<F>(serve: impl Fn(TcpStream) -> F + Send + 'static) -> Self
    where
        F: Future<Output = io::Result<()>> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&connections);
        let task = tokio::spawn(async move {
            let mut served = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::SeqCst);
                served.spawn(serve(stream));
            }
        });
        Self { port, connections, task: task.abort_handle() }
    }

    pub(super) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// How many connections were made so far.
    pub(super) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// One command, its words joined by spaces.
async fn read_command(stream: &mut BufReader<TcpStream>) -> io::Result<Option<String>> {
    let mut line = String::new();
    if stream.read_line(&mut line).await? == 0 {
        return Ok(None);
    }
    let count: usize = line.trim_start_matches('*').trim().parse().map_err(io::Error::other)?;
    let mut words = Vec::new();
    for _ in 0..count {
        line.clear();
        stream.read_line(&mut line).await?;
        let length: usize = line.trim_start_matches('$').trim().parse().map_err(io::Error::other)?;
        let mut word = vec![0; length + 2];
        stream.read_exact(&mut word).await?;
        words.push(String::from_utf8_lossy(&word[..length]).into_owned());
    }
    Ok(Some(words.join(" ")))
}

/// An address that leads to one server now, and to another later; connections stay where they are.
pub(super) struct Forwarder {
    fake: Fake,
    target: watch::Sender<u16>,
}

impl Forwarder {
    pub(super) async fn to(port: u16) -> Self {
        let (target, current) = watch::channel(port);
        let fake = Fake::serving(move |mut stream| {
            let port = *current.borrow();
            async move {
                let mut server = TcpStream::connect(("127.0.0.1", port)).await?;
                copy_bidirectional(&mut stream, &mut server).await.map(|_| ())
            }
        })
        .await;
        Self { fake, target }
    }

    pub(super) fn lead_to(&self, port: u16) {
        self.target.send_replace(port);
    }

    pub(super) fn url(&self) -> String {
        self.fake.url()
    }
}
