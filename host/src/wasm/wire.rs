//! The shapes of `wit/operator.wit` as wasmtime moves them: columns are borrowed on their way into a guest, read in place in its
//! memory on their way out, and replies keep their buffers from call to call.

use wasmtime::component::{ComponentType, Lift, Lower, WasmList};

use crate::record::{Batch, Column};
use crate::state::Cells;

/// A column on its way into a guest.
#[derive(Clone, Copy, ComponentType, Lower)]
#[component(record)]
pub(super) struct ColumnIn<'a> {
    ends: &'a [u32],
    bytes: &'a [u8],
}

impl<'a> ColumnIn<'a> {
    pub(super) fn new(column: &'a Column) -> Self {
        ColumnIn { ends: &column.ends, bytes: &column.bytes }
    }
}

/// A batch on its way into a guest.
#[derive(Clone, Copy, ComponentType, Lower)]
#[component(record)]
pub(super) struct BatchIn<'a> {
    keys: ColumnIn<'a>,
    #[component(name = "key-of")]
    key_of: &'a [u32],
    values: ColumnIn<'a>,
    timestamps: &'a [i64],
}

impl<'a> BatchIn<'a> {
    pub(super) fn new(batch: &'a Batch) -> Self {
        BatchIn {
            keys: ColumnIn::new(&batch.keys),
            key_of: &batch.key_of,
            values: ColumnIn::new(&batch.values),
            timestamps: &batch.timestamps,
        }
    }
}

/// A column in a guest's memory.
#[derive(ComponentType, Lift)]
#[component(record)]
pub(super) struct ColumnOut {
    pub(super) ends: WasmList<u32>,
    pub(super) bytes: WasmList<u8>,
}

/// A column that a guest's function returns: copied, because the guest's memory is freed before it could be read.
#[derive(ComponentType, Lift)]
#[component(record)]
pub(super) struct ColumnReturned {
    pub(super) ends: Vec<u32>,
    pub(super) bytes: Vec<u8>,
}

/// `output.emit-keys` in a guest's memory.
#[derive(ComponentType, Lift)]
#[component(variant)]
pub(super) enum EmitKeys {
    #[component(name = "none")]
    None,
    #[component(name = "known")]
    Known(WasmList<u32>),
    #[component(name = "fresh")]
    Fresh(ColumnOut),
}

/// A column as a reply, shared with wasmtime while it copies it into the guest.
#[derive(Clone, Default, ComponentType, Lower)]
#[component(record)]
pub(super) struct ColumnReply {
    ends: Vec<u32>,
    bytes: Vec<u8>,
}

/// `records.cells` as a reply.
#[derive(Clone, Default, ComponentType, Lower)]
#[component(record)]
pub(super) struct CellsReply {
    present: Vec<u8>,
    values: ColumnReply,
}

/// Buffers above this size are not kept for the next reply.
const KEPT_BYTES: usize = 1 << 20;

/// The buffer of a reply for the next one.
pub(super) fn emptied(mut buffer: Vec<u8>) -> Vec<u8> {
    if buffer.capacity() > KEPT_BYTES {
        return Vec::new();
    }
    buffer.clear();
    buffer
}

impl ColumnReply {
    /// Takes the buffers out, emptied.
    fn take(&mut self) -> Column {
        let mut column = Column { ends: std::mem::take(&mut self.ends), bytes: std::mem::take(&mut self.bytes) };
        if column.bytes.capacity() + column.ends.capacity() * 4 > KEPT_BYTES {
            return Column::default();
        }
        column.clear();
        column
    }

    fn put(&mut self, column: Column) {
        (self.ends, self.bytes) = (column.ends, column.bytes);
    }

    /// Has `fill` write the reply into the buffers of the one before.
    pub(super) fn refill<E>(&mut self, fill: impl FnOnce(&mut Column) -> Result<(), E>) -> Result<(), E> {
        let mut column = self.take();
        let filled = fill(&mut column);
        self.put(column);
        filled
    }
}

impl CellsReply {
    /// Has `fill` write the reply into the buffers of the one before.
    pub(super) fn refill<E>(&mut self, fill: impl FnOnce(&mut Cells) -> Result<(), E>) -> Result<(), E> {
        let mut cells = Cells { present: emptied(std::mem::take(&mut self.present)), values: self.values.take() };
        let filled = fill(&mut cells);
        self.present = cells.present;
        self.values.put(cells.values);
        filled
    }
}

/// `descriptor.port`.
#[derive(ComponentType, Lift)]
#[component(record)]
pub(super) struct Port {
    pub(super) name: String,
    pub(super) partitioning: String,
    #[component(name = "key-schema")]
    pub(super) key_schema: String,
    #[component(name = "value-schema")]
    pub(super) value_schema: String,
    pub(super) more: Vec<(String, String)>,
}

/// `descriptor.state`.
#[derive(ComponentType, Lift)]
#[component(record)]
pub(super) struct State {
    pub(super) name: String,
    pub(super) kind: String,
    pub(super) schema: String,
    pub(super) version: u32,
    pub(super) more: Vec<(String, String)>,
}

/// `descriptor.operator-descriptor`.
#[derive(ComponentType, Lift)]
#[component(record)]
pub(super) struct OperatorDescriptor {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) inputs: Vec<Port>,
    pub(super) outputs: Vec<Port>,
    pub(super) states: Vec<State>,
    #[component(name = "more")]
    _more: Vec<(String, String)>,
}
