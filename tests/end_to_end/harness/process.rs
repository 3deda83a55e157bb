//! A process of the binary, while it runs and when it has ended.

use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use serde_json::Value;

use super::until;

/// A running process. Dropped, it is killed.
pub struct Running {
    child: Child,
    stdout: Option<Collected>,
    stderr: Collected,
}

/// How a process has ended, and all that it wrote.
#[derive(Debug)]
pub struct Ended {
    status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl Running {
    /// Starts a command whose output is collected while it runs.
    pub fn start(mut command: Command) -> Self {
        let mut running = Running::start_with_stdout(command.stdout(Stdio::piped()));
        running.stdout = running.child.stdout.take().map(Collected::of);
        running
    }

    /// Starts a command whose standard output goes where the command says.
    pub fn start_with_stdout(command: &mut Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().expect("the binary can be started");
        let stderr = child.stderr.take().expect("it is piped");
        Running { child, stdout: None, stderr: Collected::of(stderr) }
    }

    /// The standard output of a process that was started with it piped, if nobody has taken it yet.
    pub fn take_stdout(&mut self) -> Option<std::process::ChildStdout> {
        self.child.stdout.take()
    }

    /// Sends a signal by its name, as in `INT`.
    pub fn signal(&self, name: &str) {
        assert!(signal(self.child.id(), name), "can't send {name}: {}", self.stderr.text());
    }

    /// Stops it again and again until it is found to have been stopped while `look` finds something, and kills it then.
    pub fn kill_while(mut self, what: &str, mut look: impl FnMut() -> bool) -> Ended {
        let id = self.child.id();
        self.wait_until(what, || {
            signal(id, "STOP");
            // What has ended is told by the wait around this one.
            until("the process stands still", || matches!(state(id), Some('T' | 'Z') | None).then_some(()));
            let found = state(id) == Some('T') && look();
            if !found {
                signal(id, "CONT");
            }
            found
        });
        self.kill()
    }

    /// Kills it as `kill -9` does, and waits for its end.
    pub fn kill(mut self) -> Ended {
        self.child.kill().expect("it can be killed");
        self.wait()
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("it can be asked").is_some()
    }

    /// Waits for its end.
    pub fn wait(mut self) -> Ended {
        let status = until("the end of the process", || self.child.try_wait().expect("it can be asked"));
        let stdout = self.stdout.take().map(Collected::end).unwrap_or_default();
        let stderr = std::mem::replace(&mut self.stderr, Collected::nothing()).end();
        Ended { status, stdout, stderr }
    }

    /// Waits until `look` finds something; false if the process has ended before.
    pub fn reaches(&mut self, what: &str, mut look: impl FnMut() -> bool) -> bool {
        until(what, || {
            // In this order, so that what happens right before the end is found.
            let ended = self.has_ended();
            if look() { Some(true) } else { ended.then_some(false) }
        })
    }

    /// Waits until `look` finds something, which must be while the process runs.
    pub fn wait_until(&mut self, what: &str, look: impl FnMut() -> bool) {
        let reached = self.reaches(what, look);
        assert!(reached, "the process has ended before this happened: {what}\n{}", self.stderr.text());
    }

    /// Waits until standard error says something.
    pub fn wait_for_stderr(&mut self, text: &str) {
        let stderr = self.stderr.shared();
        self.wait_until(&format!("{text:?} on stderr"), || text_of(&stderr).contains(text));
    }

    /// What standard error has said so far.
    pub fn stderr(&self) -> String {
        self.stderr.text()
    }

    /// Waits until standard output says something.
    pub fn wait_for_stdout(&mut self, text: &str) {
        let stdout = self.stdout.as_ref().expect("it is collected").shared();
        self.wait_until(&format!("{text:?} on stdout"), || text_of(&stdout).contains(text));
    }

    /// Bytes of standard output so far.
    pub fn stdout_len(&self) -> usize {
        length(&self.stdout.as_ref().expect("it is collected").shared())
    }

    /// Waits until there is more standard output than so many bytes.
    pub fn wait_for_stdout_beyond(&mut self, bytes: usize) {
        let stdout = self.stdout.as_ref().expect("it is collected").shared();
        self.wait_until("more on stdout", || length(&stdout) > bytes);
    }

    /// Waits until it does nothing any more, because flow control holds it: it uses no CPU time over many looks.
    pub fn wait_for_rest(&mut self) {
        const LOOKS: u32 = 150;
        let (mut ticks, mut same) = (0, 0);
        let id = self.child.id();
        self.wait_until("rest", || {
            let now = cpu_ticks(id);
            same = if now == ticks { same + 1 } else { 0 };
            ticks = now;
            same >= LOOKS
        });
    }

    /// The most memory that it has had so far, in KiB; none once it has ended.
    pub fn peak(&self) -> Option<u64> {
        peak(self.child.id())
    }

    /// Waits for its end; the most memory that it had until shortly before, in KiB.
    pub fn peak_until_the_end(&mut self) -> u64 {
        let (id, mut most) = (self.child.id(), 0);
        self.reaches("the end", || {
            most = peak(id).unwrap_or(most);
            false
        });
        most
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a signal to a process. False if it has ended.
fn signal(id: u32, name: &str) -> bool {
    let sent = Command::new("sh").arg("-c").arg(format!("kill -{name} {id}")).status();
    sent.expect("there is a shell").success()
}

/// The state of a process as the kernel has it; none if it has ended.
fn state(id: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    stat.rsplit(") ").next()?.chars().next()
}

/// The most memory that a process has had, in KiB; none if it has ended.
fn peak(id: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?.trim().strip_suffix(" kB")?.parse().ok()
}

/// The CPU time that a process has used, in ticks of the kernel's clock.
fn cpu_ticks(id: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).expect("it has not been waited for");
    // The name in parentheses may hold blanks; utime and stime are the 12th and 13th field after it.
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    fields[11..13].iter().map(|ticks| ticks.parse::<u64>().expect("a number")).sum()
}

impl Ended {
    /// The exit code; none if a signal has ended it.
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// Checks that it ended well.
    #[track_caller]
    pub fn succeeds(self) -> Self {
        self.ends_with(0)
    }

    /// Checks its exit code.
    #[track_caller]
    pub fn ends_with(self, code: i32) -> Self {
        let signal = self.status.signal();
        assert_eq!(self.code(), Some(code), "ended by signal {signal:?}\nstdout: {:.2000}\nstderr: {}", self.stdout, self.stderr);
        assert!(!self.stderr.contains("panicked at"), "{}", self.stderr);
        self
    }

    /// Checks that standard error says all of this.
    #[track_caller]
    pub fn says(self, texts: &[&str]) -> Self {
        for text in texts {
            assert!(self.stderr.contains(text), "{text:?} is missing in: {}", self.stderr);
        }
        self
    }

    /// The last line of standard output, as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        let line = self.stdout.lines().last().unwrap_or_default();
        serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in {line:?}\nstderr: {}", self.stderr))
    }
}

/// What comes out of a pipe, collected by a thread.
struct Collected {
    text: Arc<Mutex<Vec<u8>>>,
    thread: Option<JoinHandle<()>>,
}

fn text_of(bytes: &Mutex<Vec<u8>>) -> String {
    String::from_utf8_lossy(&bytes.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
}

fn length(bytes: &Mutex<Vec<u8>>) -> usize {
    bytes.lock().unwrap_or_else(PoisonError::into_inner).len()
}

impl Collected {
    fn nothing() -> Self {
        Collected { text: Arc::default(), thread: None }
    }

    fn of(mut pipe: impl Read + Send + 'static) -> Self {
        let text = Arc::<Mutex<Vec<u8>>>::default();
        let shared = Arc::clone(&text);
        let collect = move || {
            let mut buffer = vec![0; 64 << 10];
            while let Ok(read @ 1..) = pipe.read(&mut buffer) {
                shared.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&buffer[..read]);
            }
        };
        Collected { text, thread: Some(std::thread::spawn(collect)) }
    }

    fn shared(&self) -> Arc<Mutex<Vec<u8>>> {
        Arc::clone(&self.text)
    }

    fn text(&self) -> String {
        text_of(&self.text)
    }

    /// All of it, once the other end is closed.
    fn end(mut self) -> String {
        if let Some(thread) = self.thread.take() {
            thread.join().expect("collecting does not panic");
        }
        self.text()
    }
}
