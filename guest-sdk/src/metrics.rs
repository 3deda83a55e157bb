//! Counters and gauges: what an operator tells of itself in numbers, which the host adds up and shows with its own.
//!
//! They work in every method. Counting costs a few nanoseconds: what a call does is told to the host when it ends, and each metric that has
//! changed once. What a record did that is rejected is undone, and a call that fails has counted nothing.
//!
//! ```
//! use cofferdam_sdk::prelude::*;
//! use cofferdam_sdk::testing::{Harness, value};
//!
//! #[operator]
//! struct Lines;
//!
//! #[operator]
//! impl Lines {
//!     #[input]
//!     fn lines(&mut self, line: &str, out: &mut Output<String>) -> Result<()> {
//!         if line.is_empty() {
//!             metrics::count("empty", 1);
//!             return Ok(());
//!         }
//!         metrics::gauge("length", line.len() as f64);
//!         out.emit(line);
//!         Ok(())
//!     }
//! }
//!
//! # fn main() {
//! let mut lines = Harness::<Lines>::new();
//! lines.process(["a", "", "bcd", ""].map(value)).unwrap();
//! assert_eq!((lines.counter("empty"), lines.gauge("length")), (2, Some(3.0)));
//! # }
//! ```

use std::cell::RefCell;

use crate::backend::Backend;
use crate::scope;

/// Adds to a counter. The host keeps few metrics for an operator, so names are written down and not made up from data. A name has up to
/// 100 letters, digits, `_`, `-` and `.`, and is not a gauge's as well.
///
/// # Panics
/// If it can't be a name.
pub fn count(metric: &'static str, by: u64) {
    METRICS.with_borrow_mut(|metrics| change(&mut metrics.counters, metric, Backend::count, |sum| sum.unwrap_or(0).saturating_add(by)));
}

/// Sets a gauge. Names are as those of counters.
///
/// # Panics
/// If it can't be a name.
pub fn gauge(metric: &'static str, value: f64) {
    METRICS.with_borrow_mut(|metrics| change(&mut metrics.gauges, metric, Backend::gauge, |_| value));
}

thread_local! {
    /// What the call at hand has done. Not in an instance, so that whatever an operator calls can count.
    static METRICS: RefCell<Metrics> = const { RefCell::new(Metrics { counters: Vec::new(), gauges: Vec::new() }) };
}

struct Metrics {
    counters: Vec<Metric<u64>>,
    gauges: Vec<Metric<f64>>,
}

struct Metric<T> {
    name: &'static str,
    /// How the host is told. Kept here, so that a component imports this function only if its operator has such metrics.
    tell: fn(&Backend, &str, T),
    /// What the call has made of it; none: nothing.
    now: Option<T>,
    /// What it was before the record by which it was changed last, and which that was.
    before: Option<T>,
    record: Option<u32>,
}

#[inline]
fn change<T: Copy>(metrics: &mut Vec<Metric<T>>, name: &'static str, tell: fn(&Backend, &str, T), new: impl FnOnce(Option<T>) -> T) {
    // Few, and mostly named at one place, so that the first comparison tells.
    let found = metrics.iter().position(|metric| std::ptr::eq(metric.name, name) || metric.name == name);
    let index = found.unwrap_or_else(|| {
        let fits = (1..=100).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte));
        assert!(fits, "`{}` can't be the name of a metric", name.escape_debug());
        metrics.push(Metric { name, tell, now: None, before: None, record: None });
        metrics.len() - 1
    });
    let metric = &mut metrics[index];
    let record = scope::record();
    if metric.record != record {
        metric.before = metric.now;
        metric.record = record;
    }
    metric.now = Some(new(metric.now));
}

impl<T: Copy> Metric<T> {
    fn undo(&mut self) {
        if self.record == scope::record() {
            self.now = self.before;
        }
    }

    fn forget(&mut self) {
        (self.now, self.before, self.record) = (None, None, None);
    }

    fn send(&mut self, host: &Backend) {
        if let Some(value) = self.now {
            (self.tell)(host, self.name, value);
        }
        self.forget();
    }
}

/// Undoes what the record at hand has done.
pub(crate) fn undo() {
    METRICS.with_borrow_mut(|Metrics { counters, gauges }| {
        counters.iter_mut().for_each(Metric::undo);
        gauges.iter_mut().for_each(Metric::undo);
    });
}

/// The call has succeeded: tells the host.
pub(crate) fn send(host: &Backend) {
    METRICS.with_borrow_mut(|Metrics { counters, gauges }| {
        counters.iter_mut().for_each(|counter| counter.send(host));
        gauges.iter_mut().for_each(|gauge| gauge.send(host));
    });
}

/// The call has failed.
pub(crate) fn forget() {
    METRICS.with_borrow_mut(|Metrics { counters, gauges }| {
        counters.iter_mut().for_each(Metric::forget);
        gauges.iter_mut().for_each(Metric::forget);
    });
}
