//! How an error is told: as a report with the place in the job file, as one line with what to do, or as JSON.

use std::fmt;

use miette::{Diagnostic, LabeledSpan, MietteHandlerOpts, NamedSource, ReportHandler, SourceCode};
use serde::Serialize;

use super::args::Output;
use super::{console, json};
use crate::error::{Error, Problem};

/// Tells `error`, and answers with the exit code that says so too.
pub(super) fn tell(error: &Error, output: Output) -> u8 {
    match output {
        Output::Text => console::say(render(error, console::colours()).trim_end()),
        Output::Json => {
            let printed = json(&Envelope { error: Told::of(error), details: error.details() }).and_then(|line| console::print(&line));
            if let Err(unprinted) = printed {
                console::say(&format!("error: {error}\nerror: {unprinted}"));
            }
        }
    }
    error.kind().exit_code()
}

/// An error as text, for people.
fn render(error: &Error, colours: bool) -> String {
    let problems = error.all_problems();
    let mut text: String = problems.iter().map(|problem| Report { problem, colours }.to_string()).collect();
    // One problem says all; of several the count helps.
    if problems.len() != 1 {
        text += &format!("error: {}\n", error.message());
    }
    if let Some(help) = error.help_text() {
        text += &format!("  help: {help}\n");
    }
    text
}

/// A problem as miette shows it, with the lines around it.
struct Report<'a> {
    problem: &'a Problem,
    colours: bool,
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.problem.file.display().to_string();
        let shown = Shown { problem: self.problem, source: NamedSource::new(file, self.problem.text.to_string()) };
        // Lines are left whole: a terminal wraps them by itself, and elsewhere they can be searched.
        let options = MietteHandlerOpts::new().color(self.colours).terminal_links(false).unicode(true).context_lines(1).wrap_lines(false);
        options.build().debug(&shown, f)?;
        writeln!(f)
    }
}

#[derive(Debug)]
struct Shown<'a> {
    problem: &'a Problem,
    source: NamedSource<String>,
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problem.message)
    }
}

impl std::error::Error for Shown<'_> {}

impl Diagnostic for Shown<'_> {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.problem.help.as_ref().map(|help| Box::new(help) as Box<dyn fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        Some(&self.source)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let span = self.problem.span.clone();
        Some(Box::new(std::iter::once(LabeledSpan::new_primary_with_span(None, span))))
    }
}

/// `{"error": …}`: no answer has this key, so scripts can tell the two apart.
#[derive(Serialize)]
struct Envelope<'a> {
    error: Told<'a>,
    #[serde(flatten)]
    details: &'a serde_json::Map<String, serde_json::Value>,
}

#[derive(Serialize)]
struct Told<'a> {
    code: &'static str,
    message: &'a str,
    help: Option<&'a str>,
    problems: Vec<Place<'a>>,
}

#[derive(Serialize)]
struct Place<'a> {
    file: String,
    line: usize,
    column: usize,
    message: &'a str,
    help: Option<&'a str>,
}

impl<'a> Told<'a> {
    fn of(error: &'a Error) -> Self {
        let place = |problem: &'a Problem| Place {
            file: problem.file.display().to_string(),
            line: problem.line(),
            column: column(problem),
            message: &problem.message,
            help: problem.help.as_deref(),
        };
        Told {
            code: error.kind().code(),
            message: error.message(),
            help: error.help_text(),
            problems: error.all_problems().iter().map(place).collect(),
        }
    }
}

/// The column in characters, from 1 on.
fn column(problem: &Problem) -> usize {
    let before = problem.text.get(..problem.span.start).unwrap_or(&problem.text);
    before.chars().rev().take_while(|c| *c != '\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;

    fn problem(needle: &str) -> Problem {
        let text = "format = 1\n[job]\nname = \"ä\" # ö\nrate = 0\n";
        let start = text.find(needle).unwrap();
        let (message, help) = (format!("bad {needle}"), Some("do it well".to_owned()));
        Problem { message, help, file: "dir/job.toml".into(), text: text.into(), span: start..start + needle.len() }
    }

    #[test]
    fn a_problem_is_shown_with_file_line_snippet_and_help() {
        let text = render(&Error::problems(vec![problem("rate")]), false);
        for part in ["bad rate", "dir/job.toml:4:1", "rate = 0", "help: do it well"] {
            assert!(text.contains(part), "{part} is not in:\n{text}");
        }
        assert!(!text.contains('\u{1b}'), "colours without being asked for:\n{text:?}");
        assert!(render(&Error::problems(vec![problem("rate")]), true).contains('\u{1b}'));
    }

    #[test]
    fn several_problems_are_all_shown_and_counted() {
        let text = render(&Error::problems(vec![problem("format"), problem("# ö")]), false);
        assert!(text.contains("bad format") && text.contains("bad # ö"), "{text}");
        assert!(text.ends_with("error: 2 problems in dir/job.toml\n"), "{text}");
    }

    #[test]
    fn another_error_is_a_line_and_what_to_do() {
        let error = Error::new(Kind::Storage, "disk full").help("make room");
        assert_eq!(render(&error, false), "error: disk full\n  help: make room\n");
    }

    #[test]
    fn json_holds_what_text_says() {
        let error = Error::problems(vec![problem("# ö")]);
        let told = serde_json::to_value(Envelope { error: Told::of(&error), details: error.details() }).unwrap();
        let expected = serde_json::json!({ "error": {
            "code": "config",
            "message": "dir/job.toml:3: bad # ö",
            "help": null,
            "problems": [{ "file": "dir/job.toml", "line": 3, "column": 12, "message": "bad # ö", "help": "do it well" }],
        }});
        assert_eq!(told, expected);
    }
}
