//! [`ValueState`]: one value per key.

use super::cache::Cache;
use super::{Declared, Handle, StateDescriptor};
use crate::codec::Value;
use crate::scope::Scope;

/// One value for each key, kept by the host. What its methods read and write is the value of the current key: the key of the record
/// at hand, or the one that `finish` is at.
#[derive(Debug)]
pub struct ValueState<T>(Cache<T>);

impl<T: Value> ValueState<T> {
    /// The value, if there is one.
    ///
    /// # Panics
    /// If the host's bytes are no `T`: the type was changed, and the state's version with it should have been.
    #[inline]
    pub fn get(&mut self) -> Option<T>
    where
        T: Clone,
    {
        self.0.get().cloned()
    }

    /// The value in place, if there is one; saves the copy that [`get`](Self::get) makes.
    ///
    /// # Panics
    /// As `get`.
    #[inline]
    pub fn get_ref(&mut self) -> Option<&T> {
        self.0.get()
    }

    /// Replaces the value.
    #[inline]
    pub fn set(&mut self, value: T) {
        self.0.set(value);
    }

    /// Changes the value in place, from the default on where there is none, and gives back what `change` does.
    ///
    /// # Panics
    /// As `get`.
    #[inline]
    pub fn update<R>(&mut self, change: impl FnOnce(&mut T) -> R) -> R
    where
        T: Default + Clone,
    {
        self.0.update(|old| {
            let mut value = old.unwrap_or_default();
            let result = change(&mut value);
            (value, result)
        })
    }

    /// Removes the value.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

impl<T: Value> Handle for ValueState<T> {
    type Kept = T;

    fn describe(declared: Declared) -> StateDescriptor {
        declared.describe("value", T::schema())
    }

    fn attach(scope: &Scope, index: u32, declared: Declared) -> Self {
        ValueState(Cache::new(scope, index, declared))
    }

    #[inline]
    fn undo(&mut self) {
        self.0.undo();
    }

    fn write_back(&mut self) {
        self.0.write_back();
    }

    fn forget(&mut self) {
        self.0.forget();
    }
}
