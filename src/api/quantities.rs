//! Durations and byte sizes as Kubernetes writes them (`6h`, `1m30s`, `64Mi`), parsed once.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A length of time as Go and Kubernetes write it: `500ms`, `1m30s`, `168h`. Never negative.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct KubeDuration(Duration);

impl KubeDuration {
    /// This many seconds.
    pub const fn from_secs(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }

    /// This many hours.
    pub const fn from_hours(hours: u64) -> Self {
        Self(Duration::from_secs(hours * 3600))
    }

    /// The length of time.
    pub const fn get(self) -> Duration {
        self.0
    }
}

impl From<Duration> for KubeDuration {
    fn from(duration: Duration) -> Self {
        Self(duration)
    }
}

impl From<KubeDuration> for Duration {
    fn from(duration: KubeDuration) -> Self {
        duration.0
    }
}

/// Why a text is not a quantity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// Not a duration.
    #[error("{0:?} is not a duration; write one like 30s, 1m30s or 168h")]
    NotADuration(String),
    /// Not a number of bytes.
    #[error("{0:?} is not a number of bytes; write one like 64Mi, 1Gi or 1000000")]
    NotAByteSize(String),
}

impl FromStr for KubeDuration {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || QuantityError::NotADuration(shortened(text));
        if text.is_empty() || text.len() > MAX_LENGTH {
            return Err(error());
        }
        let mut rest = text;
        let mut nanos: u128 = 0;
        while !rest.is_empty() {
            let (part, tail) = duration_part(rest).ok_or_else(error)?;
            nanos = nanos.checked_add(part).ok_or_else(error)?;
            rest = tail;
        }
        // What is left of the range of Go's own duration: some 292 years.
        i64::try_from(nanos).map(|nanos| Self(Duration::from_nanos(nanos.unsigned_abs()))).map_err(|_| error())
    }
}

/// One number with its unit, in nanoseconds, and the text after it.
fn duration_part(text: &str) -> Option<(u128, &str)> {
    let number_end = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, rest) = text.split_at(number_end);
    let (unit, tail) = rest.split_at(rest.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(rest.len()));
    let unit_nanos: u128 = match unit {
        "h" => 3_600_000_000_000,
        "m" => 60_000_000_000,
        "s" => 1_000_000_000,
        "ms" => 1_000_000,
        _ => return None,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let fraction_scale = 10_u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let whole = whole.parse::<u64>().ok()?;
    let fraction = fraction.parse::<u64>().ok()?;
    Some((u128::from(whole) * unit_nanos + u128::from(fraction) * unit_nanos / fraction_scale, tail))
}

impl fmt::Display for KubeDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0.as_millis();
        if rest == 0 {
            return f.write_str("0s");
        }
        for (unit, millis) in [("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)] {
            if rest >= millis {
                write!(f, "{}{unit}", rest / millis)?;
                rest %= millis;
            }
        }
        Ok(())
    }
}

impl Serialize for KubeDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for KubeDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

impl JsonSchema for KubeDuration {
    fn schema_name() -> Cow<'static, str> {
        "KubeDuration".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "maxLength": MAX_LENGTH, "pattern": "^([0-9]+(\\.[0-9]+)?(ms|s|m|h))+$"})
    }
}

/// A number of bytes as Kubernetes writes it: `64Mi`, `1Gi`, `500M`, or a plain number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ByteSize(u64);

/// The suffixes, largest of each family first, with what they multiply by.
const SUFFIXES: [(&str, u64); 8] = [
    ("Ti", 1 << 40),
    ("Gi", 1 << 30),
    ("Mi", 1 << 20),
    ("Ki", 1 << 10),
    ("T", 1_000_000_000_000),
    ("G", 1_000_000_000),
    ("M", 1_000_000),
    ("k", 1000),
];

/// No sensible duration or size is longer.
const MAX_LENGTH: usize = 32;

impl ByteSize {
    /// This many bytes.
    pub const fn from_bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    /// The number of bytes.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl FromStr for ByteSize {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (digits, factor) = SUFFIXES
            .iter()
            .find_map(|(suffix, factor)| Some((text.strip_suffix(suffix)?, *factor)))
            .unwrap_or((text, 1));
        digits
            .bytes()
            .all(|b| b.is_ascii_digit())
            .then(|| digits.parse::<u64>().ok()?.checked_mul(factor))
            .flatten()
            .map(Self)
            .ok_or_else(|| QuantityError::NotAByteSize(shortened(text)))
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let binary = SUFFIXES.iter().filter(|(suffix, _)| suffix.ends_with('i'));
        match binary.into_iter().find(|(_, factor)| self.0 >= *factor && self.0.is_multiple_of(*factor)) {
            Some((suffix, factor)) => write!(f, "{}{suffix}", self.0 / factor),
            None => write!(f, "{}", self.0),
        }
    }
}

impl Serialize for ByteSize {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ByteSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NumberOrSize).map(Self)
    }
}

impl JsonSchema for ByteSize {
    fn schema_name() -> Cow<'static, str> {
        "ByteSize".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        int_or_size_schema()
    }
}

/// The amount of a throttle limit: a number, or a quantity such as `50k` or `2Gi`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Amount(u64);

impl Amount {
    /// This many documents, calls or bytes.
    pub const fn new(amount: u64) -> Self {
        Self(amount)
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0)
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NumberOrSize).map(Self)
    }
}

impl JsonSchema for Amount {
    fn schema_name() -> Cow<'static, str> {
        "Amount".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        int_or_size_schema()
    }
}

/// At least 1, and short enough not to overflow.
fn int_or_size_schema() -> Schema {
    json_schema!({
        "x-kubernetes-int-or-string": true,
        "minimum": 1,
        "maxLength": MAX_LENGTH,
        "pattern": "^[1-9][0-9]{0,5}(Ki|Mi|Gi|Ti|k|M|G|T)$|^[1-9][0-9]{0,17}$",
    })
}

/// Reads a plain number or a size, as Kubernetes' quantities may be written.
struct NumberOrSize;

impl de::Visitor<'_> for NumberOrSize {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, or a size like 64Mi")
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<u64, E> {
        Ok(number)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<u64, E> {
        u64::try_from(number).map_err(|_| E::invalid_value(de::Unexpected::Signed(number), &self))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<u64, E> {
        text.parse::<ByteSize>().map(ByteSize::get).map_err(E::custom)
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(40).collect()
}
