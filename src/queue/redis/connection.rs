//! The way to the server.
use super::RedisSettings;
use crate::queue::QueueError;
use tokio::sync::OnceCell;

#[derive(Debug)]
pub(super) enum CallError {
    FunctionMissing,
    Unknown(String),
    Other(String),
}

impl From<CallError> for QueueError {
    fn from(error: CallError) -> Self {
        let why = match error {
            CallError::FunctionMissing => "the queue's functions are not loaded".to_owned(),
            CallError::Unknown(why) | CallError::Other(why) => why,
        };
        Self::Unreachable { why: format!("the queue in Redis: {why}") }
    }
}

pub(super) struct Connection {
    settings: RedisSettings,
    cell: OnceCell<redis::aio::MultiplexedConnection>,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Connection")
    }
}

impl Connection {
    pub(super) fn new(settings: RedisSettings) -> Result<Self, QueueError> {
        Ok(Self { settings, cell: OnceCell::new() })
    }
    async fn connection(&self) -> Result<redis::aio::MultiplexedConnection, CallError> {
        let get = || async {
            let client =
                redis::Client::open(self.settings.url.as_str()).map_err(|e| CallError::Other(e.to_string()))?;
            client.get_multiplexed_async_connection().await.map_err(|e| CallError::Other(e.to_string()))
        };
        self.cell.get_or_try_init(get).await.cloned()
    }
    pub(super) async fn call(&self, function: &str, arguments: &[&[u8]]) -> Result<Vec<u8>, CallError> {
        let mut connection = self.connection().await?;
        let mut cmd = redis::cmd("FCALL");
        cmd.arg(function).arg(1).arg(format!("trawler:{{{}}}:", self.settings.instance));
        for argument in arguments {
            cmd.arg(*argument);
        }
        cmd.query_async(&mut connection).await.map_err(|error: redis::RedisError| {
            if error.to_string().contains("Function not found") {
                CallError::FunctionMissing
            } else if error.is_io_error() || error.is_timeout() {
                CallError::Unknown(error.to_string())
            } else {
                CallError::Other(error.to_string())
            }
        })
    }
    pub(super) async fn load_library(&self, _name: &str, code: &str) -> Result<(), CallError> {
        let mut connection = self.connection().await?;
        let done: Result<redis::Value, redis::RedisError> =
            redis::cmd("FUNCTION").arg("LOAD").arg("REPLACE").arg(code).query_async(&mut connection).await;
        done.map(drop).map_err(|e| CallError::Other(e.to_string()))
    }
}
