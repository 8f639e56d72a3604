//! A loopback server that says exactly what a test tells it to, byte for byte, whether that is HTTP or not.
#![expect(clippy::unwrap_used, reason = "a helper of tests fails the test")]

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use trawler::protocol::origin_of;
use trawler::task::OriginKey;
use url::Url;

/// A request as it arrived.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// Which connection it came on, counted from 0.
    pub(crate) connection: usize,
}

impl Seen {
    /// A header field; names are lower case.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }
}

/// What follows the bytes of a reply.
#[derive(Debug, Clone)]
enum End {
    KeepAlive,
    Close,
    Hang,
    Repeat(Vec<u8>),
    Drip(Vec<u8>),
}

/// The bytes to send, and what to do then.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    status: u16,
    fields: Vec<(String, String)>,
    body: Vec<u8>,
    raw: Option<Vec<u8>>,
    end: End,
}

impl Reply {
    pub(crate) fn status(status: u16) -> Self {
        Self { status, fields: Vec::new(), body: Vec::new(), raw: None, end: End::KeepAlive }
    }

    pub(crate) fn ok(body: impl Into<Vec<u8>>) -> Self {
        Self { body: body.into(), ..Self::status(200) }
    }

    pub(crate) fn redirect(status: u16, location: impl Into<String>) -> Self {
        Self::status(status).field("Location", location)
    }

    /// These bytes and nothing else.
    pub(crate) fn raw(bytes: impl Into<Vec<u8>>) -> Self {
        Self { raw: Some(bytes.into()), end: End::Close, ..Self::status(0) }
    }

    pub(crate) fn field(mut self, name: &str, value: impl Into<String>) -> Self {
        self.fields.push((name.to_owned(), value.into()));
        self
    }

    pub(crate) fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// Then closes the connection.
    pub(crate) fn then_close(self) -> Self {
        Self { end: End::Close, ..self }
    }

    /// Then says nothing more, until the client leaves.
    pub(crate) fn then_hang(self) -> Self {
        Self { end: End::Hang, ..self }
    }

    /// Then sends these bytes again and again, until the client leaves.
    pub(crate) fn then_repeat(self, bytes: impl Into<Vec<u8>>) -> Self {
        Self { end: End::Repeat(bytes.into()), ..self }
    }

    /// Then sends these bytes again and again, but slowly: every 5 ms.
    pub(crate) fn then_drip(self, bytes: impl Into<Vec<u8>>) -> Self {
        Self { end: End::Drip(bytes.into()), ..self }
    }

    fn bytes(&self) -> Vec<u8> {
        if let Some(raw) = &self.raw {
            return raw.clone();
        }
        let mut head = vec![format!("HTTP/1.1 {} Scripted", self.status)];
        head.extend(self.fields.iter().map(|(name, value)| format!("{name}: {value}")));
        let says_length = |name: &str| matches!(name, "Content-Length" | "Transfer-Encoding");
        if self.status != 304 && !self.fields.iter().any(|(name, _)| says_length(name)) {
            head.push(format!("Content-Length: {}", self.body.len()));
        }
        let head = head.join("\r\n") + "\r\n\r\n";
        [head.as_bytes(), &self.body].concat()
    }
}

type Script = dyn Fn(&Seen) -> Reply + Send + Sync;

/// The server; it ends with the value.
#[derive(Debug)]
pub(crate) struct HttpServer {
    scheme: &'static str,
    address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    accepting: JoinHandle<()>,
}

impl HttpServer {
    pub(crate) async fn start(script: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Self {
        Self::listen(None, script).await
    }

    pub(crate) async fn start_tls(
        config: ServerConfig,
        script: impl Fn(&Seen) -> Reply + Send + Sync + 'static,
    ) -> Self {
        Self::listen(Some(TlsAcceptor::from(Arc::new(config))), script).await
    }

    async fn listen(tls: Option<TlsAcceptor>, script: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let seen = Arc::new(Mutex::new(Vec::new()));
        let script: Arc<Script> = Arc::new(script);
        let log = Arc::clone(&seen);
        let accepting = tokio::spawn(async move {
            for connection in 0.. {
                let Ok((stream, _)) = listener.accept().await else { return };
                let (script, log, tls) = (Arc::clone(&script), Arc::clone(&log), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        None => serve(stream, connection, &*script, &log).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                serve(stream, connection, &*script, &log).await;
                            }
                        }
                    }
                });
            }
        });
        Self { scheme, address, seen, accepting }
    }

    pub(crate) fn url(&self, path: &str) -> Url {
        self.url_at("127.0.0.1", path)
    }

    /// The same server under another of its names.
    pub(crate) fn url_at(&self, host: &str, path: &str) -> Url {
        Url::parse(&format!("{}://{host}:{}{path}", self.scheme, self.address.port())).unwrap()
    }

    pub(crate) fn origin(&self) -> OriginKey {
        origin_of(&self.url("/"))
    }

    /// All requests so far.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// The requests so far, as `GET /path`.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.seen().iter().map(|seen| format!("{} {}", seen.method, seen.target)).collect()
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    connection: usize,
    script: &Script,
    log: &Mutex<Vec<Seen>>,
) {
    let mut stream = BufReader::new(stream);
    while let Some(mut seen) = read_request(&mut stream).await {
        seen.connection = connection;
        log.lock().unwrap().push(seen.clone());
        let reply = script(&seen);
        if stream.write_all(&reply.bytes()).await.is_err() || stream.flush().await.is_err() {
            return;
        }
        match reply.end {
            End::KeepAlive => {}
            End::Close => {
                let (Ok(()) | Err(_)) = stream.shutdown().await;
                return;
            }
            End::Hang => {
                let (Ok(_) | Err(_)) = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
                return;
            }
            End::Drip(bytes) => {
                let mut ticks = tokio::time::interval(Duration::from_millis(5));
                while stream.write_all(&bytes).await.is_ok() && stream.flush().await.is_ok() {
                    ticks.tick().await;
                }
                return;
            }
            End::Repeat(bytes) => {
                while stream.write_all(&bytes).await.is_ok() {}
                return;
            }
        }
    }
}

async fn read_request(stream: &mut BufReader<impl AsyncRead + Unpin>) -> Option<Seen> {
    let mut seen = Seen::default();
    let mut line = String::new();
    stream.read_line(&mut line).await.ok().filter(|read| *read > 0)?;
    let mut words = line.split_whitespace().map(str::to_owned);
    (seen.method, seen.target) = (words.next()?, words.next()?);
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.ok().filter(|read| *read > 0)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        seen.fields.push((name.to_lowercase(), value.trim().to_owned()));
    }
    let length = seen.field("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    seen.body = vec![0; length];
    stream.read_exact(&mut seen.body).await.ok()?;
    Some(seen)
}
