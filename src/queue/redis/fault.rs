//! What the queue makes of a call of the server that came to nothing.

use crate::queue::QueueError;
use crate::redis::CallError;

impl From<CallError> for QueueError {
    fn from(error: CallError) -> Self {
        match error {
            CallError::NotSent(why)
            | CallError::Unknown(why)
            | CallError::NotNow(why)
            | CallError::OutOfMemory(why) => Self::Unreachable { why },
            CallError::FunctionMissing(why)
            | CallError::Forbidden(why)
            | CallError::WrongPassword(why)
            | CallError::Refused(why) => Self::Refused { why },
        }
    }
}
