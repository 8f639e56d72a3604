//! Requests and answers as MessagePack, which Redis reads and writes natively. Binary text is written as text: the reader in
//! Redis knows no other.

use std::sync::Arc;

use jiff::Timestamp;
use rmp::Marker;
use rmp::decode::{read_array_len, read_int, read_marker};
use rmp::encode::{write_array_len, write_bool, write_sint, write_str_len};

use crate::queue::gate::Moment;
use crate::task::{ItemStatus, NodeName, OriginKey, SectionKey, Task, TaskId, TaskKind};

/// An answer that can't be read: another program wrote it, or a newer version.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unreadable;

/// What a function answered: a value, and lists of binary text beside it.
#[derive(Debug, Default)]
pub(super) struct Reply {
    pub(super) head: Vec<u8>,
    pub(super) lists: Vec<Vec<Vec<u8>>>,
}

impl Reply {
    /// What is of another form comes out empty, which nobody can read.
    pub(super) fn of(value: redis::Value) -> Self {
        let text = |value| match value {
            redis::Value::BulkString(text) => Some(text),
            _ => None,
        };
        let list = |value| match value {
            redis::Value::Array(values) => values.into_iter().map(text).collect(),
            _ => None,
        };
        let whole = |values: Vec<redis::Value>| {
            let mut values = values.into_iter();
            let head = values.next().and_then(text)?;
            Some(Self { head, lists: values.map(list).collect::<Option<_>>()? })
        };
        match value {
            redis::Value::BulkString(head) => Self { head, lists: Vec::new() },
            redis::Value::Array(values) => whole(values).unwrap_or_default(),
            _ => Self::default(),
        }
    }
}

/// A value under construction.
#[derive(Debug, Default)]
pub(super) struct Writer(Vec<u8>);

impl Writer {
    pub(super) fn array(&mut self, length: usize) -> &mut Self {
        // Writing into memory does not fail; nothing here is longer than 2^32.
        drop(write_array_len(&mut self.0, u32::try_from(length).unwrap_or(u32::MAX)));
        self
    }

    pub(super) fn int(&mut self, value: i64) -> &mut Self {
        drop(write_sint(&mut self.0, value));
        self
    }

    /// A number that Lua can hold exactly; larger ones become the largest.
    pub(super) fn uint(&mut self, value: u64) -> &mut Self {
        self.int(i64::try_from(value.min(MOST)).unwrap_or(0))
    }

    pub(super) fn bool(&mut self, value: bool) -> &mut Self {
        drop(write_bool(&mut self.0, value));
        self
    }

    pub(super) fn flag(&mut self, value: bool) -> &mut Self {
        self.int(value.into())
    }

    pub(super) fn bytes(&mut self, value: &[u8]) -> &mut Self {
        drop(write_str_len(&mut self.0, u32::try_from(value.len()).unwrap_or(u32::MAX)));
        self.0.extend_from_slice(value);
        self
    }

    pub(super) fn text(&mut self, value: &str) -> &mut Self {
        self.bytes(value.as_bytes())
    }

    pub(super) fn moment(&mut self, moment: Moment) -> &mut Self {
        self.int(moment.0)
    }

    /// What tasks of one node and origin are, for a push: node, origin, and of each its id, status and kind, and the rest.
    pub(super) fn tasks(&mut self, tasks: &[&Task]) -> &mut Self {
        let Some(first) = tasks.first() else { return self.array(0) };
        self.array(2 + 3 * tasks.len()).text(first.section.node.as_str()).text(first.origin.as_str());
        for task in tasks {
            let is_dataset = task.kind == TaskKind::Dataset;
            self.bytes(&task.id.0).int(2 * task.status as i64 + i64::from(is_dataset)).bytes(&payload_of(task));
        }
        self
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

/// The largest number that Lua holds exactly.
pub(super) const MOST: u64 = (1 << 53) - 1;

/// What Redis need not understand of a task: all but its id, node, origin and status.
fn payload_of(task: &Task) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.array(7).int(task.kind as i64).text(task.section.section.as_str()).text(&task.cursor);
    writer.uint(task.page.into()).uint(task.depth.into()).flag(task.is_again).array(task.provenance.len());
    for endpoint in &*task.provenance {
        writer.text(endpoint);
    }
    writer.into_bytes()
}

/// An answer, read from its start.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
    /// What is added to moments: the server's clock is not the caller's.
    shift_us: i64,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8], shift_us: i64) -> Self {
        Self { rest: bytes, shift_us }
    }

    /// Bytes that were not read yet.
    pub(super) fn left(&self) -> usize {
        self.rest.len()
    }

    pub(super) fn array(&mut self) -> Result<usize, Unreadable> {
        let length = read_array_len(&mut self.rest).map_err(|_| Unreadable)? as usize;
        // Each element takes a byte at least: a length beyond that is no length.
        if length > self.rest.len() { Err(Unreadable) } else { Ok(length) }
    }

    pub(super) fn array_of(&mut self, length: usize) -> Result<(), Unreadable> {
        if self.array()? == length { Ok(()) } else { Err(Unreadable) }
    }

    pub(super) fn int(&mut self) -> Result<i64, Unreadable> {
        read_int(&mut self.rest).map_err(|_| Unreadable)
    }

    pub(super) fn uint<T: TryFrom<i64>>(&mut self) -> Result<T, Unreadable> {
        T::try_from(self.int()?).map_err(|_| Unreadable)
    }

    pub(super) fn flag(&mut self) -> Result<bool, Unreadable> {
        Ok(self.int()? != 0)
    }

    /// Whether the next value is `false`, which is passed over then.
    /// Takes a `false`, if one is next.
    pub(super) fn is_false(&mut self) -> bool {
        self.takes(Marker::False)
    }

    /// Takes a `true`, if one is next.
    pub(super) fn is_true(&mut self) -> bool {
        self.takes(Marker::True)
    }

    fn takes(&mut self, marker: Marker) -> bool {
        let is_next = self.rest.first() == Some(&marker.to_u8());
        if is_next {
            self.rest = &self.rest[1..];
        }
        is_next
    }

    pub(super) fn bytes(&mut self) -> Result<&'a [u8], Unreadable> {
        let marker = read_marker(&mut self.rest).map_err(|_| Unreadable)?;
        let length = match marker {
            Marker::FixStr(length) => length.into(),
            Marker::Str8 => self.big_endian::<1>()?,
            Marker::Str16 => self.big_endian::<2>()?,
            Marker::Str32 => self.big_endian::<4>()?,
            _ => return Err(Unreadable),
        };
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or(Unreadable)?;
        self.rest = rest;
        Ok(bytes)
    }

    fn big_endian<const N: usize>(&mut self) -> Result<usize, Unreadable> {
        let (bytes, rest) = self.rest.split_at_checked(N).ok_or(Unreadable)?;
        self.rest = rest;
        Ok(bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)))
    }

    pub(super) fn text(&mut self) -> Result<&'a str, Unreadable> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Unreadable)
    }

    /// Reads what is packed in the answer, in the same clock.
    pub(super) fn nested<'b>(&self, bytes: &'b [u8]) -> Reader<'b> {
        Reader::new(bytes, self.shift_us)
    }

    /// A moment, by the caller's clock; 0 stands for none.
    pub(super) fn moment_or_none(&mut self) -> Result<Option<Timestamp>, Unreadable> {
        let Self { shift_us, .. } = *self;
        let moment = self.int()?;
        Ok((moment > 0).then(|| Timestamp::from(Moment(moment.saturating_add(shift_us)))))
    }

    /// A moment, by the caller's clock.
    pub(super) fn moment(&mut self) -> Result<Timestamp, Unreadable> {
        Ok(Timestamp::from(Moment(self.int()?.saturating_add(self.shift_us))))
    }

    pub(super) fn id(&mut self) -> Result<TaskId, Unreadable> {
        self.bytes()?.try_into().map(TaskId).map_err(|_| Unreadable)
    }

    pub(super) fn status(&mut self) -> Result<ItemStatus, Unreadable> {
        Self::status_of(self.int()?)
    }

    /// The status of this number.
    pub(super) fn status_of(number: i64) -> Result<ItemStatus, Unreadable> {
        Ok(match number {
            0 => ItemStatus::Error,
            1 => ItemStatus::Modified,
            2 => ItemStatus::NewItem,
            3 => ItemStatus::Accepted,
            _ => return Err(Unreadable),
        })
    }

    /// A task from its parts and its payload.
    pub(super) fn task(
        payload: &[u8],
        id: TaskId,
        status: ItemStatus,
        node: &NodeName,
        origin: &OriginKey,
    ) -> Result<Task, Unreadable> {
        let mut reader = Reader::new(payload, 0);
        reader.array_of(7)?;
        let kind = match reader.int()? {
            0 => TaskKind::Root,
            1 => TaskKind::Page,
            2 => TaskKind::Dataset,
            _ => return Err(Unreadable),
        };
        let section = SectionKey { node: node.clone(), section: reader.text()?.into() };
        let cursor = Arc::from(reader.text()?);
        let (page, depth, is_again) = (reader.uint()?, reader.uint()?, reader.flag()?);
        let length = reader.array()?;
        let mut provenance = Vec::with_capacity(length);
        for _ in 0..length {
            provenance.push(reader.text()?.to_owned());
        }
        let origin = origin.clone();
        Ok(Task { id, section, kind, status, origin, cursor, page, depth, provenance: provenance.into(), is_again })
    }
}
