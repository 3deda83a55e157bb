//! [`Names`]: what a file sink calls its files, and which files are its own.
//!
//! Published: `part-<uid>-<run>-<epoch>-<subtask>.txt`; staged: `<uid>-<run>-<attempt>-<epoch>-<subtask>.txt`, with `open` for the
//! epoch while it is being written. Numbers have leading zeros, so that names sort by run, epoch and subtask. The uid is part of both,
//! because sinks may share a directory; since it stands before a fixed number of fields, it may hold dashes itself.

use crate::record::AttemptId;

/// Names of one sink's files.
#[derive(Clone, Debug)]
pub(super) struct Names {
    /// The uid, with everything that could be special in a path written as %XX.
    uid: String,
}

/// A file of a sink in the staging directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Own {
    /// Who wrote it.
    pub(super) attempt: AttemptId,
    /// Whether it was staged; otherwise it was being written.
    pub(super) is_whole: bool,
}

impl Names {
    pub(super) fn new(uid: &str) -> Self {
        let mut safe = String::new();
        for byte in uid.bytes() {
            if byte.is_ascii_alphanumeric() || b"-_.".contains(&byte) {
                safe.push(char::from(byte));
            } else {
                safe.push_str(&format!("%{byte:02X}"));
            }
        }
        Names { uid: safe }
    }

    /// In the staging directory: the file that a subtask is writing.
    pub(super) fn open(&self, attempt: AttemptId, subtask: u16) -> String {
        self.staging(attempt, "open", subtask)
    }

    /// In the staging directory: a whole file.
    pub(super) fn staged(&self, attempt: AttemptId, epoch: u64, subtask: u16) -> String {
        self.staging(attempt, &format!("{epoch:08}"), subtask)
    }

    /// In the sink's directory.
    pub(super) fn published(&self, run: u32, epoch: u64, subtask: u16) -> String {
        format!("part-{}-{run:04}-{epoch:08}-{subtask:05}.txt", self.uid)
    }

    /// What a file in the staging directory is; none if it is not one of this sink's.
    pub(super) fn own(&self, name: &str) -> Option<Own> {
        let mut fields = name.strip_suffix(".txt")?.rsplitn(5, '-');
        let subtask = fields.next()?.parse().ok()?;
        let epoch = fields.next()?;
        let attempt = fields.next()?.parse().ok()?;
        let attempt = AttemptId { run: fields.next()?.parse().ok()?, attempt };
        // Written anew it must be the same, uid and zeros included.
        let again = match epoch {
            "open" => self.open(attempt, subtask),
            number => self.staged(attempt, number.parse().ok()?, subtask),
        };
        (again == name).then_some(Own { attempt, is_whole: epoch != "open" })
    }

    /// Whether this is the name of a file that this sink would publish in `run`.
    pub(super) fn is_published(&self, name: &str, run: u32) -> bool {
        let parse = || {
            let mut fields = name.strip_suffix(".txt")?.rsplitn(3, '-');
            let subtask = fields.next()?.parse().ok()?;
            Some(self.published(run, fields.next()?.parse().ok()?, subtask))
        };
        parse().is_some_and(|again| again == name)
    }

    fn staging(&self, attempt: AttemptId, epoch: &str, subtask: u16) -> String {
        format!("{}-{:04}-{:04}-{epoch}-{subtask:05}.txt", self.uid, attempt.run, attempt.attempt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ATTEMPT: AttemptId = AttemptId { run: 3, attempt: 12 };

    #[test]
    fn names_say_whose_they_are_and_sort() {
        let names = Names::new("counts");
        assert_eq!(names.open(ATTEMPT, 7), "counts-0003-0012-open-00007.txt");
        assert_eq!(names.staged(ATTEMPT, 41, 7), "counts-0003-0012-00000041-00007.txt");
        assert_eq!(names.published(3, 41, 7), "part-counts-0003-00000041-00007.txt");
        assert!(names.published(3, 9, 7) < names.published(3, 10, 0));
        assert!(names.published(9, 9, 7) < names.published(10, 1, 0));
        assert!(names.published(9, 9, 7) < names.published(9, 9, 12));
    }

    #[test]
    fn a_uid_can_not_lead_out_of_the_directory_nor_pose_as_another() {
        assert_eq!(Names::new("../a b/ü").published(1, 1, 0), "part-..%2Fa%20b%2F%C3%BC-0001-00000001-00000.txt");
        assert_ne!(Names::new("a%20b").uid, Names::new("a b").uid);
    }

    #[test]
    fn own_files_are_known_and_strange_ones_are_not() {
        for uid in ["counts", "counts-0003", "counts-0003-0012", "a b", ""] {
            let names = Names::new(uid);
            for subtask in [0, 65535] {
                assert_eq!(names.own(&names.open(ATTEMPT, subtask)), Some(Own { attempt: ATTEMPT, is_whole: false }));
                for epoch in [0, 1, 123_456_789, u64::MAX] {
                    assert_eq!(names.own(&names.staged(ATTEMPT, epoch, subtask)), Some(Own { attempt: ATTEMPT, is_whole: true }));
                    let published = names.published(3, epoch, subtask);
                    assert!(names.is_published(&published, 3) && !names.is_published(&published, 4));
                    assert_eq!(names.own(&published), None);
                }
            }
            for other in ["count", "counts-0003-0012-0001", "x"] {
                let other = Names::new(other);
                assert_eq!(names.own(&other.open(ATTEMPT, 0)), None);
                assert_eq!(names.own(&other.staged(ATTEMPT, 5, 0)), None);
                assert!(!names.is_published(&other.published(3, 5, 0), 3));
            }
        }
        let names = Names::new("counts");
        for strange in ["", ".txt", "counts.txt", "counts-3-12-41-7.txt", "counts-0003-0012-open-00007", "counts-0003-0012--00007.txt"] {
            assert_eq!(names.own(strange), None, "{strange}");
            assert!(!names.is_published(strange, 3), "{strange}");
        }
    }
}
