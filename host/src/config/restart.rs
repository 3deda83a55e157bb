//! `[job.restart]`.

use std::time::Duration;

use toml::Spanned;

use super::section::{Section, one_of};
use super::setting::{AtLeast, Decimal, Setting, Time};
use crate::plan::Restart;

/// A strategy by its name, and what reads the settings that go with it.
type Strategy = (&'static str, fn(&mut Section<'_>) -> Restart);

const STRATEGIES: [Strategy; 4] =
    [("none", |_| Restart::None), ("fixed-delay", fixed_delay), ("exponential-delay", exponential_delay), ("failure-rate", failure_rate)];

/// The strategy of a job; `default` if there is none, or a faulty one, which was noted.
pub(super) fn read(job: &mut Section<'_>, default: &Restart) -> Restart {
    let Some(mut section) = job.section("restart") else { return default.clone() };
    section.require("strategy", one_of("strategy", &STRATEGIES));
    let restart = match section.choice("strategy", &STRATEGIES) {
        Some(read) => read(&mut section),
        None => {
            section.allow_any_key();
            default.clone()
        }
    };
    section.finish();
    restart
}

fn fixed_delay(section: &mut Section<'_>) -> Restart {
    let attempts = value::<AtLeast<1>>(section, "attempts").map_or(1, |attempts| attempts.0);
    Restart::FixedDelay { attempts, delay: time(section, "delay").unwrap_or(Duration::from_secs(1)) }
}

fn exponential_delay(section: &mut Section<'_>) -> Restart {
    let Restart::ExponentialDelay { initial, max, multiplier, jitter, reset, .. } = Restart::default() else {
        return Restart::default();
    };
    Restart::ExponentialDelay {
        initial: time(section, "initial-backoff").unwrap_or(initial),
        max: time(section, "max-backoff").unwrap_or(max),
        multiplier: value::<Decimal<1, 1000>>(section, "backoff-multiplier").map_or(multiplier, |multiplier| multiplier.0),
        jitter: value::<Decimal<0, 1>>(section, "jitter-factor").map_or(jitter, |jitter| jitter.0),
        reset: time(section, "reset-backoff-threshold").unwrap_or(reset),
        attempts: value::<AtLeast<1>>(section, "attempts-before-reset-backoff").map(|attempts| attempts.0),
    }
}

fn failure_rate(section: &mut Section<'_>) -> Restart {
    Restart::FailureRate {
        failures: value::<AtLeast<1>>(section, "max-failures-per-interval").map_or(1, |failures| failures.0),
        interval: time(section, "failure-rate-interval").unwrap_or(Duration::from_secs(60)),
        delay: time(section, "delay").unwrap_or(Duration::from_secs(1)),
    }
}

fn value<T: Setting>(section: &mut Section<'_>, key: &'static str) -> Option<T> {
    section.optional::<T>(key).map(Spanned::into_inner)
}

fn time(section: &mut Section<'_>, key: &'static str) -> Option<Duration> {
    value::<Time>(section, key).map(|time| time.0)
}
