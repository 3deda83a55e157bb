//! [`AggregatingState`]: one value per key, made of everything that was added to it, which may be of another type.

use super::cache::Cache;
use super::{Declared, Handle, StateDescriptor};
use crate::codec::Value;
use crate::scope::Scope;

/// How an [`AggregatingState`] makes one value of many: inputs are added to an accumulator, which the host keeps, and from which the
/// result is told. The three may be of three types.
///
/// ```
/// use cofferdam_sdk::prelude::*;
/// use cofferdam_sdk::testing::{Harness, keyed};
///
/// /// The mean of whole numbers.
/// struct Mean;
///
/// impl Aggregate for Mean {
///     type Input = i64;
///     type Accumulator = (i64, u32);
///     type Output = f64;
///
///     fn begin() -> (i64, u32) {
///         (0, 0)
///     }
///
///     fn add((sum, count): &mut (i64, u32), number: i64) {
///         *sum += number;
///         *count += 1;
///     }
///
///     fn result(&(sum, count): &(i64, u32)) -> f64 {
///         sum as f64 / f64::from(count)
///     }
/// }
///
/// #[operator(key = String)]
/// struct Means {
///     mean: AggregatingState<Mean>,
/// }
///
/// #[operator]
/// impl Means {
///     #[input]
///     fn numbers(&mut self, number: i64, out: &mut Output<f64>) -> Result<()> {
///         self.mean.add(number);
///         out.emit(self.mean.get().unwrap_or_default());
///         Ok(())
///     }
/// }
///
/// # fn main() {
/// let mut means = Harness::<Means>::new();
/// let out = means.process([keyed("a", 1), keyed("b", 5), keyed("a", 2)]).unwrap();
/// assert_eq!(out.values(), [1.0, 5.0, 1.5]);
/// # }
/// ```
pub trait Aggregate: 'static {
    /// What is added.
    type Input;

    /// What the host keeps.
    type Accumulator: Value + Clone;

    /// What is told.
    type Output;

    /// An accumulator to which nothing was added.
    fn begin() -> Self::Accumulator;

    /// Adds one input.
    fn add(accumulator: &mut Self::Accumulator, input: Self::Input);

    /// What all that was added makes.
    fn result(accumulator: &Self::Accumulator) -> Self::Output;
}

/// One accumulator for each key, kept by the host, to which inputs are added in the way that `A` says. Its methods work on the current
/// key's.
#[derive(Debug)]
pub struct AggregatingState<A: Aggregate>(Cache<A::Accumulator>);

impl<A: Aggregate> AggregatingState<A> {
    /// Adds one input.
    ///
    /// # Panics
    /// If the host's bytes are no such accumulator: the type was changed, and the state's version with it should have been.
    #[inline]
    pub fn add(&mut self, input: A::Input) {
        self.0.update(|old| {
            let mut accumulator = old.unwrap_or_else(A::begin);
            A::add(&mut accumulator, input);
            (accumulator, ())
        });
    }

    /// What all that was added makes, if anything was.
    ///
    /// # Panics
    /// As [`add`](Self::add).
    #[inline]
    pub fn get(&mut self) -> Option<A::Output> {
        self.0.get().map(A::result)
    }

    /// Forgets what was added.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

impl<A: Aggregate> Handle for AggregatingState<A> {
    type Kept = A::Accumulator;

    fn describe(declared: Declared) -> StateDescriptor {
        declared.describe("aggregating", <A::Accumulator as crate::schema::Schema>::schema())
    }

    fn attach(scope: &Scope, index: u32, declared: Declared) -> Self {
        AggregatingState(Cache::new(scope, index, declared))
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
