//! [`GuestMetrics`]: counters and gauges of the guests' own, kept per subtask, whatever instance works for it. What a call counts
//! holds when the call succeeds.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes that a name may have.
const NAME_BYTES: usize = 100;

/// The counters and gauges of one subtask.
#[derive(Debug, Default)]
pub struct GuestMetrics(Mutex<Book>);

/// The value of a counter or gauge.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reading {
    /// What has been added up.
    Counter(u64),
    /// What was set last.
    Gauge(f64),
}

#[derive(Debug, Default)]
struct Book {
    places: HashMap<Arc<str>, usize>,
    metrics: Vec<Metric>,
    /// How many metrics there were before the call at hand.
    settled: usize,
    /// Metrics that the call at hand has changed.
    changed: Vec<usize>,
}

#[derive(Debug)]
struct Metric {
    name: Arc<str>,
    reading: Reading,
    /// What the call at hand has added to a counter, or has set a gauge to.
    pending: Option<Reading>,
}

/// Why something can't be counted.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Uncounted {
    /// In words.
    Misuse(String),
    /// There are as many names as there may be.
    TooManyNames,
}

impl GuestMetrics {
    /// All that calls have counted, by name, in the order in which the names came up.
    pub fn readings(&self) -> Vec<(Arc<str>, Reading)> {
        let book = self.book();
        book.metrics[..book.settled].iter().map(|metric| (Arc::clone(&metric.name), metric.reading)).collect()
    }

    /// Adds to a counter, or sets a gauge, until the call at hand [is settled](GuestMetrics::settle). There may be `limit` names.
    pub(super) fn change(&self, name: &str, by: Reading, limit: u64) -> Result<(), Uncounted> {
        let mut book = self.book();
        let place = match book.places.get(name) {
            Some(&place) => place,
            None => book.add(name, by, limit)?,
        };
        let metric = &mut book.metrics[place];
        let before = metric.pending;
        metric.pending = Some(match (metric.reading, by) {
            (Reading::Counter(_), Reading::Counter(by)) => match before {
                Some(Reading::Counter(before)) => Reading::Counter(before.saturating_add(by)),
                _ => Reading::Counter(by),
            },
            (Reading::Gauge(_), Reading::Gauge(value)) => Reading::Gauge(value),
            (Reading::Counter(_), Reading::Gauge(_)) => return Err(Uncounted::Misuse(format!("`{name}` is a counter"))),
            (Reading::Gauge(_), Reading::Counter(_)) => return Err(Uncounted::Misuse(format!("`{name}` is a gauge"))),
        });
        if before.is_none() {
            book.changed.push(place);
        }
        Ok(())
    }

    /// Keeps what the call at hand has changed, or forgets it.
    pub(super) fn settle(&self, succeeded: bool) {
        let mut book = self.book();
        let Book { places, metrics, settled, changed } = &mut *book;
        for place in changed.drain(..) {
            let metric = &mut metrics[place];
            match (metric.pending.take(), &mut metric.reading) {
                (Some(Reading::Counter(by)), Reading::Counter(sum)) if succeeded => *sum = sum.saturating_add(by),
                (Some(gauge), reading) if succeeded => *reading = gauge,
                _ => (),
            }
        }
        if !succeeded {
            metrics.truncate(*settled);
            places.retain(|_, place| *place < *settled);
        }
        *settled = metrics.len();
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Book {
    /// A new metric of the kind of `first`, which is not counted yet. Returns its place.
    fn add(&mut self, name: &str, first: Reading, limit: u64) -> Result<usize, Uncounted> {
        let fits = (1..=NAME_BYTES).contains(&name.len()) && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c));
        if !fits {
            let shown: String = name.chars().take(NAME_BYTES).flat_map(char::escape_debug).collect();
            let rule = format!("letters, digits, `_`, `-` and `.`, 1 to {NAME_BYTES} of them");
            return Err(Uncounted::Misuse(format!("`{shown}` is no name of a metric: {rule}")));
        }
        if self.metrics.len() as u64 >= limit {
            return Err(Uncounted::TooManyNames);
        }
        let (name, place) = (Arc::<str>::from(name), self.metrics.len());
        let reading = if let Reading::Counter(_) = first { Reading::Counter(0) } else { first };
        self.metrics.push(Metric { name: Arc::clone(&name), reading, pending: None });
        self.places.insert(name, place);
        Ok(place)
    }
}
