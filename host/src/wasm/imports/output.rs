//! `output`: what an operator sends on goes from its memory straight into the outbox of the port.

use wasmtime::StoreContextMut;
use wasmtime::component::{Linker, WasmList, WasmStr};

use crate::wasm::failure::{Misuse, Rejected, one_line};
use crate::wasm::guest::{Guest, Phase, check_column, check_len};
use crate::wasm::wire::{ColumnOut, EmitKeys};

type Store<'a> = StoreContextMut<'a, Guest>;

const EMIT: &str = "output.emit";

pub(super) fn add_to_linker(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    let mut interface = linker.instance("cofferdam:operator/output@0.1.0")?;
    interface.func_wrap("emit", emit)?;
    interface.func_wrap("reject", reject)
}

fn emit(store: Store<'_>, (port, keys, values, timestamps): (u32, EmitKeys, ColumnOut, WasmList<i64>)) -> wasmtime::Result<()> {
    let guest = store.data();
    // A fresh instance is opened again after every failure: what `open` emits would go out more than once.
    guest.allow_in(&[Phase::Process, Phase::Finish], EMIT)?;
    let declared = guest.output_port(port)?;
    let (ends, bytes) = (values.ends.as_le_slice(&store), values.bytes.as_le_slice(&store));
    check_column("`values`", ends, bytes, EMIT)?;
    let timestamps = timestamps.as_le_slice(&store);
    if !timestamps.is_empty() {
        check_len("`timestamps`", timestamps.len(), ends.len(), EMIT)?;
    }
    guest.count_emitted(bytes.len() + 16 * ends.len())?;
    let mut outputs = guest.outputs.borrow_mut();
    let outbox = outputs.get_mut(port as usize).ok_or_else(|| Misuse(format!("{EMIT}: nothing takes output {port}")))?;
    match keys {
        EmitKeys::None if declared.keyed => {
            return Err(Misuse(format!("{EMIT}: output `{}` is keyed, but the records carry no keys", declared.name)).into());
        }
        EmitKeys::Known(_) | EmitKeys::Fresh(_) if !declared.keyed => {
            return Err(Misuse(format!("{EMIT}: output `{}` is not keyed, but the records carry keys", declared.name)).into());
        }
        EmitKeys::None => outbox.emit(ends, bytes, timestamps),
        EmitKeys::Known(key_of) => {
            let key_of = key_of.as_le_slice(&store);
            check_len("`known`", key_of.len(), ends.len(), EMIT)?;
            guest.check_keys(key_of, EMIT)?;
            guest.count_emitted(key_of.iter().map(|&key| guest.call.keys.get(key as usize).len()).sum())?;
            outbox.emit_known(&guest.call, key_of, ends, bytes, timestamps);
        }
        EmitKeys::Fresh(keys) => {
            let (key_ends, key_bytes) = (keys.ends.as_le_slice(&store), keys.bytes.as_le_slice(&store));
            check_column("`fresh`", key_ends, key_bytes, EMIT)?;
            check_len("`fresh`", key_ends.len(), ends.len(), EMIT)?;
            guest.count_emitted(key_bytes.len())?;
            outbox.emit_fresh(key_ends, key_bytes, ends, bytes, timestamps);
        }
    }
    Ok(())
}

fn reject(mut store: Store<'_>, (record, message): (u32, WasmStr)) -> wasmtime::Result<()> {
    const NAME: &str = "output.reject";
    let guest = store.data();
    guest.allow_in(&[Phase::Process], NAME)?;
    let (record, records) = (record as usize, guest.call.len());
    if record >= records {
        return Err(Misuse(format!("{NAME}: record {record} is beyond the {records} records of this call")).into());
    }
    let message = one_line(&message.to_str(&store)?);
    let guest = store.data_mut();
    if !guest.rejected_records.insert(record) {
        return Err(Misuse(format!("{NAME}: record {record} was rejected twice")).into());
    }
    guest.rejected.push(Rejected { record, message });
    Ok(())
}
