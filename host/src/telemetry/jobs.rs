//! Lines of the log that are about a job of a host, handed to whoever keeps them by job. A line is about a job when it is written within
//! the span that [`job_span`] makes.

use std::fmt;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Level, Span, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use super::OWN_TARGETS;

/// A line that is about a job.
#[derive(Clone, Debug)]
pub struct JobLine {
    /// The job.
    pub job: String,
    /// How important it is.
    pub level: Level,
    /// The operator that wrote it; none: the host.
    pub operator: Option<String>,
    /// The operator's subtask.
    pub subtask: Option<u64>,
    /// What it says.
    pub text: String,
}

const SPAN: &str = "job";

/// The span of everything that is done for a job.
pub fn job_span(name: &str) -> Span {
    // Of a level at which no filter but `off` leaves it out.
    tracing::error_span!(SPAN, name)
}

/// Hands lines of level `info` and above to `take`.
pub(super) fn layer<S>(take: impl Fn(JobLine) + Send + Sync + 'static) -> impl Layer<S>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let targets = OWN_TARGETS.map(|target| (target, LevelFilter::INFO));
    JobLines(take).with_filter(Targets::new().with_targets(targets))
}

struct JobLines<T>(T);

/// What a span is about.
struct JobName(String);

impl<S, T> Layer<S> for JobLines<T>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    T: Fn(JobLine) + Send + Sync + 'static,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if let (SPAN, Some(span)) = (attributes.metadata().name(), context.span(id)) {
            let mut fields = Fields::default();
            attributes.record(&mut fields);
            span.extensions_mut().insert(JobName(fields.name));
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut scope = context.event_scope(event).into_iter().flatten();
        let Some(job) = scope.find_map(|span| span.extensions().get::<JobName>().map(|JobName(name)| name.clone())) else { return };
        let mut fields = Fields::default();
        event.record(&mut fields);
        let Fields { operator, subtask, text, more, .. } = fields;
        (self.0)(JobLine { job, level: *event.metadata().level(), operator, subtask, text: text + &more });
    }
}

#[derive(Default)]
struct Fields {
    name: String,
    operator: Option<String>,
    subtask: Option<u64>,
    text: String,
    more: String,
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "name" => self.name = value.into(),
            "operator" => self.operator = Some(value.into()),
            _ => self.record_debug(field, &value),
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        match field.name() {
            "subtask" => self.subtask = Some(value),
            _ => self.record_debug(field, &value),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => self.text = format!("{value:?}"),
            "operator" => self.operator = Some(format!("{value:?}")),
            name => self.more += &format!(" {name}={value:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    #[test]
    fn lines_within_the_span_of_a_job_are_handed_over_and_no_others() {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let taken = Arc::clone(&lines);
        let subscriber = tracing_subscriber::registry().with(layer(move |line| taken.lock().unwrap().push(line)));
        tracing::subscriber::with_default(subscriber, || {
            tracing::error!("about no job");
            let span = job_span("delays");
            span.in_scope(|| {
                tracing::info!(target: "guest", operator = "parse", subtask = 3_u16, "hello {}", 1);
                tracing::warn!(checkpoint = 7, "it is {}", "late");
                tracing::debug!("of no importance");
                tracing::error!(target: "wasmtime", "of someone else");
            });
        });
        let told = |line: &JobLine| (line.job.clone(), line.level, line.operator.clone(), line.subtask, line.text.clone());
        let expected = [
            ("delays".into(), Level::INFO, Some("parse".into()), Some(3), "hello 1".into()),
            ("delays".into(), Level::WARN, None, None, "it is late checkpoint=7".into()),
        ];
        assert_eq!(lines.lock().unwrap().iter().map(told).collect::<Vec<_>>(), expected);
    }
}
