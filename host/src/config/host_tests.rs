//! A host file has defaults, a job file wins, and each fault is told where it is.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::*;
use crate::plan::{Access, Mode, Restart};

const NODES: &str = "
[[source]]
uid = \"in\"
type = \"generator\"
kind = \"words\"
[[sink]]
uid = \"out\"
type = \"blackhole\"
inputs = [\"in\"]
";

/// A job file below `jobs` and a host file below `etc`, read together.
fn load_both(host: &str, job: &str) -> (Result<Plan>, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let write = |path: &str, text: String| {
        let path = dir.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    };
    let host = write("etc/host.toml", format!("format = 1\n{host}"));
    let job = write("jobs/job.toml", format!("format = 1\n[job]\nname = \"j\"\n{job}{NODES}"));
    let read = load_host(Some(&host)).and_then(|defaults| load(&job, &Overrides { defaults, ..Overrides::default() }));
    (read, dir.path().into())
}

/// File, line and message of each fault.
fn faults(host: &str, job: &str) -> Vec<(String, usize, String)> {
    let name = |file: &Path| file.file_name().unwrap().to_str().unwrap().to_owned();
    let error = load_both(host, job).0.unwrap_err();
    error.all_problems().iter().map(|problem| (name(&problem.file), problem.line(), problem.message.clone())).collect()
}

#[test]
fn what_the_job_file_leaves_out_is_as_the_host_file_says() {
    let host = "[checkpoint]\ninterval = \"5s\"\nmode = \"at-least-once\"\nnum-retained = 7\ndir = \"state\"\nlocal-recovery-dir = \"copies\"\n\
                [job.restart]\nstrategy = \"none\"\n";
    let (plan, dir) = load_both(host, "[checkpoint]\nnum-retained = 2\nlocal-recovery = true\n");
    let plan = plan.unwrap();
    let settings = &plan.checkpoint;
    assert_eq!((settings.interval, settings.mode, settings.num_retained), (Some(Duration::from_secs(5)), Mode::AtLeastOnce, 2));
    assert_eq!((&settings.dir, &settings.local_recovery), (&dir.join("etc/state").into(), &Some(dir.join("etc/copies"))));
    assert_eq!(plan.restart, Restart::None);

    let (plan, dir) =
        load_both(host, "[job.restart]\nstrategy = \"fixed-delay\"\n[checkpoint]\ndir = \"own\"\nlocal-recovery-dir = \"l\"\n");
    let plan = plan.unwrap();
    assert_eq!((&plan.checkpoint.dir, &plan.checkpoint.local_recovery), (&dir.join("jobs/own").into(), &None));
    assert!(matches!(plan.restart, Restart::FixedDelay { attempts: 1, .. }));

    let (plan, dir) = load_both("", "[checkpoint]\nlocal-recovery = true\n");
    let settings = plan.unwrap().checkpoint;
    assert_eq!((settings.dir, settings.local_recovery), (dir.join("jobs/checkpoints").into(), Some(dir.join("jobs/local-recovery"))));
}

#[test]
fn where_state_is_kept_is_as_the_host_file_says_unless_the_job_or_the_operator_says_otherwise() {
    use crate::plan::{Backend, NodeKind, StateSettings};
    let host = "[state]\nbackend = \"disk\"\nmemory = \"7MiB\"\ndir = \"fast\"\n";
    let operator = |uid: &str, state: &str| format!("[[operator]]\nuid = \"{uid}\"\ncomponent = \"c.wasm\"\ninputs = [\"in\"]\n{state}\n");
    let operators = operator("plain", "") + &operator("other", "state = { backend = \"memory\" }");
    let states = |job: &str| {
        let (plan, dir) = load_both(host, &format!("{job}{operators}"));
        let plan = plan.unwrap();
        let state = |kind: &NodeKind| if let NodeKind::Operator(settings) = kind { Some(settings.state) } else { None };
        (plan.nodes.iter().filter_map(|node| state(&node.kind)).collect::<Vec<_>>(), plan.state_dir, dir)
    };
    let settings = |backend, mebibytes: u64| StateSettings { backend, memory: mebibytes << 20 };
    let (found, state_dir, dir) = states("[checkpoint]\ninterval = \"1s\"\n");
    assert_eq!((found, state_dir), (vec![settings(Backend::Disk, 7), settings(Backend::Memory, 7)], dir.join("etc/fast")));
    let (found, state_dir, dir) = states("[state]\nmemory = \"9MiB\"\ndir = \"own\"\n");
    assert_eq!((found, state_dir), (vec![settings(Backend::Disk, 9), settings(Backend::Memory, 9)], dir.join("jobs/own")));
    assert!(load_both("", "").0.unwrap().state_dir.ends_with("jobs/local-state"));
}

#[test]
fn how_a_bucket_is_reached_goes_with_the_bucket() {
    let host = "[checkpoint]\ntimeout = \"7s\"\ndir = \"s3://b/all\"\n[checkpoint.s3]\nregion = \"r\"\ncredentials-file = \"c\"\nretry-timeout = \"3s\"\n";
    let access = |job: &str| {
        let (plan, dir) = load_both(host, job);
        (plan.unwrap().checkpoint.access, dir)
    };
    let (found, dir) = access("[checkpoint.s3]\nregion = \"q\"\npath-style = false\n");
    let credentials_file = Some(dir.join("etc/c"));
    let expected = Access {
        region: Some("q".into()),
        path_style: false,
        credentials_file,
        retry_timeout: Duration::from_secs(3),
        ..Access::default()
    };
    assert_eq!(found, expected);
    let (found, _) = access("[checkpoint]\ndir = \"s3://other\"\n");
    assert_eq!((found.region.as_deref(), found.retry_timeout), (Some("r"), Duration::from_secs(3)));
    let (found, _) = access("[checkpoint]\ndir = \"own\"\n");
    assert_eq!(found, Access { retry_timeout: Duration::from_secs(7), ..Access::default() });
}

#[test]
fn a_fault_is_told_in_the_file_that_has_it() {
    let told = faults("[checkpoint]\nintervall = \"5s\"\n[job]\nname = \"no\"\n", "");
    let [(first, 3, interval), (second, 5, name)] = told.as_slice() else { panic!("{told:?}") };
    assert_eq!((first.as_str(), second.as_str()), ("host.toml", "host.toml"));
    assert!(interval.contains("unknown key `intervall`") && name.contains("unknown key `name`"), "{told:?}");
    let told = faults("[checkpoint]\ninterval = \"5s\"\n", "[checkpoint]\nmode = \"x\"\n");
    let [(file, 5, _)] = told.as_slice() else { panic!("{told:?}") };
    assert_eq!(file, "job.toml");
    assert!(load_both("[[source]]\n", "").0.unwrap_err().message().contains("host.toml:2: unknown key `source`"));
}

#[test]
fn what_contradicts_the_host_file_is_refused_at_the_line_in_the_job_file() {
    for (host, job, message) in [
        ("min-pause = \"1s\"", "max-concurrent = 2", "`max-concurrent` lets checkpoints overlap"),
        ("max-concurrent = 2", "min-pause = \"1s\"", "`min-pause` is kept between"),
    ] {
        let told = faults(&format!("[checkpoint]\n{host}\n"), &format!("[checkpoint]\n{job}\n"));
        let [(file, 5, found)] = told.as_slice() else { panic!("{told:?}") };
        assert!(file == "job.toml" && found.contains(message), "{told:?}");
    }
    let (plan, _) = load_both("[checkpoint]\nmin-pause = \"1s\"\n", "[checkpoint]\nmax-concurrent = 2\nmin-pause = \"0s\"\n");
    assert_eq!(plan.unwrap().checkpoint.max_concurrent, 2);
}

#[test]
fn a_host_file_that_is_not_there_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let error = load_host(Some(&dir.path().join("none.toml"))).unwrap_err();
    assert!(error.message().contains("can't read the host file") && error.help_text().unwrap().contains("--host-file"), "{error}");
}
