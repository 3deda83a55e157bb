//! Write stream operators for [Cofferdam](https://docs.rs/cofferdam) in Rust.
//!
//! An operator is a struct whose state lives in the host, and a method that takes a record. This one counts words; records with the
//! same key, here the word, reach the same instance and share state:
//!
//! ```
//! use cofferdam_sdk::prelude::*;
//!
//! #[operator(key = String)]
//! struct Count {
//!     n: ValueState<u64>,
//! }
//!
//! #[operator]
//! impl Count {
//!     #[input]
//!     fn words(&mut self, _: (), out: &mut Output<u64>) -> Result<()> {
//!         let n = self.n.get().unwrap_or(0) + 1;
//!         self.n.set(n);
//!         out.emit(n);
//!         Ok(())
//!     }
//! }
//!
//! # fn main() {
//! // The same code runs natively over state in memory, so a unit test needs no host.
//! use cofferdam_sdk::testing::{Harness, keyed};
//!
//! let mut count = Harness::<Count>::new();
//! let out = count.process([keyed("a", ()), keyed("b", ()), keyed("a", ())]).unwrap();
//! assert_eq!(out.values(), [1, 1, 2]);
//! # }
//! ```
//!
//! Built as a `cdylib` for `wasm32-wasip2`, the crate is a component that a job file names; the macros export it.
//!
//! # The struct
//!
//! `#[operator]` on a struct makes it an operator's. Fields that are states, [`ValueState`], [`ListState`], [`MapState`],
//! [`ReducingState`] and [`AggregatingState`], are kept by the host under the field's name, a value for each key. All other fields are
//! made with `Default` and are caches: they are lost whenever the instance is replaced, and what a failing record did to them is not
//! undone. (With a `#[snapshot]` method they are more than that: see below.)
//!
//! [`OperatorListState`] and [`UnionListState`] belong to no key but to the subtask: to one of the operator's instances that run side
//! by side. They are for what an instance knows as a whole, are there in every method, and are spread anew when the number of subtasks
//! changes. [`BroadcastState`] belongs to no key either: it is a map that all of them have alike, filled from a broadcast input.
//!
//! * `#[operator(key = K)]`: records have the key `K`, and state is kept per key. Without it there is neither.
//! * `#[operator(name = "…", version = "…")]`: for people; the crate's name and version unless given.
//! * `#[state(name = "…")]` on a field: the state's name, if it is not the field's. `#[state(version = 2)]`: its version, to be raised
//!   with every change of its type. `#[state(version = 2, migrate(1 => FUNCTION))]`: what makes values of version 1 into those of this
//!   one; see below.
//! * `#[state(ttl = "10m")]`: its values live for ten minutes from when they were last written: of a list each element, of a map each
//!   field's value. `#[state(ttl = "10m", ttl_from = "access")]`: from when they were last written or read. What has expired is not
//!   there any more, and the host removes it from memory and from checkpoints by and by. How long values live may be changed at any
//!   time, but not whether they live for ever: that is another state, with another name.
//!
//! # Time to live
//!
//! Values expire by the wall clock of the machine, read once when a call begins, so that a batch sees one time. The time when a value
//! was last written stays with it in checkpoints: a job that was down for longer than values live begins without them. If the clock
//! goes backwards, values live longer by as much; one that had expired is seen again, if the host has not removed it yet. In tests
//! [`Harness::set_processing_time`](testing::Harness::set_processing_time) is the clock.
//!
//! Where reading counts (`ttl_from = "access"`), a read is a write, also for the size of checkpoints; a list is then written whole. It
//! counts even if its record is rejected in the end, and iterators read up to 64 KiB ahead. The values of such a state are not fetched
//! for all keys of a batch at once, so reading costs a call to the host for each key.
//!
//! # The methods
//!
//! `#[operator]` on its `impl` finds the methods by their marks. All but the last three return [`Result<()>`](Result).
//!
//! * `#[input] fn NAME(&mut self, value: V, meta: &Meta<K>, out: &mut Output<W>)`: called for each record. `V` is what records carry:
//!   `&str` and `&[u8]` are borrowed from the batch, other types are read from it. `meta` has the key and the event time; it can be
//!   left out, and so can `out`, which is an [`Output`] or a [`KeyedOutput`]. `NAME` is the name of the port. There may be several such
//!   methods, with several outputs each: see below.
//! * `#[open] fn NAME(&mut self, context: &Context)`: called once before the first record, to read the `config`.
//! * `#[finish] fn NAME(&mut self, meta: &Meta<K>, out: &mut Output<W>)`: called when all input has ended, once for each key that has
//!   state; of an operator that is not keyed, once. Here too, `meta` and `out` can be left out.
//! * `#[snapshot] fn NAME(&mut self, checkpoint: u64)`: called at each barrier, before the state is frozen, to put into operator state
//!   what the operator keeps in its fields; `open` takes it out again. What a failed batch did to fields can't be undone, so an operator
//!   with this method can only have `on-error = "fail"`. If it returns an error, what it has put into state is undone and the checkpoint
//!   fails, as one does that can't be stored; the operator goes on, so its fields must still hold all that is to be saved.
//! * `#[checkpoint_complete] fn NAME(&mut self, checkpoint: u64)`: a checkpoint is committed, and the job never goes back behind it.
//! * `#[checkpoint_aborted] fn NAME(&mut self, checkpoint: u64)`: a checkpoint is given up, because it took too long or could not be
//!   stored. Its snapshot is part of the next one that is committed. Called after the barrier of the checkpoint.
//! * `#[close] fn NAME(&mut self)`: the subtask ends, at the end of its input, at a stop or because the job has failed. Not called when
//!   the process is killed, nor of an instance that has panicked.
//!
//! # Several inputs and outputs
//!
//! Each method marked `#[input]` is an input. All have the operator's key, if it has one, and share its state. Each parameter that is an
//! [`Output`] or a [`KeyedOutput`] is an output of the parameter's name, and the same one wherever that name comes again, also in
//! `finish`. The one named `out` is the first, else the one that comes first. This operator puts the names of items to what is sold of
//! them:
//!
//! ```
//! use cofferdam_sdk::prelude::*;
//!
//! #[operator(key = String)]
//! struct Sales {
//!     names: BroadcastState<String, String>,
//!     sold: ReducingState<u64, Sum>,
//! }
//!
//! #[operator]
//! impl Sales {
//!     #[input(broadcast)]
//!     fn items(&mut self, line: &str) -> Result<()> {
//!         let Some((item, name)) = line.split_once(',') else { bail!("no comma in {line:?}") };
//!         self.names.insert(item, name.to_owned());
//!         Ok(())
//!     }
//!
//!     #[input(waits_for = "items")]
//!     fn sales(&mut self, count: u64, meta: &Meta<String>, out: &mut Output<String>, unknown: &mut Output<u64>) -> Result<()> {
//!         self.sold.add(count);
//!         match self.names.get_ref(meta.key()) {
//!             Some(name) => out.emit(format_args!("{name}: {}", self.sold.get().unwrap_or(0))),
//!             None => {
//!                 metrics::count("unknown", 1);
//!                 unknown.emit(count);
//!             }
//!         }
//!         Ok(())
//!     }
//! }
//!
//! # fn main() {
//! use cofferdam_sdk::testing::{Harness, keyed, value};
//!
//! let mut sales = Harness::<Sales>::new();
//! sales.broadcast::<String>("items", ["7,bread", "8,milk"].map(value)).unwrap();
//! let sent = sales.process_on::<u64>("sales", [keyed("7", 2), keyed("9", 1), keyed("7", 1)]).unwrap();
//! assert_eq!(sent.values(), ["bread: 2", "bread: 3"]);
//! assert_eq!(sent.side::<String, u64>("unknown"), [keyed("9".to_owned(), 1)]);
//! assert_eq!(sales.counter("unknown"), 1);
//! # }
//! ```
//!
//! A job file says what feeds which input, and takes an output by its name; without one it means the first:
//!
//! ```toml
//! [[operator]]
//! uid = "sales"
//! component = "sales.wasm"
//! inputs = { items = ["items"], sales = ["tills"] }
//!
//! [[operator]]
//! uid = "review"
//! component = "review.wasm"
//! inputs = ["sales.unknown"]
//! ```
//!
//! * `#[input(name = "…")]`: the port's name, if it is not the method's.
//! * `#[input(broadcast)]`: every subtask gets every record, all in the same order. There is no key: `meta` is a `&Meta`, state that is
//!   kept per key can't be used, and what is sent on goes through a [`KeyedOutput`] if the operator has keys; each subtask
//!   sends it, and counts it. An error here fails the job, whatever its settings say.
//! * `#[input(waits_for = "…")]`: the broadcast input of this name is worked off to its end before the first record comes here.
//!
//! An [`Output`] keeps the key of the record at hand, so on a broadcast input of an operator with keys it isn't compiled:
//!
//! ```compile_fail
//! # use cofferdam_sdk::prelude::*;
//! # #[operator(key = String)]
//! # struct Sales;
//! #[operator]
//! impl Sales {
//!     #[input(broadcast)]
//!     fn items(&mut self, line: &str, out: &mut Output<String>) -> Result<()> {
//! #       out.emit(line);
//! #       Ok(())
//! #   }
//! # }
//! ```
//!
//! # State of a subtask
//!
//! This operator counts for each key, and for each subtask how many records have passed through it. The sum over all keys and the sum
//! over all subtasks agree at every checkpoint, through crashes and changes of the parallelism:
//!
//! ```
//! use cofferdam_sdk::prelude::*;
//!
//! #[operator(key = String)]
//! struct Counts {
//!     of_key: ReducingState<u64, Sum>,
//!     of_subtask: OperatorListState<u64>,
//! }
//!
//! #[operator]
//! impl Counts {
//!     #[input]
//!     fn words(&mut self, _: ()) -> Result<()> {
//!         self.of_key.add(1);
//!         // After a restart with fewer subtasks there are the counts of several.
//!         let before: u64 = self.of_subtask.get().iter().sum();
//!         self.of_subtask.replace([before + 1]);
//!         Ok(())
//!     }
//! }
//!
//! # fn main() {
//! use cofferdam_sdk::testing::{Harness, Snapshot, keyed};
//!
//! let mut one = Harness::<Counts>::new();
//! one.process([keyed("a", ()), keyed("b", ()), keyed("a", ())]).unwrap();
//! assert_eq!(one.operator_list::<u64>("of_subtask"), [3]);
//!
//! // As after a restart with two subtasks, where key `a` belongs to the first and `b` to the second.
//! let parts = Snapshot::spread(&[one.snapshot()], 2, |key| usize::from(key == b"b"));
//! let mut two = Harness::<Counts>::new();
//! two.restore(&parts[1]);
//! assert_eq!(two.value::<u64>("of_key", "b"), Some(1));
//! assert!(two.operator_list::<u64>("of_subtask").is_empty());
//! # }
//! ```
//!
//! It could as well count in a field, which is faster: add up the list in `#[open]`, and `replace` it in `#[snapshot]`.
//!
//! # When a state's type changes
//!
//! A job that goes on with a newer version of the operator compares each state in the checkpoint with the operator's, before anything is
//! touched. Where only optional fields were added to structs, however deep within lists, maps, tuples, options and enums, or fields put
//! into another order, values are rewritten without any code, from one version to the next: what was added is `None`. Any other change of
//! values, or one over several versions, needs a function from the old
//! type to the new one, a value at a time (of a list an element, of a map a field's value, of aggregating state an accumulator). What
//! has no way is refused, and the checkpoint can still be restored with the component that wrote it.
//!
//! ```
//! use cofferdam_sdk::prelude::*;
//!
//! /// As version 1 had it.
//! #[record]
//! struct StatsV1 {
//!     flights: u64,
//!     minutes: String,
//! }
//!
//! #[record]
//! #[derive(Clone, Default)]
//! struct Stats {
//!     flights: u64,
//!     delay: i64,
//! }
//!
//! // May give a `Result<Stats>` as well: an error then refuses the restore.
//! fn from_v1(old: StatsV1) -> Result<Stats> {
//!     Ok(Stats { flights: old.flights, delay: old.minutes.parse()? })
//! }
//!
//! #[operator(key = String)]
//! struct Delays {
//!     #[state(version = 2, migrate(1 => from_v1))]
//!     stats: ValueState<Stats>,
//! }
//!
//! #[operator]
//! impl Delays {
//!     #[input]
//!     fn flights(&mut self, delay: i64) -> Result<()> {
//!         self.stats.update(|stats| stats.delay += delay);
//!         Ok(())
//!     }
//! }
//! # #[operator(key = String)]
//! # struct DelaysV1 {
//! #     stats: ValueState<StatsV1>,
//! # }
//! # #[operator]
//! # impl DelaysV1 {
//! #     #[input]
//! #     fn flights(&mut self, delay: i64) -> Result<()> {
//! #         self.stats.set(StatsV1 { flights: 1, minutes: delay.to_string() });
//! #         Ok(())
//! #     }
//! # }
//!
//! # fn main() {
//! use cofferdam_sdk::testing::{Harness, keyed};
//!
//! // The harness migrates as the host does, here from `DelaysV1`, the operator as it was.
//! let mut old = Harness::<DelaysV1>::new();
//! old.process([keyed("AA", 12)]).unwrap();
//! let mut new = Harness::<Delays>::new();
//! new.restore(&old.snapshot());
//! assert_eq!(new.value::<Stats>("stats", "AA").map(|stats| stats.delay), Some(12));
//! # }
//! ```
//!
//! The old type is the one that the function takes. Its schema has to be that of the checkpoint, but for optional fields that were added
//! while the version stayed the same. There may be one function for each other version, a closure too, and also for a higher one:
//! `migrate(1 => from_v1, 3 => back_from_v3)` in version 2 is the way back.
//! Where the version was raised and the type is the same, the meaning must have changed, so that needs a function as well. The kind of a
//! state, its key, a map's fields, and whether values expire can't be migrated: that is another state, with another name. Nor can a state
//! that a checkpoint has be taken away or renamed.
//!
//! A function for migration does nothing but that: it must not log or count, as there is no job around it. The schema of
//! [`Json<T>`](Json) is always `json`, whatever `T` is: raise the version by hand when it changes, and give a function.
//!
//! # When something is wrong
//!
//! A method that returns an error rejects its record: what the record did to state and output is undone, the others go on, and the
//! job's settings say what becomes of it; but on a broadcast input the job fails, since the subtasks' copies of broadcast state would
//! come to differ. A panic ends the instance; the host undoes the whole batch.
//!
//! [`log`] writes into the host's log, and [`metrics`] counts.
//!
//! # Types
//!
//! Values are what serde can write and what has a [`Schema`]: numbers, text, options, lists, maps, tuples, and your own types by
//! [`#[record]`](macro@record). They travel as postcard, except text and bytes, which travel as they are.

// The macros name the crate from outside.
extern crate self as cofferdam_sdk;

mod backend;
#[doc(hidden)]
pub mod bindings;
mod codec;
mod column;
mod context;
mod error;
#[cfg(target_family = "wasm")]
#[doc(hidden)]
pub mod export;
mod input;
mod key;
mod log;
pub mod metrics;
mod migration;
mod operator;
mod output;
mod schema;
mod scope;
mod state;
#[cfg(not(target_family = "wasm"))]
pub mod testing;

pub use codec::{Decode, Encode, EncodeAs, Json, Malformed, Value};
/// Makes a struct or an enum a type of records and of state: derives serde's `Serialize` and `Deserialize`, and [`Schema`].
///
/// ```
/// use cofferdam_sdk::prelude::*;
///
/// #[record]
/// #[derive(Clone, Default)]
/// struct Stats {
///     flights: u64,
///     delay: Option<i64>,
/// }
///
/// assert_eq!(Stats::schema(), "postcard:{flights:u64,delay:option<i64>}");
/// ```
///
/// Attributes of serde that change how a value is laid out are refused, because postcard couldn't read it back:
///
/// ```compile_fail
/// # use cofferdam_sdk::prelude::*;
/// #[record]
/// struct Stats {
///     #[serde(skip_serializing_if = "Option::is_none")]
///     delay: Option<i64>,
/// }
/// ```
pub use cofferdam_sdk_macros::record;
pub use cofferdam_sdk_macros::{Schema, operator};
pub use context::{Context, Meta};
pub use error::{Error, Result};
pub use key::{AsKey, Key, NoKey, SameKey};
pub use log::{Level, log};
pub use migration::MigratedTo;
pub use output::{KeyedOutput, Output};
pub use schema::{Schema, Structure};
pub use serde;
pub use state::{Aggregate, AggregatingState, ListIter, ListState, MapIter, MapState, Max, Min, Reduce, ReducingState, Sum, ValueState};
pub use state::{BroadcastState, OperatorListState, UnionListState};

/// What an operator's file imports.
pub mod prelude {
    pub use crate::{
        Aggregate, AggregatingState, BroadcastState, Context, Json, KeyedOutput, ListState, MapState, Max, Meta, Min, OperatorListState,
        Output, Reduce, ReducingState, Result, Schema, Sum, UnionListState, ValueState, bail, metrics, operator, record,
    };
}

/// What the macros' code names.
#[doc(hidden)]
pub mod private {
    pub use crate::codec::{read_postcard, write_postcard};
    pub use crate::input::{InputPort, input};
    pub use crate::migration::Migration;
    pub use crate::operator::{Fields, Operator, describe};
    pub use crate::output::sends_without_key;
    pub use crate::scope::Scope;
    pub use crate::state::{Declared, Handle, StateDescriptor, Ttl};
}

/// Exports an operator as the component that its crate is, with its hooks. Written by `#[operator]`.
#[doc(hidden)]
#[macro_export]
macro_rules! __export {
    ($operator:ident, [$($hook:ident),*]) => {
        #[cfg(target_family = "wasm")]
        #[allow(unsafe_code, reason = "exports are no_mangle functions")]
        const _: () = {
            ::std::thread_local! {
                static INSTANCE: $crate::export::Slot<$operator> = const { $crate::export::Slot::new() };
            }

            struct Component;

            impl $crate::bindings::operator::exports::cofferdam::operator::operator::Guest for Component {
                fn describe() -> $crate::bindings::descriptor::OperatorDescriptor {
                    $crate::private::describe::<$operator>()
                }

                fn open() -> ::core::result::Result<(), ::std::string::String> {
                    INSTANCE.with(|instance| instance.open())
                }

                fn process(port: u32, records: $crate::bindings::records::Batch) -> ::core::result::Result<(), ::std::string::String> {
                    INSTANCE.with(|instance| instance.process(port, &records))
                }
            }

    $crate::bindings::operator::export_operator!(Component with_types_in $crate::bindings::operator);
            $($crate::__export_hook!($hook, Component);)*
        };
    };
}

/// Exports one of the hooks.
#[doc(hidden)]
#[macro_export]
macro_rules! __export_hook {
    (finish, $component:ident) => {
        impl $crate::bindings::finish_hook::exports::cofferdam::operator::finish_hook::Guest for $component {
            fn finish(keys: $crate::bindings::records::Column) -> ::core::result::Result<(), ::std::string::String> {
                INSTANCE.with(|instance| instance.finish(&keys))
            }
        }

        $crate::bindings::finish_hook::export_finish_hook!($component with_types_in $crate::bindings::finish_hook);
    };
    (migration, $component:ident) => {
        impl $crate::bindings::migration::exports::cofferdam::operator::migration::Guest for $component {
            fn migrate(
                state: u32,
                from_version: u32,
                from_schema: ::std::string::String,
                values: $crate::bindings::records::Column,
            ) -> ::core::result::Result<$crate::bindings::records::Column, ::std::string::String> {
                INSTANCE.with(|instance| instance.migrate(state, from_version, &from_schema, &values))
            }
        }

        $crate::bindings::migration::export_migration!($component with_types_in $crate::bindings::migration);
    };
    (snapshot, $component:ident) => {
        impl $crate::bindings::snapshot_hook::exports::cofferdam::operator::snapshot_hook::Guest for $component {
            fn snapshot(checkpoint: u64) -> ::core::result::Result<(), ::std::string::String> {
                INSTANCE.with(|instance| instance.snapshot(checkpoint))
            }
        }

        $crate::bindings::snapshot_hook::export_snapshot_hook!($component with_types_in $crate::bindings::snapshot_hook);
    };
    (checkpoint_complete, $component:ident) => {
        impl $crate::bindings::checkpoint_hooks::exports::cofferdam::operator::checkpoint_hooks::Guest for $component {
            fn checkpoint_complete(checkpoint: u64) {
                INSTANCE.with(|instance| instance.checkpoint_complete(checkpoint));
            }
        }

        $crate::bindings::checkpoint_hooks::export_checkpoint_hooks!($component with_types_in $crate::bindings::checkpoint_hooks);
    };
    (checkpoint_aborted, $component:ident) => {
        impl $crate::bindings::checkpoint_aborted_hook::exports::cofferdam::operator::checkpoint_aborted_hook::Guest for $component {
            fn checkpoint_aborted(checkpoint: u64) {
                INSTANCE.with(|instance| instance.checkpoint_aborted(checkpoint));
            }
        }

        $crate::bindings::checkpoint_aborted_hook::export_checkpoint_aborted_hook!(
            $component with_types_in $crate::bindings::checkpoint_aborted_hook
        );
    };
    (close, $component:ident) => {
        impl $crate::bindings::close_hook::exports::cofferdam::operator::close_hook::Guest for $component {
            fn close() {
                INSTANCE.with(|instance| instance.close());
            }
        }

        $crate::bindings::close_hook::export_close_hook!($component with_types_in $crate::bindings::close_hook);
    };
}
