//! What a file is, told for people: a claim, a manifest or a state file.

use bytes::Bytes;
use serde::Serialize;

use super::file::{BroadcastReader, OperatorStateReader, StateReader};
use super::listing::Broken;
use super::manifest::{Claim, Epochs, Inline, LogEntry, Manifest, ManifestError, parse};
use crate::codec;
use crate::error::{Error, Kind, Result};
use crate::plan::{Compression, StateDescriptor};
use crate::record::KeyGroups;
use crate::state::{BroadcastMap, ChangeKind};

/// What a file is.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "file", rename_all = "kebab-case")]
pub enum Description {
    /// A claim.
    Claim(Claim),
    /// A manifest.
    Manifest(ManifestDescription),
    /// A savepoint.
    Savepoint(Box<SavepointDescription>),
    /// A state file.
    StateFile(StateFileDescription),
    /// A file of operator state.
    OperatorStateFile(OperatorStateDescription),
    /// A file of broadcast state.
    BroadcastStateFile(BroadcastStateDescription),
}

/// A manifest, and what it holds itself.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct ManifestDescription {
    /// The manifest, without the content of files that are kept in it.
    #[serde(flatten)]
    pub manifest: Manifest,
    /// What the files are that are kept in it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub inline: Vec<InlineDescription>,
}

/// A state file that is kept in a manifest.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct InlineDescription {
    /// Its path, at which nothing lies.
    pub path: String,
    /// What it is.
    #[serde(flatten)]
    pub description: Description,
}

/// A savepoint, of which every file was read.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct SavepointDescription {
    /// Its directory.
    pub path: String,
    /// Its manifest.
    #[serde(flatten)]
    pub manifest: Manifest,
    /// Files that are missing or damaged: it can't be restored with all that it had.
    pub broken: Vec<Broken>,
    /// Files that are none of a savepoint's.
    pub foreign: Vec<String>,
}

/// A file of operator state, read from end to end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct OperatorStateDescription {
    /// The operator.
    pub operator: String,
    /// Its subtask.
    pub subtask: u16,
    /// The epoch at whose end it was written.
    pub epoch: u64,
    /// Its size.
    pub bytes: u64,
    /// Its lists.
    pub states: Vec<ListCounts>,
}

/// What a file of operator state holds of one state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct ListCounts {
    /// The state.
    #[serde(flatten)]
    pub state: StateDescriptor,
    /// How many elements.
    pub elements: u64,
    /// Bytes of its elements.
    pub value_bytes: u64,
}

/// A file of broadcast state, read from end to end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct BroadcastStateDescription {
    /// The operator.
    pub operator: String,
    /// The epoch at whose end it was written.
    pub epoch: u64,
    /// Its size.
    pub bytes: u64,
    /// Its states.
    pub states: Vec<FieldCounts>,
}

/// What a file of broadcast state holds of one state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct FieldCounts {
    /// The state.
    #[serde(flatten)]
    pub state: StateDescriptor,
    /// How many fields.
    pub fields: u64,
    /// Bytes of its fields.
    pub field_bytes: u64,
    /// Bytes of its values.
    pub value_bytes: u64,
    /// Of fields and values, in hexadecimal: what the subtasks' copies are compared by.
    pub digest: String,
}

/// A state file, read from end to end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct StateFileDescription {
    /// The operator.
    pub operator: String,
    /// The key groups that it covers.
    pub groups: KeyGroups,
    /// The epochs whose changes it holds.
    pub epochs: Epochs,
    /// Whether nothing lies below it.
    pub base: bool,
    /// Its size.
    pub bytes: u64,
    /// How it is packed.
    pub compression: Compression,
    /// How many blocks it has.
    pub blocks: usize,
    /// How many changes it holds.
    pub entries: u64,
    /// Its states.
    pub states: Vec<StateCounts>,
}

/// What a state file holds of one state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct StateCounts {
    /// The state.
    #[serde(flatten)]
    pub state: StateDescriptor,
    /// Whole values.
    pub puts: u64,
    /// Additions to what older files hold.
    pub appends: u64,
    /// Removals.
    pub deletes: u64,
    /// Bytes of its keys.
    pub key_bytes: u64,
    /// Bytes of its values.
    pub value_bytes: u64,
}

/// What the file with content `bytes` is; `path` is only for errors. A state file is read from end to end.
///
/// # Errors
/// [`Kind::Checkpoint`] if it is none of ours, damaged, truncated, or from the future.
pub fn describe(path: &str, bytes: Bytes) -> Result<Description> {
    if OperatorStateReader::begins(&bytes) {
        return describe_operator_state(path, &bytes).map(Description::OperatorStateFile);
    }
    if BroadcastReader::begins(&bytes) {
        return describe_broadcast_state(path, &bytes).map(Description::BroadcastStateFile);
    }
    if codec::begins_like_a_frame(&bytes) {
        return describe_state(path, bytes).map(Description::StateFile);
    }
    match parse(&bytes) {
        Ok(LogEntry::Claim(claim)) => Ok(Description::Claim(claim)),
        Ok(LogEntry::Checkpoint(manifest)) => describe_manifest(path, manifest).map(Description::Manifest),
        Err(ManifestError::Foreign) => {
            Err(Error::new(Kind::Checkpoint, format!("{path}: this is neither a manifest, nor a claim, nor a state file")))
        }
        Err(error) => Err(Error::new(Kind::Checkpoint, format!("{path}: {error}"))),
    }
}

fn describe_manifest(path: &str, mut manifest: Manifest) -> Result<ManifestDescription> {
    let mut contents = Vec::new();
    for operator in &mut manifest.operators {
        let files = operator.files.iter_mut().map(|file| (&file.path, &mut file.inline));
        let lists = operator.operator_state.iter_mut().map(|file| (&file.path, &mut file.inline));
        contents.extend(files.chain(lists).filter_map(|(path, inline)| Some((path.clone(), inline.take()?))));
    }
    let inline = contents.into_iter().map(|(file, Inline(bytes))| {
        let description = describe(&format!("{path}: {file}"), bytes)?;
        Ok(InlineDescription { path: file, description })
    });
    let inline = inline.collect::<Result<_>>()?;
    Ok(ManifestDescription { manifest, inline })
}

fn describe_operator_state(path: &str, bytes: &[u8]) -> Result<OperatorStateDescription> {
    let OperatorStateReader { operator, subtask, epoch, lists } = OperatorStateReader::open(path, bytes)?;
    let counts = |(state, list): (StateDescriptor, std::sync::Arc<crate::record::Column>)| ListCounts {
        state,
        elements: list.len() as u64,
        value_bytes: list.bytes.len() as u64,
    };
    let states = lists.into_iter().map(counts).collect();
    Ok(OperatorStateDescription { operator, subtask, epoch, bytes: bytes.len() as u64, states })
}

fn describe_broadcast_state(path: &str, bytes: &[u8]) -> Result<BroadcastStateDescription> {
    let BroadcastReader { operator, epoch, maps } = BroadcastReader::open(path, bytes)?;
    let counts = |(state, map): (StateDescriptor, BroadcastMap)| FieldCounts {
        state,
        fields: map.len() as u64,
        field_bytes: map.iter().map(|(field, _)| field.len() as u64).sum(),
        value_bytes: map.iter().map(|(_, value)| value.len() as u64).sum(),
        digest: format!("{:032x}", map.digest()),
    };
    Ok(BroadcastStateDescription { operator, epoch, bytes: bytes.len() as u64, states: maps.into_iter().map(counts).collect() })
}

fn describe_state(path: &str, bytes: Bytes) -> Result<StateFileDescription> {
    let size = bytes.len() as u64;
    let reader = StateReader::open(path, bytes)?;
    let head = reader.head();
    let counts =
        |state: &StateDescriptor| StateCounts { state: state.clone(), puts: 0, appends: 0, deletes: 0, key_bytes: 0, value_bytes: 0 };
    let mut states: Vec<StateCounts> = head.states.iter().map(counts).collect();
    let mut changes = reader.changes(head.groups);
    while let Some(change) = changes.next_change()? {
        let state = &mut states[usize::from(change.state)];
        match change.kind {
            ChangeKind::Put => state.puts += 1,
            ChangeKind::Append => state.appends += 1,
            ChangeKind::Delete => state.deletes += 1,
        }
        state.key_bytes += change.key.len() as u64;
        state.value_bytes += change.value.len() as u64;
    }
    Ok(StateFileDescription {
        operator: head.operator.clone(),
        groups: head.groups,
        epochs: head.epochs,
        base: head.base,
        bytes: size,
        compression: reader.compression(),
        blocks: head.blocks(),
        entries: head.entries(),
        states,
    })
}
