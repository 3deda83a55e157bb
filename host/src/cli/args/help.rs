//! What the help says besides each flag: exit codes, examples, and how a command works.

pub(super) const EXIT_CODES: &str = "\
Exit codes:
  0    success
  1    an operator, source or sink failed while the job ran
  2    wrong usage of the command line
  3    the job file, or a flag that changes it, is not acceptable
  4    a component is missing, broken, or does not fit the job
  5    a checkpoint is missing, broken, or does not fit the job
  6    a directory or store can't be read or written
  7    a newer attempt of the same job has taken over
  8    the host can't be reached
  9    the host has no such job or component
  10   the job or component is not in a state in which this can be done
  11   the host wants to know who asks
  70   a bug in cofferdam
  130  stopped by SIGINT (Ctrl-C), to go on from its last checkpoint; 143 by SIGTERM";

pub(super) const EXAMPLES: &str = "\
Examples:
  cofferdam validate job.toml
  cofferdam run job.toml -p 4
  cofferdam checkpoints job.toml
  cofferdam inspect delays.wasm
  cofferdam serve --data-dir data
  cofferdam deploy job.toml";

pub(super) const RUN_EXAMPLES: &str = "\
A job that was stopped or failed goes on from its last checkpoint when it is run again.
Standard output belongs to sinks of type \"stdout\"; the summary at the end goes to standard error,
or with --output json to standard output, as its last line.

Examples:
  cofferdam run job.toml                      go on from the last checkpoint, or begin
  cofferdam run job.toml --fresh              begin anew, beside what is published already
  cofferdam run job.toml -s 17 --allow-duplicates
                                              go back to checkpoint 17, though later output is out
  cofferdam run -s s3://bucket/savepoint-words-41-5f00ff
                                              begin the job in a savepoint";

pub(super) const SWAP: &str = "\
The new component is checked while the job runs; if it does not fit it is refused, and nothing
has stopped. At a barrier it takes over, with the state as it is, migrated where its version rose.
During its probation the old component stays at hand. The new one has failed when it traps or
exceeds a limit, when a record fails that would fail the job, or when too many records fail.

Examples:
  cofferdam swap flights delays delays-2.wasm --dry-run
  cofferdam swap flights delays delays-2.wasm
  cofferdam swap flights delays delays-3.wasm --way-back rewind --probation 5m";

pub(super) const CHECKPOINTS: &str = "\
The newest ten and all that are kept, of each run. `written` is what a checkpoint added to the one
before, `total` all that it needs. Of each subtask's snapshot: how long records were held back
before the barrier (aligned), how long the barrier took (froze), and how long its files took
(upload). Files that are broken or foreign are named. The job may run meanwhile.

Examples:
  cofferdam checkpoints job.toml
  cofferdam checkpoints checkpoints/word-count --output json
  cofferdam checkpoints word-count                of a host";

pub(super) const SAVEPOINT_EXAMPLES: &str = "\
Examples:
  cofferdam savepoint words s3://bucket/savepoints
  cofferdam stop words --savepoint savepoints --drain
  cofferdam run -s savepoints/savepoint-words-41-5f00ff
  cofferdam savepoint dispose savepoints/savepoint-words-41-5f00ff";

pub(super) const COMPLETIONS: &str = "\
Examples:
  source <(cofferdam completions bash)
  cofferdam completions fish > ~/.config/fish/completions/cofferdam.fish";
