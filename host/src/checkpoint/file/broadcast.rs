//! Files of broadcast state: all of it that an operator has, as it was on each subtask at a barrier, in one frame.

use serde::{Deserialize, Serialize};

use super::{FileError, WrittenOperatorState};
use crate::codec::{self, Frame};
use crate::error::{Error, Kind, Result};
use crate::plan::{More, Schema, StateDescriptor, StateKind};
use crate::state::{BroadcastMap, Maps};

/// The frame. 1 GiB is what the codec decodes at once.
const FILE: Frame = Frame { what: "file of broadcast state", tag: 4, version: 1, limit: 1 << 30 };

/// A file of broadcast state, read.
#[derive(Clone, Debug)]
pub struct BroadcastReader {
    /// The operator.
    pub operator: String,
    /// The epoch at whose end the state was so.
    pub epoch: u64,
    /// States with their fields and values.
    pub maps: Vec<(StateDescriptor, BroadcastMap)>,
}

/// The payload. Apart from other modules' types, so that a change of theirs can't change the format.
#[derive(Serialize, Deserialize)]
struct Wire<'a> {
    operator: &'a str,
    epoch: u64,
    #[serde(borrow)]
    maps: Vec<WireMap<'a>>,
}

#[derive(Serialize, Deserialize)]
struct WireMap<'a> {
    name: &'a str,
    schema: &'a str,
    version: u32,
    /// What more there is to say, by name, as in state files.
    more: More,
    /// In order.
    #[serde(borrow)]
    entries: Vec<WireEntry<'a>>,
}

#[derive(Serialize, Deserialize)]
struct WireEntry<'a> {
    #[serde(with = "serde_bytes", borrow)]
    field: &'a [u8],
    #[serde(with = "serde_bytes", borrow)]
    value: &'a [u8],
}

/// The file that holds `maps` of an operator, whose states are numbered by their place in `states`.
///
/// # Errors
/// [`Kind::Checkpoint`] if they are too large.
pub fn write_broadcast(operator: &str, epoch: u64, states: &[StateDescriptor], maps: &Maps) -> Result<WrittenOperatorState> {
    let wire = Wire { operator, epoch, maps: maps.iter().map(|(state, map)| wire_map(&states[*state], map)).collect() };
    let mut bytes = Vec::new();
    FILE.encode(&wire, &mut bytes).map_err(|error| {
        let message = format!("operator `{operator}`: its broadcast state of epoch {epoch} can't be written: {error}");
        Error::new(Kind::Checkpoint, message).help("keep less in broadcast state: it is written as a whole, and each subtask has all of it")
    })?;
    let elements = maps.iter().map(|(_, map)| map.len() as u64).sum();
    Ok(WrittenOperatorState { bytes: bytes.into(), subtask: None, epoch, elements })
}

fn wire_map<'a>(state: &'a StateDescriptor, map: &'a BroadcastMap) -> WireMap<'a> {
    let entries = map.iter().map(|(field, value)| WireEntry { field, value }).collect();
    WireMap { name: &state.name, schema: &state.schema.0, version: state.version, more: state.more(), entries }
}

impl BroadcastReader {
    /// Reads the file with content `bytes`; `path` is only for errors.
    ///
    /// # Errors
    /// [`Kind::Checkpoint`] if it is none, damaged, truncated, or from the future.
    pub fn open(path: &str, bytes: &[u8]) -> Result<Self> {
        decode(bytes).map_err(|error| Error::new(Kind::Checkpoint, format!("{path}: {error}")))
    }

    /// Whether `bytes` begin like such a file, whatever comes after.
    pub fn begins(bytes: &[u8]) -> bool {
        codec::begins_like_a_frame(bytes) && bytes.get(4..6) == Some(&FILE.tag.to_le_bytes())
    }

    /// The maps, with states numbered by their place in `states`. What is not among them is left out: whether that may be, has been
    /// checked by whoever compared manifest and component.
    pub fn maps(self, states: &[StateDescriptor]) -> Maps {
        let place = |name: &str| states.iter().position(|state| state.name == name && state.kind == StateKind::Broadcast);
        self.maps.into_iter().filter_map(|(state, map)| Some((place(&state.name)?, map))).collect()
    }
}

fn decode(bytes: &[u8]) -> Result<BroadcastReader, FileError> {
    let (wire, rest): (Wire<'_>, _) = FILE.decode(bytes)?;
    if !rest.is_empty() {
        return Err(FileError::Inconsistent(format!("{} bytes follow that don't belong to it", rest.len())));
    }
    let mut maps = Vec::with_capacity(wire.maps.len());
    for WireMap { name, schema, version, more, entries } in wire.maps {
        let state = StateDescriptor::new(name, StateKind::Broadcast, Schema(schema.into()), version).with_more(&more);
        let state = state.map_err(|cause| FileError::Inconsistent(format!("state `{name}`: {cause}")))?;
        if !entries.is_sorted_by(|a, b| a.field < b.field) {
            return Err(FileError::Inconsistent(format!("the fields of state `{name}` are out of order")));
        }
        maps.push((state, entries.iter().map(|entry| (entry.field, entry.value)).collect()));
    }
    Ok(BroadcastReader { operator: wire.operator.into(), epoch: wire.epoch, maps })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn states() -> Vec<StateDescriptor> {
        let state = |name: &str, kind: StateKind| {
            let state = StateDescriptor::new(name, kind, Schema::text(), 1);
            if kind.has_fields() { StateDescriptor { field_schema: Some(Schema("u64".into())), ..state } } else { state }
        };
        vec![state("rates", StateKind::Broadcast), state("n", StateKind::Value), state("names", StateKind::Broadcast)]
    }

    fn map(entries: &[(&str, &str)]) -> BroadcastMap {
        entries.iter().map(|(field, value)| (field.as_bytes(), value.as_bytes())).collect()
    }

    fn written() -> WrittenOperatorState {
        let maps = vec![(0, map(&[("b", "2"), ("", ""), ("a", "1")])), (2, map(&[]))];
        write_broadcast("enrich", 41, &states(), &maps).unwrap()
    }

    #[test]
    fn it_comes_back_under_the_names_of_its_states() {
        let WrittenOperatorState { bytes, subtask, epoch, elements } = written();
        assert_eq!((subtask, epoch, elements), (None, 41, 3));
        assert!(BroadcastReader::begins(&bytes) && !super::super::OperatorStateReader::begins(&bytes));
        let reader = BroadcastReader::open("x", &bytes).unwrap();
        assert_eq!((reader.operator.as_str(), reader.epoch), ("enrich", 41));
        assert_eq!(reader.maps.iter().map(|(state, _)| state.clone()).collect::<Vec<_>>(), [states()[0].clone(), states()[2].clone()]);
        // In another order, with another beside them, and without one.
        let places = |states: &[StateDescriptor]| -> Vec<(usize, usize, u128)> {
            let maps = reader.clone().maps(states);
            maps.iter().map(|(place, map)| (*place, map.len(), map.digest())).collect()
        };
        let digest = map(&[("a", "1"), ("", ""), ("b", "2")]).digest();
        let [rates, n, names] = states().try_into().unwrap();
        assert_eq!(places(&[names, n, rates.clone()]), [(2, 3, digest), (0, 0, 0)]);
        assert_eq!(places(&[rates]), [(0, 3, digest)]);
    }

    #[test]
    fn damage_is_noticed_wherever_it_is() {
        let whole = written().bytes;
        for at in 0..whole.len() {
            assert_eq!(BroadcastReader::open("x", &whole[..at]).unwrap_err().kind(), Kind::Checkpoint, "cut at {at}");
            let mut damaged = whole.to_vec();
            damaged[at] ^= 0x10;
            assert!(BroadcastReader::open("x", &damaged).is_err(), "flipped at {at}");
        }
        let longer = [&whole[..], b"x"].concat();
        assert!(BroadcastReader::open("x", &longer).unwrap_err().message().contains("1 bytes follow"));
    }

    #[test]
    fn what_does_not_hold_together_is_refused() {
        let opened = |more: &[(&str, &str)], fields: &[&str]| {
            let entries = fields.iter().map(|field| WireEntry { field: field.as_bytes(), value: b"" }).collect();
            let more = more.iter().map(|&(name, value)| (name.into(), value.into())).collect();
            let map = WireMap { name: "rates", schema: "text", version: 1, more, entries };
            let mut bytes = Vec::new();
            FILE.encode(&Wire { operator: "enrich", epoch: 41, maps: vec![map] }, &mut bytes).unwrap();
            BroadcastReader::open("x", &bytes).map(|reader| reader.maps[0].1.len()).map_err(|error| error.message().to_owned())
        };
        let more = [("field-schema", "text")];
        assert_eq!(opened(&more, &["a", "b"]), Ok(2));
        for fields in [["b", "a"], ["a", "a"]] {
            assert!(opened(&more, &fields).unwrap_err().contains("the fields of state `rates` are out of order"));
        }
        assert!(opened(&[], &["a"]).unwrap_err().contains("state `rates`: kind `broadcast` needs a `field-schema`"));
    }
}
