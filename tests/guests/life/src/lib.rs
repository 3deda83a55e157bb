//! For tests: tells in the log what happens to it from open to close, and keeps its name in a union list.

use cofferdam_sdk::prelude::*;
use cofferdam_sdk::{Level, log};
use serde::Deserialize;

/// The operator.
#[operator]
pub struct Life {
    names: UnionListState<String>,
    /// One for each checkpoint of the first subtask.
    checkpoints: OperatorListState<u64>,
    config: Config,
    subtask: u32,
}

/// `config` in the job file.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Config {
    /// Whether it makes its name its own when it is opened, rather than leaving the list as it is.
    rename: bool,
    /// The hook that panics: "snapshot", "checkpoint-complete", "checkpoint-aborted" or "close".
    panics: String,
    /// The snapshot hook fails from this checkpoint on.
    fails_at: Option<u64>,
    /// The snapshot hook never comes back from this checkpoint on.
    sleeps_at: Option<u64>,
}

impl Life {
    fn say(&self, what: std::fmt::Arguments<'_>) {
        log(Level::Info, format_args!("life {}: {what}", self.subtask));
    }

    fn panic_in(&self, hook: &str) {
        assert_ne!(self.config.panics, hook, "as configured");
    }
}

#[operator]
impl Life {
    #[open]
    fn open(&mut self, context: &Context) -> Result<()> {
        self.config = context.config()?;
        self.subtask = context.subtask();
        let names = self.names.get().join(" ");
        self.say(format_args!("restored {:?} with [{names}]", context.restored_from().is_some()));
        if names.is_empty() || self.config.rename {
            self.names.replace([format!("{}of{}", self.subtask, context.parallelism())]);
        }
        Ok(())
    }

    #[input]
    fn lines(&mut self, line: &str, out: &mut Output<String>) -> Result<()> {
        out.emit(line);
        Ok(())
    }

    #[snapshot]
    fn snapshot(&mut self, checkpoint: u64) -> Result<()> {
        self.panic_in("snapshot");
        self.say(format_args!("barrier {checkpoint}"));
        if self.subtask == 0 {
            self.checkpoints.push(checkpoint);
        }
        if self.config.fails_at.is_some_and(|at| checkpoint >= at) {
            bail!("no more checkpoints");
        }
        while self.config.sleeps_at.is_some_and(|at| checkpoint >= at) {
            std::thread::sleep(std::time::Duration::from_secs(1));
        }
        Ok(())
    }

    #[checkpoint_complete]
    fn complete(&mut self, checkpoint: u64) {
        self.panic_in("checkpoint-complete");
        self.say(format_args!("complete {checkpoint}"));
    }

    #[checkpoint_aborted]
    fn aborted(&mut self, checkpoint: u64) {
        self.panic_in("checkpoint-aborted");
        self.say(format_args!("aborted {checkpoint}"));
    }

    #[close]
    fn close(&mut self) {
        self.panic_in("close");
        self.say(format_args!("close"));
    }
}

#[cfg(test)]
mod tests {
    use cofferdam_sdk::testing::{Harness, value};

    use super::*;

    #[test]
    fn every_checkpoint_is_noted() {
        let mut operator = Harness::<Life>::new();
        operator.process([value("a")]).unwrap();
        operator.checkpoint(1).unwrap();
        operator.checkpoint_complete(1).unwrap();
        operator.checkpoint(3).unwrap();
        assert_eq!(operator.operator_list::<u64>("checkpoints"), [1, 3]);
        assert_eq!(operator.operator_list::<String>("names"), ["0of1"]);
        operator.close();
    }
}
