//! What a job of a host has gone through: its events, its log, its checkpoints.

use super::args::{HostArgs, JobArgs, LogsArgs, Output};
use super::client::{Client, pause};
use super::remote::{has_ended, path};
use super::text::table;
use super::{console, json};
use crate::api::{Events, LogLines};
use crate::error::Result;
use crate::job::Listing;
use crate::service::{Entry, JobDetails, LogLine};

pub(super) fn events(args: &JobArgs, output: Output) -> Result<u8> {
    let events: Events = Client::new(&args.host)?.get(&format!("{}/events", path(&args.job)))?;
    match output {
        Output::Json => console::print(&json(&events)?)?,
        Output::Text => {
            let rows = events.events.into_iter().map(|entry| vec![entry.time, entry.what.event.name().into(), entry.what.text]);
            console::print(&table(&["time", "event", "what"], rows.collect(), &[]))?;
        }
    }
    Ok(0)
}

/// The last lines, and with `-f` what comes, until the job has ended. With `--output json` each is a line of JSON then.
pub(super) fn logs(args: &LogsArgs, output: Output) -> Result<u8> {
    let client = Client::new(&args.job.host)?;
    let (job, log) = (path(&args.job.job), format!("{}/logs", path(&args.job.job)));
    let mut read: LogLines = client.get(&format!("{log}?limit={}", args.lines))?;
    if !args.follow && output == Output::Json {
        console::print(&json(&read)?)?;
        return Ok(0);
    }
    let mut next = 1;
    loop {
        for entry in &read.lines {
            next = entry.number + 1;
            console::print(&if output == Output::Json { json(entry)? } else { render(entry) })?;
        }
        if !args.follow {
            return Ok(0);
        }
        // In this order: what was written before the end is still to be read.
        let ended = read.lines.is_empty() && has_ended(&client.get::<JobDetails>(&job)?);
        read = client.get(&format!("{log}?from={next}"))?;
        if ended && read.lines.is_empty() {
            return Ok(0);
        }
        if read.lines.is_empty() {
            pause();
        }
    }
}

fn render(entry: &Entry<LogLine>) -> String {
    let LogLine { level, operator, subtask, text } = &entry.what;
    let origin = match (operator, subtask) {
        (Some(operator), Some(subtask)) => format!("{operator}/{subtask}: "),
        (Some(operator), None) => format!("{operator}: "),
        _ => String::new(),
    };
    format!("{} {level:>5} {origin}{text}", entry.time)
}

pub(super) fn checkpoints(job: &str, host: &HostArgs) -> Result<Listing> {
    Client::new(host)?.get(&format!("{}/checkpoints", path(job)))
}
