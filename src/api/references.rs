//! References between objects: by name, in the same namespace.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A reference to an object of the same namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct ObjectRef {
    /// Name of the object.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

impl<T: Into<String>> From<T> for ObjectRef {
    fn from(name: T) -> Self {
        Self { name: name.into() }
    }
}
