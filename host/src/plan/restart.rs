//! [`Restart`]: what follows when an attempt of a job fails. Names and defaults are Flink's.

use std::time::Duration;

/// `[job.restart]`: what follows when an attempt fails.
#[derive(Clone, Debug, PartialEq)]
pub enum Restart {
    /// The job fails.
    None,
    /// Another attempt, up to a number of them.
    FixedDelay {
        /// How many.
        attempts: u64,
        /// The delay before each attempt.
        delay: Duration,
    },
    /// Another attempt after a delay that grows from failure to failure.
    ExponentialDelay {
        /// The first delay.
        initial: Duration,
        /// The longest.
        max: Duration,
        /// What the delay grows by with each failure.
        multiplier: f64,
        /// The part of a delay by which it is longer or shorter at random, so that jobs that failed together don't begin together.
        jitter: f64,
        /// After an attempt has run for this time, the delay is the first one again.
        reset: Duration,
        /// Attempts since it was the first one; none: without end.
        attempts: Option<u64>,
    },
    /// Another attempt, as long as failures are rare.
    FailureRate {
        /// How many failures there may be within `interval`.
        failures: u64,
        /// The time within which failures are counted.
        interval: Duration,
        /// The delay before each attempt.
        delay: Duration,
    },
}

impl Default for Restart {
    fn default() -> Self {
        Restart::ExponentialDelay {
            initial: Duration::from_secs(1),
            max: Duration::from_secs(60),
            multiplier: 1.5,
            jitter: 0.1,
            reset: Duration::from_secs(3600),
            attempts: None,
        }
    }
}
