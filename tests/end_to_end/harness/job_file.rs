//! The text of a job file, put together.

use super::guest;

/// A job file.
#[derive(Clone, Default)]
pub struct JobFile {
    job: String,
    restart: String,
    checkpoint: String,
    state: String,
    nodes: String,
}

impl JobFile {
    /// A job without nodes, named `job`, whose checkpoints go to `checkpoints` at the given interval, and which fails when an attempt does.
    pub fn new(interval: &str) -> Self {
        let checkpoint = format!("interval = \"{interval}\"\ndir = \"checkpoints\"\n");
        JobFile { job: "name = \"job\"\n".into(), restart: "strategy = \"none\"\n".into(), checkpoint, ..JobFile::default() }
    }

    /// Adds a line to `[job]`.
    pub fn job(mut self, line: &str) -> Self {
        self.job += &format!("{line}\n");
        self
    }

    /// Replaces the lines of `[job.restart]`.
    pub fn restart(mut self, lines: &str) -> Self {
        self.restart = format!("{lines}\n");
        self
    }

    /// Replaces the lines of `[checkpoint]`. Unless they say which state files are kept in manifests, none are: most tests look at files,
    /// and with a test's little state there would be none.
    pub fn checkpoint(mut self, lines: &str) -> Self {
        self.checkpoint = format!("{lines}\n");
        self
    }

    /// Replaces the lines of `[state]`.
    pub fn state(mut self, lines: &str) -> Self {
        self.state = format!("{lines}\n");
        self
    }

    /// Adds a source.
    pub fn source(self, uid: &str, lines: &str) -> Self {
        self.node("source", uid, lines)
    }

    /// Adds an operator that runs the component of a crate.
    pub fn operator(self, uid: &str, component: &str, inputs: &[&str], lines: &str) -> Self {
        self.operator_fed(uid, component, &format!("{inputs:?}"), lines)
    }

    /// Adds an operator with several inputs: by port, what feeds it.
    pub fn operator_with_ports(self, uid: &str, component: &str, ports: &[(&str, &[&str])], lines: &str) -> Self {
        let ports: Vec<String> = ports.iter().map(|(port, inputs)| format!("{port} = {inputs:?}")).collect();
        self.operator_fed(uid, component, &format!("{{ {} }}", ports.join(", ")), lines)
    }

    fn operator_fed(self, uid: &str, component: &str, inputs: &str, lines: &str) -> Self {
        let component = guest(component);
        self.node("operator", uid, &format!("component = {component:?}\ninputs = {inputs}\n{lines}"))
    }

    /// Adds a sink.
    pub fn sink(self, uid: &str, inputs: &[&str], lines: &str) -> Self {
        self.node("sink", uid, &format!("inputs = {inputs:?}\n{lines}"))
    }

    /// Adds a sink that writes files to a directory named like itself.
    pub fn file_sink(self, uid: &str, inputs: &[&str]) -> Self {
        self.sink(uid, inputs, &format!("type = \"file\"\npath = {uid:?}"))
    }

    fn node(mut self, section: &str, uid: &str, lines: &str) -> Self {
        self.nodes += &format!("\n[[{section}]]\nuid = {uid:?}\n{lines}\n");
        self
    }

    /// The text.
    pub fn text(&self) -> String {
        let JobFile { job, restart, checkpoint, state, nodes } = self;
        let threshold = if checkpoint.contains("memory-threshold") { "" } else { "memory-threshold = \"0B\"\n" };
        // Tables that belong to it come after its own lines.
        let (checkpoint, tables) = checkpoint.split_at(checkpoint.find("\n[").map_or(checkpoint.len(), |end| end + 1));
        format!(
            "format = 1\n\n[job]\n{job}\n[checkpoint]\n{checkpoint}{threshold}{tables}\n[state]\n{state}{nodes}\n[job.restart]\n{restart}"
        )
    }
}
