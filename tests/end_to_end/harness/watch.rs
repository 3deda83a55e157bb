//! Watches the directory of a sink for as long as a test lasts: readers must see whole files only.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use super::place::visible;

/// Looks at a sink's directory again and again.
pub struct Watcher {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<usize, String>>,
}

impl Watcher {
    /// Begins to watch a directory, from which nobody takes files away.
    pub fn begin(dir: &Path) -> Self {
        let (dir, stop) = (dir.to_owned(), Arc::<AtomicBool>::default());
        let stopped = Arc::clone(&stop);
        let watch = move || {
            let mut seen = BTreeMap::new();
            let mut looks = 0;
            // Once more after the end.
            let mut last = false;
            while !last {
                last = stopped.load(Ordering::SeqCst);
                let now = visible(&dir);
                compare(&seen, &now)?;
                seen = now;
                looks += 1;
                std::thread::sleep(super::POLL);
            }
            Ok(looks)
        };
        Watcher { stop, thread: std::thread::spawn(watch) }
    }

    /// Ends watching. Fails if there ever was something that readers must not see.
    pub fn end(self) {
        self.stop.store(true, Ordering::SeqCst);
        let looks = self.thread.join().expect("watching does not panic");
        println!("looked {} times", looks.unwrap_or_else(|fault| panic!("{fault}")));
    }
}

fn compare(before: &BTreeMap<String, String>, now: &BTreeMap<String, String>) -> Result<(), String> {
    for (name, text) in before {
        match now.get(name) {
            None => return Err(format!("{name} has gone")),
            Some(changed) if changed != text => return Err(format!("{name} was\n{text}and has become\n{changed}")),
            Some(_) => {}
        }
    }
    match now.iter().find(|(_, text)| !text.ends_with('\n')) {
        Some((name, text)) => Err(format!("{name} is not whole: {text}")),
        None => Ok(()),
    }
}
