//! For tests: passes numbers on, but at one of them it does to the host what it must not, past the SDK. It counts the numbers that it
//! passes on.

use cofferdam_sdk::bindings::operator::cofferdam::operator::{keyed_state, output, runtime};
use cofferdam_sdk::bindings::records::Column;
use cofferdam_sdk::prelude::*;
use serde::Deserialize;

/// The operator. Its states have the numbers 0 and 1.
#[operator(key = String)]
pub struct Misuse {
    _value: ValueState<u64>,
    _list: ListState<u64>,
    config: Option<Config>,
}

/// `config` in the job file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    /// The bad number.
    on: u64,
    how: How,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum How {
    /// Emits a column whose ends fall.
    Offsets,
    /// Emits on an output that it does not have.
    Port,
    /// Rejects a record that there is not.
    Record,
    /// Reads a state that it does not have.
    State,
    /// Reads the value of a key that there is not.
    Key,
    /// Emits without end.
    Emit,
    /// Writes without end.
    Write,
    /// Asks for a page of a list that is as large as can be.
    Read,
    /// Counts under ever more names.
    Count,
    /// Counts under a name with a blank.
    Name,
    /// Counts under the name of a gauge.
    Mix,
    /// Logs ten thousand lines, and then passes the number on.
    Log,
}

#[operator]
impl Misuse {
    #[open]
    fn open(&mut self, context: &Context) -> Result<()> {
        self.config = Some(context.config()?);
        Ok(())
    }

    #[input]
    fn numbers(&mut self, number: u64, meta: &Meta<String>, out: &mut Output<String>) -> Result<()> {
        // Before it fails, so that a test sees whether that is taken back.
        out.emit(format_args!("{},{number}", meta.key()));
        runtime::count("numbers", 1);
        runtime::gauge("subtask.last", number as f64);
        match &self.config {
            Some(Config { on, how }) if number == *on => misuse(*how),
            _ => Ok(()),
        }
    }
}

fn misuse(how: How) -> Result<()> {
    let text = |len: u32| Column { ends: vec![len], bytes: vec![b'x'; len as usize] };
    match how {
        How::Offsets => output::emit(0, &output::EmitKeys::None, &Column { ends: vec![2, 1], bytes: vec![b'x'; 1] }, &[]),
        How::Port => output::emit(7, &output::EmitKeys::None, &text(1), &[]),
        How::Record => output::reject(u32::MAX, "there is no such record"),
        How::State => drop(keyed_state::get(7, &[0])),
        How::Key => drop(keyed_state::get(0, &[u32::MAX])),
        How::Emit => loop {
            output::emit(0, &output::EmitKeys::Known(vec![0]), &text(1 << 16), &[]);
        },
        How::Write => loop {
            keyed_state::put(0, &[0], &text(1 << 16));
        },
        How::Read => drop(keyed_state::list_read(1, 0, 0, u32::MAX)),
        How::Count => (0..u64::MAX).for_each(|number| runtime::count(&format!("name-{number}"), 1)),
        How::Name => runtime::count("two words", 1),
        How::Mix => runtime::count("subtask.last", 1),
        How::Log => (0..10_000).for_each(|number| runtime::log(4, &format!("line {number}"))),
    }
    Ok(())
}
