//! Files of operator state: all lists of one subtask as they were at a barrier, in one frame. Those of broadcast state are in
//! `broadcast`.

use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::FileError;
use crate::checkpoint::manifest::OperatorStateFile;
use crate::codec::Frame;
use crate::error::{Error, Kind, Result};
use crate::plan::{StateDescriptor, StateKind};
use crate::record::Column;
use crate::state::Lists;

/// The frame. 1 GiB is what the codec decodes at once.
const FILE: Frame = Frame { what: "file of operator state", tag: 3, version: 1, limit: 1 << 30 };

/// Whose operator state a file holds, and of when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperatorStateFacts<'a> {
    /// The operator.
    pub operator: &'a str,
    /// Its subtask.
    pub subtask: u16,
    /// The epoch.
    pub epoch: u64,
}

/// A file of operator state, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorStateReader {
    /// The operator.
    pub operator: String,
    /// Its subtask, of as many as there were.
    pub subtask: u16,
    /// The epoch at whose end the lists were so.
    pub epoch: u64,
    /// States with their elements.
    pub lists: Vec<(StateDescriptor, Arc<Column>)>,
}

/// The payload. Apart from other modules' types, so that a change of theirs can't change the format.
#[derive(Serialize, Deserialize)]
struct Wire<'a> {
    operator: &'a str,
    subtask: u16,
    epoch: u64,
    #[serde(borrow)]
    lists: Vec<WireList<'a>>,
}

#[derive(Serialize, Deserialize)]
struct WireList<'a> {
    name: &'a str,
    kind: &'a str,
    schema: &'a str,
    version: u32,
    ends: Vec<u32>,
    #[serde(with = "serde_bytes", borrow)]
    bytes: &'a [u8],
}

/// A file of operator state, ready to be stored.
#[derive(Clone, Debug)]
pub struct WrittenOperatorState {
    /// Its content.
    pub bytes: Bytes,
    /// The subtask whose lists it holds; none: broadcast state.
    pub subtask: Option<u16>,
    /// The epoch.
    pub epoch: u64,
    /// How many elements or fields it holds.
    pub elements: u64,
}

impl WrittenOperatorState {
    /// What a manifest says about it when it lies at `path`, relative to the run's directory.
    pub fn at(&self, path: String) -> OperatorStateFile {
        let WrittenOperatorState { ref bytes, subtask, epoch, elements } = *self;
        let checksum = format!("{:08x}", crc32c::crc32c(bytes));
        OperatorStateFile { path, subtask, epoch, elements, bytes: bytes.len() as u64, checksum, inline: None }
    }
}

/// The file that holds `lists`, whose states are numbered by their place in `states`.
///
/// # Errors
/// [`Kind::Checkpoint`] if they are too large.
pub fn write_operator(facts: OperatorStateFacts<'_>, states: &[StateDescriptor], lists: &Lists) -> Result<WrittenOperatorState> {
    let OperatorStateFacts { operator, subtask, epoch } = facts;
    let wire = Wire { operator, subtask, epoch, lists: lists.iter().map(|(state, list)| wire_list(&states[*state], list)).collect() };
    let mut bytes = Vec::new();
    FILE.encode(&wire, &mut bytes).map_err(|error| {
        let message = format!("operator `{operator}`, subtask {subtask}: its operator state of epoch {epoch} can't be written: {error}");
        Error::new(Kind::Checkpoint, message).help("keep less in operator state: it is written as a whole")
    })?;
    let elements = lists.iter().map(|(_, list)| list.len() as u64).sum();
    Ok(WrittenOperatorState { bytes: bytes.into(), subtask: Some(subtask), epoch, elements })
}

fn wire_list<'a>(state: &'a StateDescriptor, list: &'a Column) -> WireList<'a> {
    // Of such lists there is nothing else to tell.
    let StateDescriptor { name, kind, schema, version, .. } = state;
    WireList { name, kind: kind.name(), schema: &schema.0, version: *version, ends: list.ends.clone(), bytes: &list.bytes }
}

impl OperatorStateReader {
    /// Reads the file with content `bytes`; `path` is only for errors.
    ///
    /// # Errors
    /// [`Kind::Checkpoint`] if it is none, damaged, truncated, or from the future.
    pub fn open(path: &str, bytes: &[u8]) -> Result<Self> {
        decode(bytes).map_err(|error| Error::new(Kind::Checkpoint, format!("{path}: {error}")))
    }

    /// Whether `bytes` begin like such a file, whatever comes after.
    pub fn begins(bytes: &[u8]) -> bool {
        FILE.begins(bytes)
    }

    /// The lists, with states numbered by their place in `states`. What is not among them is left out: whether that may be, has been
    /// checked by whoever compared manifest and component.
    pub fn lists(&self, states: &[StateDescriptor]) -> Lists {
        let place = |name: &str, kind: StateKind| states.iter().position(|state| state.name == name && state.kind == kind);
        self.lists.iter().filter_map(|(state, list)| Some((place(&state.name, state.kind)?, Arc::clone(list)))).collect()
    }
}

fn decode(bytes: &[u8]) -> Result<OperatorStateReader, FileError> {
    let (wire, rest): (Wire<'_>, _) = FILE.decode(bytes)?;
    if !rest.is_empty() {
        return Err(FileError::Inconsistent(format!("{} bytes follow that don't belong to it", rest.len())));
    }
    let mut lists = Vec::with_capacity(wire.lists.len());
    for WireList { name, kind, schema, version, ends, bytes } in wire.lists {
        let kind = StateKind::named(kind).filter(|kind| kind.is_operator_list());
        let kind = kind.ok_or_else(|| FileError::Inconsistent(format!("state `{name}` is no list of a subtask")))?;
        Column::check(&ends, bytes).map_err(|malformed| FileError::Inconsistent(format!("state `{name}`: {malformed}")))?;
        let state = StateDescriptor::new(name, kind, crate::plan::Schema(schema.into()), version);
        lists.push((state, Arc::new(Column { ends, bytes: bytes.to_vec() })));
    }
    Ok(OperatorStateReader { operator: wire.operator.into(), subtask: wire.subtask, epoch: wire.epoch, lists })
}
