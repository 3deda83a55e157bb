//! [`ReducingState`]: one value per key, made of everything that was added to it.

use std::marker::PhantomData;
use std::ops::AddAssign;

use super::cache::Cache;
use super::{Declared, Handle, StateDescriptor};
use crate::codec::Value;
use crate::scope::Scope;

/// How a [`ReducingState<T>`] combines two values. A type of your own says it for itself (`impl Reduce for Stats`) or a marker says
/// it for the type ([`Sum`], [`Min`], [`Max`], or one of yours).
#[diagnostic::on_unimplemented(
    message = "`{Self}` doesn't say how to combine two values of `{T}`",
    note = "implement `Reduce` for the type, or name a way: `ReducingState<{T}, Sum>`"
)]
pub trait Reduce<T = Self> {
    /// Combines `value` into `into`.
    fn reduce(into: &mut T, value: T);
}

/// Adds values up.
#[derive(Debug)]
pub struct Sum;

impl<T: AddAssign> Reduce<T> for Sum {
    #[inline]
    fn reduce(into: &mut T, value: T) {
        *into += value;
    }
}

/// Keeps the smallest value.
#[derive(Debug)]
pub struct Min;

impl<T: Ord> Reduce<T> for Min {
    #[inline]
    fn reduce(into: &mut T, value: T) {
        if value < *into {
            *into = value;
        }
    }
}

/// Keeps the largest value.
#[derive(Debug)]
pub struct Max;

impl<T: Ord> Reduce<T> for Max {
    #[inline]
    fn reduce(into: &mut T, value: T) {
        if value > *into {
            *into = value;
        }
    }
}

/// One value for each key, kept by the host and combined from all that were added, in the way that `R` says. Its methods work on the
/// current key's value.
#[derive(Debug)]
pub struct ReducingState<T, R = T> {
    cache: Cache<T>,
    reduce: PhantomData<fn() -> R>,
}

impl<T: Value + Clone, R: Reduce<T>> ReducingState<T, R> {
    /// Combines `value` into what there is.
    ///
    /// # Panics
    /// If the host's bytes are no `T`: the type was changed, and the state's version with it should have been.
    #[inline]
    pub fn add(&mut self, value: T) {
        self.cache.update(|old| match old {
            None => (value, ()),
            Some(mut into) => {
                R::reduce(&mut into, value);
                (into, ())
            }
        });
    }

    /// What all added values make, if there were any.
    ///
    /// # Panics
    /// As [`add`](Self::add).
    #[inline]
    pub fn get(&mut self) -> Option<T> {
        self.cache.get().cloned()
    }

    /// Forgets what was added.
    pub fn clear(&mut self) {
        self.cache.clear();
    }
}

impl<T: Value + Clone, R: Reduce<T>> Handle for ReducingState<T, R> {
    type Kept = T;

    fn describe(declared: Declared) -> StateDescriptor {
        declared.describe("reducing", T::schema())
    }

    fn attach(scope: &Scope, index: u32, declared: Declared) -> Self {
        ReducingState { cache: Cache::new(scope, index, declared), reduce: PhantomData }
    }

    #[inline]
    fn undo(&mut self) {
        self.cache.undo();
    }

    fn write_back(&mut self) {
        self.cache.write_back();
    }

    fn forget(&mut self) {
        self.cache.forget();
    }
}
