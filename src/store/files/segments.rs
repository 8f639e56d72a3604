//! Payloads: lines in files that are only appended to.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::PathBuf;
use std::thread::JoinHandle;

use bytes::Bytes;

use super::super::engine::read::Found;
use super::super::engine::rows::Place;
use super::super::{StoreError, StoredRecord};
use super::errors;

/// A segment that has grown this long is followed by a new one.
const SEGMENT_BYTES: u64 = 64 << 20;
/// So much is gathered before it is written.
const BUFFER_BYTES: usize = 256 << 10;
/// Payloads that lie side by side are read together, so much at a time.
const READ_BYTES: u64 = 512 << 10;
/// Reading over a gap this wide is cheaper than another read.
const GAP_BYTES: u64 = 4 << 10;

/// Where segments lie: those of a dry run in a directory of its own.
#[derive(Debug, Clone)]
pub(super) struct Segments {
    dir: PathBuf,
    /// Directory and first number of the segments that this process may write.
    own: Option<(PathBuf, u32)>,
}

impl Segments {
    pub(super) fn new(dir: PathBuf) -> Self {
        Self { dir, own: None }
    }

    /// Segments from `first` on lie in `dir`.
    pub(super) fn with_own(self, dir: PathBuf, first: u32) -> Self {
        Self { own: Some((dir, first)), ..self }
    }

    pub(super) fn path(&self, segment: u32) -> PathBuf {
        let dir = match &self.own {
            Some((dir, first)) if segment >= *first => dir,
            _ => &self.dir,
        };
        dir.join(format!("{segment:06}.jsonl"))
    }

    /// Adds their payloads to records, in large sequential reads where they lie side by side.
    pub(super) fn read(&self, found: Vec<Found>) -> Result<Vec<StoredRecord>, StoreError> {
        let mut records = Vec::with_capacity(found.len());
        let mut files = HashMap::new();
        let mut found = found.into_iter().peekable();
        while let Some(first) = found.next() {
            let Place { segment, offset: start, len } = first.entry.place;
            let mut end = start + u64::from(len);
            let mut together = vec![first];
            while let Some(next) = found.next_if(|next| {
                let place = next.entry.place;
                place.segment == segment
                    && (end..end + GAP_BYTES).contains(&place.offset)
                    && place.offset + u64::from(place.len) - start <= READ_BYTES
            }) {
                end = next.entry.place.offset + u64::from(next.entry.place.len);
                together.push(next);
            }
            let bytes = self.read_range(&mut files, segment, start, end)?;
            for found in together {
                let Place { offset, len, .. } = found.entry.place;
                let from = as_index(offset - start);
                records.push(found.with_payload(bytes.slice(from..from + len as usize)));
            }
        }
        Ok(records)
    }

    fn read_range(
        &self,
        files: &mut HashMap<u32, File>,
        segment: u32,
        start: u64,
        end: u64,
    ) -> Result<Bytes, StoreError> {
        let path = self.path(segment);
        let failed = |source| errors::io("read", &path, source);
        let mut file = match files.get(&segment) {
            Some(file) => file,
            None => files.entry(segment).or_insert(File::open(&path).map_err(failed)?),
        };
        let mut bytes = vec![0; as_index(end - start)];
        file.seek(SeekFrom::Start(start)).map_err(failed)?;
        file.read_exact(&mut bytes).map_err(failed)?;
        Ok(bytes.into())
    }
}

/// A length that was checked against a bound far below the address space.
fn as_index(len: u64) -> usize {
    usize::try_from(len).unwrap_or(usize::MAX)
}

/// How long a segment is, and how much of it is live.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) len: u64,
    pub(super) live: u64,
}

impl Extent {
    pub(super) fn encode(self) -> [u8; 16] {
        (u128::from(self.len) << 64 | u128::from(self.live)).to_be_bytes()
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (len, live) = bytes.split_first_chunk::<8>()?;
        Some(Self { len: u64::from_be_bytes(*len), live: u64::from_be_bytes(live.try_into().ok()?) })
    }
}

/// Appends to the newest segment, and keeps the books of all.
#[derive(Debug)]
pub(super) struct Appender {
    segments: Segments,
    /// Of every segment, as the running transaction sees it. Segments are few: one for each 64 MiB.
    extents: BTreeMap<u32, Extent>,
    /// Those that the running transaction has changed, as they were before (`None`: not there).
    before: BTreeMap<u32, Option<Extent>>,
    newest: u32,
    file: Option<File>,
    buffer: Vec<u8>,
    /// Segments on their way to the disk.
    syncing: Vec<(u32, JoinHandle<io::Result<()>>)>,
}

impl Appender {
    pub(super) fn new(segments: Segments, extents: BTreeMap<u32, Extent>) -> Self {
        let newest = extents.last_key_value().map_or(0, |(&newest, _)| newest);
        let first_own = segments.own.as_ref().map_or(0, |(_, first)| first.saturating_sub(1));
        let newest = newest.max(first_own);
        Self { segments, extents, before: BTreeMap::new(), newest, file: None, buffer: Vec::new(), syncing: Vec::new() }
    }

    /// Goes on with the newest segment, which ends where its extent says.
    pub(super) fn go_on(&mut self) -> Result<(), StoreError> {
        if self.extents.contains_key(&self.newest) {
            let path = self.segments.path(self.newest);
            let file = OpenOptions::new().append(true).open(&path);
            self.file = Some(file.map_err(|source| errors::io("open", &path, source))?);
        }
        Ok(())
    }

    /// The segments of which less than half is live, among those that this process may write. They are appended to no
    /// more.
    pub(super) fn retire_wasteful(&mut self) -> Result<BTreeSet<u32>, StoreError> {
        let first_own = self.segments.own.as_ref().map_or(0, |(_, first)| *first);
        let own = self.extents.range(first_own..);
        let wasteful: BTreeSet<u32> =
            own.filter(|(_, extent)| extent.live * 2 < extent.len).map(|(&segment, _)| segment).collect();
        if wasteful.contains(&self.newest) {
            self.rotate()?;
        }
        Ok(wasteful)
    }

    pub(super) fn append(&mut self, payload: &[u8]) -> Result<Place, StoreError> {
        let is_full = self.extents.get(&self.newest).is_some_and(|extent| extent.len >= SEGMENT_BYTES);
        if self.file.is_none() || is_full {
            self.rotate()?;
        }
        let len = u32::try_from(payload.len())
            .map_err(|_| errors::io("write", &self.segments.path(self.newest), io::ErrorKind::FileTooLarge.into()))?;
        self.buffer.extend_from_slice(payload);
        self.buffer.push(b'\n');
        let extent = self.extent_mut(self.newest);
        let place_offset = extent.len;
        let line_bytes = u64::from(len) + 1;
        extent.len += line_bytes;
        extent.live += line_bytes;
        let place = Place { segment: self.newest, offset: place_offset, len };
        if self.buffer.len() >= BUFFER_BYTES {
            self.flush()?;
        }
        Ok(place)
    }

    pub(super) fn release(&mut self, place: Place) {
        let extent = self.extent_mut(place.segment);
        extent.live = extent.live.saturating_sub(u64::from(place.len) + 1);
    }

    /// Forgets a segment; its file is the caller's to remove, after the commit.
    pub(super) fn forget(&mut self, segment: u32) {
        let extent = self.extents.remove(&segment);
        self.before.entry(segment).or_insert(extent);
    }

    /// Starts a new segment.
    pub(super) fn rotate(&mut self) -> Result<(), StoreError> {
        self.flush()?;
        self.leave_newest();
        self.newest += 1;
        let path = self.segments.path(self.newest);
        let failed = |source| errors::io("create", &path, source);
        // What may lie there is left over from a transaction that never was.
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        self.file = Some(OpenOptions::new().append(true).create_new(true).open(&path).map_err(failed)?);
        self.extent_mut(self.newest);
        Ok(())
    }

    /// Hands everything to the operating system.
    pub(super) fn flush(&mut self) -> Result<(), StoreError> {
        if let Some(file) = &mut self.file {
            let path = self.segments.path(self.newest);
            file.write_all(&self.buffer).map_err(|source| errors::io("write", &path, source))?;
        }
        self.buffer.clear();
        Ok(())
    }

    /// Sees everything to the disk.
    pub(super) fn sync(&mut self) -> Result<(), StoreError> {
        let segments = &self.segments;
        let failed = |segment, source| errors::io("write", &segments.path(segment), source);
        for (segment, thread) in self.syncing.drain(..) {
            let synced = thread.join().unwrap_or_else(|_| Err(io::Error::other("the syncing thread has ended")));
            synced.map_err(|source| failed(segment, source))?;
        }
        self.file.as_ref().map_or(Ok(()), File::sync_data).map_err(|source| failed(self.newest, source))
    }

    /// Sees a segment that is appended to no more to the disk: beside the work, so that the end of the run has less to
    /// wait for.
    fn leave_newest(&mut self) {
        if let Some(file) = self.file.take() {
            self.syncing.push((self.newest, std::thread::spawn(move || file.sync_data())));
        }
    }

    /// The extents that the running transaction has changed; `None`: forgotten.
    pub(super) fn changed(&self) -> impl Iterator<Item = (u32, Option<Extent>)> {
        self.before.keys().map(|&segment| (segment, self.extents.get(&segment).copied()))
    }

    /// The running transaction has become durable.
    pub(super) fn committed(&mut self) {
        self.before.clear();
    }

    /// The running transaction never was. What it appended stays as waste behind the end of a segment, so that segment
    /// isn't gone on with.
    pub(super) fn aborted(&mut self) {
        for (segment, extent) in std::mem::take(&mut self.before) {
            match extent {
                Some(extent) => self.extents.insert(segment, extent),
                None => self.extents.remove(&segment),
            };
        }
        self.buffer.clear();
        self.leave_newest();
    }

    fn extent_mut(&mut self, segment: u32) -> &mut Extent {
        self.before.entry(segment).or_insert_with(|| self.extents.get(&segment).copied());
        self.extents.entry(segment).or_default()
    }
}
