//! What stands between the queue and a server, and answers in its place when a test wants it to.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use trawler::queue::redis::RedisSettings;

/// What is done with a command.
#[derive(Debug, Clone)]
pub(super) enum Answer {
    /// The server answers.
    Forward,
    /// This is answered.
    Say(&'static str),
    /// The server does it, and the connection breaks before the answer.
    Lose,
    /// The connection breaks.
    Close,
}

/// It listens at a port of its own.
pub(super) struct Fake {
    pub(super) port: u16,
    shared: Arc<Shared>,
    target: watch::Sender<u16>,
    listener: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    accepted: AtomicUsize,
    /// What the next commands are answered, and all after them.
    next: Mutex<(VecDeque<Answer>, Answer)>,
}

impl Fake {
    /// In front of a server, which answers.
    pub(super) async fn before(server: u16) -> Self {
        Self::new(server, Answer::Forward).await
    }

    /// Alone.
    pub(super) async fn answering(always: Answer) -> Self {
        Self::new(0, always).await
    }

    async fn new(server: u16, always: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared { accepted: AtomicUsize::new(0), next: Mutex::new((VecDeque::new(), always)) });
        let (target, targets) = watch::channel(server);
        let of_listener = shared.clone();
        let listener = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                of_listener.accepted.fetch_add(1, Ordering::SeqCst);
                let (shared, mut targets) = (of_listener.clone(), targets.clone());
                tokio::spawn(async move {
                    let target = *targets.borrow_and_update();
                    tokio::select! {
                        ended = serve(client, target, &shared) => drop(ended),
                        _ = targets.changed() => {}
                    }
                });
            }
        });
        Self { port, shared, target, listener }
    }

    pub(super) fn settings(&self, instance: &str) -> RedisSettings {
        let url = format!("redis://127.0.0.1:{}", self.port);
        RedisSettings { url, password_file: None, ca_file: None, instance: instance.to_owned() }
    }

    pub(super) fn at(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The next commands are answered so.
    pub(super) fn answer_next(&self, answers: impl IntoIterator<Item = Answer>) {
        self.shared.next.lock().unwrap().0.extend(answers);
    }

    /// What was to be answered and has not been.
    pub(super) fn left(&self) -> usize {
        self.shared.next.lock().unwrap().0.len()
    }

    /// Breaks all connections; those that follow lead to another server.
    pub(super) fn lead_to(&self, server: u16) {
        self.target.send(server).unwrap();
    }

    /// How often somebody connected.
    pub(super) fn accepted(&self) -> usize {
        self.shared.accepted.load(Ordering::SeqCst)
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.listener.abort();
    }
}

async fn serve(mut client: TcpStream, target: u16, shared: &Shared) -> std::io::Result<()> {
    let (mut read, mut write) = client.split();
    let mut server = if target == 0 { None } else { Some(TcpStream::connect(("127.0.0.1", target)).await?) };
    let (mut from_client, mut from_server) = (Vec::new(), vec![0; 65_536]);
    loop {
        while let Some(length) = command_length(&from_client) {
            let command: Vec<u8> = from_client.drain(..length).collect();
            let answer = {
                let mut next = shared.next.lock().unwrap();
                next.0.pop_front().unwrap_or_else(|| next.1.clone())
            };
            match (answer, &mut server) {
                (Answer::Say(text), _) => write.write_all(text.as_bytes()).await?,
                (Answer::Forward, Some(server)) => server.write_all(&command).await?,
                (Answer::Lose, Some(server)) => {
                    server.write_all(&command).await?;
                    assert!(server.read(&mut from_server).await? > 0);
                    return Ok(());
                }
                (Answer::Close | Answer::Forward | Answer::Lose, _) => return Ok(()),
            }
        }
        let answered = async {
            match &mut server {
                Some(server) => server.read(&mut from_server).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            length = read.read_buf(&mut from_client) => if length? == 0 { return Ok(()) },
            length = answered => match length? {
                0 => return Ok(()),
                length => write.write_all(&from_server[..length]).await?,
            },
        }
    }
}

/// How many bytes the first command takes; `None`: it is not complete.
fn command_length(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    let number = |at: &mut usize| -> Option<usize> {
        let end = *at + bytes.get(*at..)?.windows(2).position(|pair| pair == b"\r\n")?;
        let number = std::str::from_utf8(&bytes[*at + 1..end]).ok()?.parse().ok();
        *at = end + 2;
        number
    };
    for _ in 0..number(&mut at)? {
        at += number(&mut at)? + 2;
    }
    (at <= bytes.len()).then_some(at)
}
