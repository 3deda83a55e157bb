//! Records as lines of text, for the sinks that write them so.

use std::io::{Result, Write};

use crate::record::Column;

/// Writes each value and a line feed; returns the number of bytes. A value is written as it is: one that holds a line feed reads as
/// several lines afterwards, since quoting it would change every consumer of plain text.
pub(super) fn write_lines(out: &mut impl Write, values: &Column) -> Result<u64> {
    for value in values.iter() {
        out.write_all(value)?;
        out.write_all(b"\n")?;
    }
    Ok(values.bytes.len() as u64 + values.len() as u64)
}
