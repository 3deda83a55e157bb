//! What a run was, as text.

use std::time::Duration;

use indicatif::{HumanBytes, HumanCount};

use super::text::table;
use crate::job::{FailedAttempt, Outcome, Summary};

/// The summary of a run: how it ended, records by node, checkpoints.
pub(super) fn render(summary: &Summary) -> String {
    // None of what it would have done, if the attempt that it tells of is the last that has failed.
    let has_run = summary.failures.last().is_none_or(|failed| failed.attempt != summary.attempt);
    let done = |text: fn(&Summary) -> String| has_run.then(|| text(summary));
    let parts = [Some(headline(summary)), done(nodes), own_metrics(summary), failures(summary), done(checkpoints)];
    parts.into_iter().flatten().collect::<Vec<_>>().join("\n")
}

fn headline(summary: &Summary) -> String {
    let outcome = match (summary.outcome, summary.last_checkpoint) {
        (Outcome::Finished, _) => "finished".to_owned(),
        (Outcome::Stopped, Some(number)) => format!("stopped at checkpoint {number}, to go on when it is run again"),
        (Outcome::Stopped, None) => "stopped, to go on when it is run again".to_owned(),
        (Outcome::Cancelled, _) => "cancelled, to go on from its newest checkpoint when it is run again".to_owned(),
    };
    let time = Duration::try_from_secs_f64((summary.seconds * 1000.0).round() / 1000.0).unwrap_or_default();
    let crate::record::AttemptId { run, attempt } = summary.attempt;
    let (job, time, parallelism) = (&summary.job, humantime::format_duration(time), summary.parallelism);
    format!("job `{job}` {outcome} (run {run}, attempt {attempt}, parallelism {parallelism}, {time})")
}

/// What other attempts have failed of; none if none has.
fn failures(summary: &Summary) -> Option<String> {
    let row = |failed: &FailedAttempt| vec![failed.attempt.attempt.to_string(), failed.time.clone(), failed.error.clone()];
    let rows: Vec<Vec<String>> = summary.failures.iter().map(row).collect();
    let before = summary.failed_attempts.saturating_sub(rows.len() as u64);
    let before = if before > 0 { format!("{} attempts more have failed before these:\n", HumanCount(before)) } else { String::new() };
    (!rows.is_empty()).then(|| before + &table(&["attempt", "failed", "because"], rows, &[0]))
}

fn nodes(summary: &Summary) -> String {
    let row = |node: &crate::job::NodeTotals| {
        let counts = [node.records_in, node.records_out, node.records_failed].map(|count| HumanCount(count).to_string());
        [node.uid.clone(), node.kind.to_owned()].into_iter().chain(counts).collect::<Vec<_>>()
    };
    let mut rows: Vec<Vec<String>> = summary.nodes.iter().map(row).collect();
    let mut header = vec!["node", "kind", "records in", "records out", "failed"];
    // Mostly none has failed, and then nobody needs the column.
    if summary.nodes.iter().all(|node| node.records_failed == 0) {
        header.pop();
        rows.iter_mut().for_each(|row| drop(row.pop()));
    }
    table(&header, rows, &[2, 3, 4])
}

/// What operators have counted themselves, if they have.
fn own_metrics(summary: &Summary) -> Option<String> {
    let mut rows = Vec::new();
    for node in &summary.nodes {
        for (name, count) in &node.own.counters {
            rows.push([node.uid.clone(), name.clone(), "all".into(), HumanCount(*count).to_string()].to_vec());
        }
        for (name, values) in &node.own.gauges {
            let set = values.iter().enumerate().filter_map(|(subtask, value)| Some((subtask, (*value)?)));
            rows.extend(set.map(|(subtask, value)| vec![node.uid.clone(), name.clone(), subtask.to_string(), value.to_string()]));
        }
    }
    (!rows.is_empty()).then(|| table(&["node", "metric", "subtask", "value"], rows, &[2, 3]))
}

fn checkpoints(summary: &Summary) -> String {
    let last = summary.last_checkpoint.map(|number| format!(", the last is {number}")).unwrap_or_default();
    let restored = match &summary.restored {
        Some(restored) if restored.savepoint => format!("restored from savepoint {}", restored.path),
        Some(restored) => format!("restored from checkpoint {} of {}", restored.checkpoint, restored.created),
        None => "began without state".to_owned(),
    };
    // Mostly none has failed.
    let failed = Some(summary.failed_checkpoints).filter(|&failed| failed > 0);
    let failed = failed.map(|failed| format!("; {} failed", HumanCount(failed))).unwrap_or_default();
    let (good, written) = (HumanCount(summary.checkpoints), HumanBytes(summary.checkpoint_bytes));
    format!("checkpoints: {good}{last}{failed}; {written} of state written; {restored}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{NodeTotals, OwnMetrics, Pauses, Restored};
    use crate::record::AttemptId;

    #[test]
    fn all_facts_of_a_run_are_in_its_summary() {
        let node = |uid: &str, kind, records, own| {
            let (records_in, records_out) = (records, records);
            NodeTotals { uid: uid.into(), kind, records_in, records_out, records_failed: 0, state: None, own }
        };
        let own =
            OwnMetrics { counters: [("cancelled".into(), 8255)].into(), gauges: [("delay.mean".into(), vec![None, Some(-1.5)])].into() };
        let summary = Summary {
            job: "flight-delays".into(),
            attempt: AttemptId { run: 1, attempt: 2 },
            outcome: Outcome::Finished,
            signal: None,
            restored: Some(Restored {
                checkpoint: 17,
                created: "2026-11-30T07:00:00Z".into(),
                path: "c/17.json".into(),
                savepoint: false,
                empty: vec![],
                left_out: vec![],
            }),
            failures: Vec::new(),
            failed_attempts: 0,
            parallelism: 2,
            cpu_seconds: 1.0,
            freezes: Pauses::default(),
            slices: Pauses::default(),
            seconds: 3.2104,
            nodes: vec![
                node("flights", "source", 336_776, OwnMetrics::default()),
                node("parse", "operator", 336_776, own),
                node("out", "sink", 16, OwnMetrics::default()),
            ],
            checkpoints: 12,
            failed_checkpoints: 0,
            last_checkpoint: Some(29),
            checkpoint_bytes: 3 << 20,
        };
        let expected = "\
job `flight-delays` finished (run 1, attempt 2, parallelism 2, 3s 210ms)
  node     kind      records in  records out
  flights  source       336,776      336,776
  parse    operator     336,776      336,776
  out      sink              16           16
  node   metric      subtask  value
  parse  cancelled       all  8,255
  parse  delay.mean        1   -1.5
checkpoints: 12, the last is 29; 3.00 MiB of state written; restored from checkpoint 17 of 2026-11-30T07:00:00Z";
        assert_eq!(render(&summary), expected);

        let failed =
            FailedAttempt { attempt: AttemptId { run: 1, attempt: 1 }, time: "2026-11-30T06:59:00Z".into(), error: "no disk".into() };
        let text = render(&Summary { failures: vec![failed], ..summary.clone() });
        assert!(
            text.contains("\n  attempt  failed                because\n        1  2026-11-30T06:59:00Z  no disk\ncheckpoints: "),
            "{text}"
        );

        let text = render(&Summary { failed_checkpoints: 2, ..summary.clone() });
        assert!(text.contains("\ncheckpoints: 12, the last is 29; 2 failed; 3.00 MiB"), "{text}");

        let stopped = Summary { outcome: Outcome::Stopped, signal: Some(2), restored: None, checkpoints: 0, ..summary };
        let text = render(&stopped);
        assert!(text.starts_with("job `flight-delays` stopped at checkpoint 29, to go on when it is run again (run 1,"), "{text}");
        assert!(text.ends_with("; began without state"), "{text}");
    }
}
