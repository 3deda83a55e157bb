//! Signals: the first asks for a stop with a last checkpoint, the second ends the process at once.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::error::{Error, Kind, Result};

/// The signals that stop a job.
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

/// SIGINT, as by Ctrl-C.
const INTERRUPT: i32 = 2;
/// SIGTERM.
const TERMINATE: i32 = 15;

impl Signals {
    /// Takes them over from the default, which would end the process. Needs a tokio runtime.
    ///
    /// # Errors
    /// Kind `Internal` if it can't be done.
    pub fn new() -> Result<Self> {
        let listen = |kind| signal(kind).map_err(|error| Error::new(Kind::Internal, format!("no signal handler: {error}")));
        Ok(Signals { interrupt: listen(SignalKind::interrupt())?, terminate: listen(SignalKind::terminate())? })
    }

    /// The number of the next signal.
    pub async fn next(&mut self) -> i32 {
        tokio::select! {
            _ = self.interrupt.recv() => INTERRUPT,
            _ = self.terminate.recv() => TERMINATE,
        }
    }
}
