//! The log: lines on standard error, for people, about what the host does. What a command prints for its user is not the log.

mod jobs;

use std::io;
use std::str::FromStr;

use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

pub use jobs::{JobLine, job_span};

/// Targets of the host's own lines and of those that operators write.
const OWN_TARGETS: [&str; 2] = ["cofferdam", "guest"];

/// Which lines are logged. Read from text: a level (`debug`), or directives by target (`warn,guest=debug,cofferdam::job=trace`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter(String);

impl FromStr for Filter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // An environment variable that is set to nothing is as good as not set.
        if text.is_empty() {
            return Ok(Filter::level(LevelFilter::WARN));
        }
        if let Ok(level) = LevelFilter::from_str(text) {
            return Ok(Filter::level(level));
        }
        // Taken alone, a word that is no level would be a target, and a typo would go unnoticed.
        let known = |part: &str| part.contains('=') || (!part.is_empty() && LevelFilter::from_str(part).is_ok());
        if let Some(unknown) = text.split(',').map(str::trim).find(|part| !known(part)) {
            return Err(format!("`{unknown}` is no level: off, error, warn, info, debug, trace, or TARGET=LEVEL"));
        }
        EnvFilter::try_new(text).map_err(|error| error.to_string())?;
        Ok(Filter(text.into()))
    }
}

impl Filter {
    /// A level above `warn` is meant for the host and its guests, not for every library under them.
    fn level(level: LevelFilter) -> Self {
        let own = OWN_TARGETS.map(|target| format!("{target}={level}"));
        Filter(format!("{},{}", level.min(LevelFilter::WARN), own.join(",")))
    }
}

/// Begins to log into what `writer` opens, with colours or without; lines that are about a job of a host go to `take` as well, if there is
/// one. Done once per process: a later call changes nothing.
pub fn init<W: io::Write>(
    filter: &Filter,
    colours: bool,
    writer: impl Fn() -> W + Send + Sync + 'static,
    take: Option<impl Fn(JobLine) + Send + Sync + 'static>,
) {
    // The text was parsed when the filter was made.
    let filter = EnvFilter::new(&filter.0);
    let log = tracing_subscriber::fmt::layer().with_ansi(colours).with_writer(writer).with_filter(filter);
    // An error says that there is a log already.
    tracing_subscriber::registry().with(log).with(take.map(jobs::layer)).try_init().ok();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_for_the_host_and_its_guests() {
        assert_eq!("debug".parse(), Ok(Filter("warn,cofferdam=debug,guest=debug".into())));
        assert_eq!("".parse::<Filter>(), "warn".parse());
        assert_eq!("off".parse(), Ok(Filter("off,cofferdam=off,guest=off".into())));
        assert_eq!("guest=info,error".parse(), Ok(Filter("guest=info,error".into())));
    }

    #[test]
    fn a_typo_is_no_filter() {
        for text in ["debgu", "warn,guest=verbose", "guest", ","] {
            assert!(text.parse::<Filter>().is_err(), "{text:?}");
        }
    }
}
