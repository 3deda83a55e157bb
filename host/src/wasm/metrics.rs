//! [`GuestMetrics`]: counters and gauges of the guests' own, kept per subtask, whatever instance of its component works for it. What a call
//! counts holds when the call succeeds.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes that a name may have.
const NAME_BYTES: usize = 100;

/// The counters and gauges of one subtask.
#[derive(Debug, Default)]
pub struct GuestMetrics {
    book: Mutex<Book>,
    kinds: Arc<Kinds>,
}

/// The value of a counter or gauge.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reading {
    /// What has been added up.
    Counter(u64),
    /// What was set last.
    Gauge(f64),
}

/// The names that an operator's subtasks use, each with the component that does, since another one may mean something else by it: which are
/// counters, and how many subtasks use each.
#[derive(Debug, Default)]
struct Kinds(Mutex<HashMap<Use, (bool, usize)>>);

/// A component, by its digest, and a name under which it counts.
type Use = (Arc<str>, Arc<str>);

#[derive(Debug, Default)]
struct Book {
    /// The component that counts, by its digest.
    component: Arc<str>,
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

impl Kinds {
    /// A component in a subtask begins to use a name. Returns whether it is of the kind that it has on others.
    fn take(&self, component: &Arc<str>, name: &Arc<str>, is_counter: bool) -> bool {
        let mut kinds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (known, subtasks) = kinds.entry((Arc::clone(component), Arc::clone(name))).or_insert((is_counter, 0));
        *subtasks += usize::from(*known == is_counter);
        *known == is_counter
    }

    /// A subtask uses a name no more, or has never used it, since the call that began to has failed.
    fn give_back(&self, component: &Arc<str>, name: Arc<str>) {
        let mut kinds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Entry::Occupied(mut used) = kinds.entry((Arc::clone(component), name)) {
            let (_, subtasks) = used.get_mut();
            *subtasks -= 1;
            if *subtasks == 0 {
                used.remove();
            }
        }
    }
}

impl GuestMetrics {
    /// Those of another subtask of the operator, where no name may be of another kind than here.
    pub fn of_another_subtask(&self) -> Self {
        GuestMetrics { book: Mutex::default(), kinds: Arc::clone(&self.kinds) }
    }

    /// A component takes the subtask over, told by its digest: what was counted before it is forgotten, with the names.
    pub fn begin(&self, component: &str) {
        let before = std::mem::replace(&mut *self.book(), Book { component: component.into(), ..Book::default() });
        before.metrics.into_iter().for_each(|metric| self.kinds.give_back(&before.component, metric.name));
    }

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
            None => book.add(name, by, limit, &self.kinds)?,
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
        let Book { component, places, metrics, settled, changed } = &mut *book;
        for place in changed.drain(..) {
            let metric = &mut metrics[place];
            match (metric.pending.take(), &mut metric.reading) {
                (Some(Reading::Counter(by)), Reading::Counter(sum)) if succeeded => *sum = sum.saturating_add(by),
                (Some(gauge), reading) if succeeded => *reading = gauge,
                _ => (),
            }
        }
        if !succeeded {
            metrics.drain(*settled..).for_each(|metric| self.kinds.give_back(component, metric.name));
            places.retain(|_, place| *place < *settled);
        }
        *settled = metrics.len();
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Book {
    /// A new metric of the kind of `first`, which is not counted yet. Returns its place.
    fn add(&mut self, name: &str, first: Reading, limit: u64, kinds: &Kinds) -> Result<usize, Uncounted> {
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
        let is_counter = matches!(first, Reading::Counter(_));
        if !kinds.take(&self.component, &name, is_counter) {
            return Err(Uncounted::Misuse(format!("`{name}` is a {} on another subtask", if is_counter { "gauge" } else { "counter" })));
        }
        let reading = if is_counter { Reading::Counter(0) } else { first };
        self.metrics.push(Metric { name: Arc::clone(&name), reading, pending: None });
        self.places.insert(name, place);
        Ok(place)
    }
}
