//! [`Outbox`]: what an output port has emitted in one call.

use super::Batch;
/// x
#[derive(Clone, Copy, Debug, Default)]
pub struct Shape {
    /// Whether someone takes the records as they are, without keys.
    pub plain: bool,
    /// For exchanges by key: (parallelism, max_parallelism).
    pub keyed: Option<(u16, u16)>,
}
/// x
#[derive(Debug)]
pub struct Outbox {}
impl Outbox {
    /// For a port whose records are needed in `shape`.
    pub fn new(_shape: Shape) -> Self { todo!() }
    /// Records without keys.
    pub fn emit(&mut self, _value_ends: &[u32], _value_bytes: &[u8], _timestamps: &[i64]) { todo!() }
    /// Records with keys of `call` (the batch or key set at hand), by index; indices were checked.
    pub fn emit_known(&mut self, _call: &Batch, _key_of: &[u32], _value_ends: &[u32], _value_bytes: &[u8], _timestamps: &[i64]) { todo!() }
    /// Records with keys of their own; columns were checked and have one entry per record each.
    pub fn emit_fresh(&mut self, _key_ends: &[u32], _key_bytes: &[u8], _value_ends: &[u32], _value_bytes: &[u8], _timestamps: &[i64]) { todo!() }
    /// Forgets everything emitted since the last drain.
    pub fn discard(&mut self) { todo!() }
}
