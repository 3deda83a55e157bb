//! How many files and connections the process may have open.

/// Raises the limit to the highest that the process may ask for. Systems begin with a low one because of programs that use select(2); a job
/// has one open for each state file on disk that it reads, and for each connection.
pub(super) fn allow_all() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

        let limit = getrlimit(Resource::Nofile);
        if limit.current == limit.maximum {
            return;
        }
        // Some systems allow fewer than they say.
        if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }) {
            tracing::debug!("no more than {:?} files can be open at once: {error}", limit.current);
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    use super::*;

    #[test]
    fn as_many_files_may_be_open_as_the_system_allows() {
        let limit = getrlimit(Resource::Nofile);
        // Other tests have files open meanwhile.
        let fewer = limit.maximum.map(|maximum| maximum - 1);
        setrlimit(Resource::Nofile, Rlimit { current: fewer, ..limit }).unwrap();
        allow_all();
        assert_eq!(getrlimit(Resource::Nofile), Rlimit { current: limit.maximum, ..limit });
    }
}
