//! How an operator becomes a component: the one instance that a component holds, and the macro that exports its functions.

use std::cell::RefCell;
use std::panic::PanicHookInfo;

use crate::backend::Backend;
use crate::bindings::operator::cofferdam::operator::runtime;
use crate::column::{Batch, Column};
use crate::migration::migrate;
use crate::operator::{Instance, Operator};
use crate::scope;

/// A component's instance, once it is open. Boxed, because the compiler computes the address of what lies in a static again at every
/// access.
pub struct Slot<O: Operator>(RefCell<Option<Box<Instance<O>>>>);

impl<O: Operator> Default for Slot<O> {
    fn default() -> Self {
        Slot::new()
    }
}

impl<O: Operator> Slot<O> {
    /// None yet.
    pub const fn new() -> Self {
        Slot(RefCell::new(None))
    }

    /// Builds and opens the operator.
    ///
    /// # Errors
    /// Why its `open` failed.
    pub fn open(&self) -> Result<(), String> {
        std::panic::set_hook(Box::new(tell_host));
        let instance = Instance::open(Backend).map_err(|error| error.to_string())?;
        *self.0.borrow_mut() = Some(Box::new(instance));
        Ok(())
    }

    /// Works on a batch.
    ///
    /// # Errors
    /// If the operator is not open.
    pub fn process(&self, port: u32, batch: &Batch) -> Result<(), String> {
        self.with(|instance| {
            instance.process(port, batch);
            Ok(())
        })
    }

    /// Ends the operator's work for some keys.
    ///
    /// # Errors
    /// Why its `finish` failed.
    pub fn finish(&self, keys: &Column) -> Result<(), String> {
        self.with(|instance| instance.finish(keys).map_err(|error| error.to_string()))
    }

    /// Rewrites values of a state that another version has written.
    ///
    /// # Errors
    /// Why it can't.
    pub fn migrate(&self, state: u32, version: u32, schema: &str, values: &Column) -> Result<Column, String> {
        // It need not be open for that.
        std::panic::set_hook(Box::new(tell_host));
        migrate::<O>(state, version, schema, values).map_err(|error| error.to_string())
    }

    /// Saves what the operator keeps in memory.
    ///
    /// # Errors
    /// Why its `snapshot` failed.
    pub fn snapshot(&self, checkpoint: u64) -> Result<(), String> {
        self.with(|instance| instance.snapshot(checkpoint).map_err(|error| error.to_string()))
    }

    /// Tells the operator of a commit.
    pub fn checkpoint_complete(&self, checkpoint: u64) {
        // The host tells nobody that is not open.
        let _ = self.with(|instance| {
            instance.checkpoint_complete(checkpoint);
            Ok(())
        });
    }

    /// Tells the operator of a checkpoint that is given up.
    pub fn checkpoint_aborted(&self, checkpoint: u64) {
        // The host tells nobody that is not open.
        let _ = self.with(|instance| {
            instance.checkpoint_aborted(checkpoint);
            Ok(())
        });
    }

    /// Closes the operator.
    pub fn close(&self) {
        // The host closes nothing that is not open.
        let _ = self.with(|instance| {
            instance.close();
            Ok(())
        });
    }

    #[inline]
    fn with(&self, work: impl FnOnce(&mut Instance<O>) -> Result<(), String>) -> Result<(), String> {
        match &mut *self.0.borrow_mut() {
            Some(instance) => work(instance),
            None => Err("the operator was not opened".into()),
        }
    }
}

/// A panic ends in a trap, which has no message: so this tells the host beforehand.
fn tell_host(info: &PanicHookInfo<'_>) {
    let message = info.payload_as_str().unwrap_or("a panic without a message");
    let message = match info.location() {
        Some(place) => format!("{message} ({}:{})", place.file(), place.line()),
        None => message.to_owned(),
    };
    runtime::panicked(scope::record(), &message);
}
