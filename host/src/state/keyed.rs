//! Interface being implemented.
use crate::record::{Batch, Column};
use crate::plan::StateDescriptor;
/// One cell per asked-for slot.
#[derive(Clone, Debug, Default)]
pub struct Cells { /// 0 or 1 per slot
    pub present: Vec<u8>, /// empty where absent
    pub values: Column }
/// All keyed state of one subtask of one operator.
#[derive(Debug)]
pub struct KeyedState {}
impl KeyedState {
    /// Empty state. `states` in the order of the descriptor: the `state` arguments below index it.
    pub fn new(_states: &[StateDescriptor], _max_parallelism: u16) -> Self { todo!() }
    /// Values for keys `which` of `call`, appended to `cells`. State index, kind and key indices were checked by the caller (here and below).
    pub fn get(&self, _state: usize, _call: &Batch, _which: &[u32], _cells: &mut Cells) { todo!() }
    /// Replaces values; the column was checked.
    pub fn put(&mut self, _state: usize, _call: &Batch, _which: &[u32], _value_ends: &[u32], _value_bytes: &[u8]) { todo!() }
    /// Removes.
    pub fn clear(&mut self, _state: usize, _call: &Batch, _which: &[u32]) { todo!() }
    /// Appends an element to the list of each key in `which`.
    pub fn list_append(&mut self, _state: usize, _call: &Batch, _which: &[u32], _value_ends: &[u32], _value_bytes: &[u8]) { todo!() }
    /// Replaces one list.
    pub fn list_replace(&mut self, _state: usize, _call: &Batch, _key: u32, _value_ends: &[u32], _value_bytes: &[u8]) { todo!() }
    /// Elements from `start` on, up to `max_bytes` but at least one, appended to `out`.
    pub fn list_read(&self, _state: usize, _call: &Batch, _key: u32, _start: u32, _max_bytes: u32, _out: &mut Column) { todo!() }
    /// The call succeeded: what it wrote stays.
    pub fn commit(&mut self) { todo!() }
    /// The call failed: undoes everything written since the last commit or undo.
    pub fn undo(&mut self) { todo!() }
}
