//! How a bucket is reached: what the job file, the environment and the files of credentials say is in every request that a job makes, and
//! its secrets are nowhere else.

use crate::flights;
use crate::harness::s3::{Fault, Request, SECRET, Server};
use crate::harness::{Place, Running, assert_lines};

const TOKEN: &str = "FwoGZXIvYXdzEBYaD-this-is-secret-too";

/// What each request has to say.
#[derive(Clone, Copy)]
struct Says {
    host: &'static str,
    region: &'static str,
    token: bool,
}

impl Says {
    /// Whether a request to a server at `address` says it.
    fn all(self, request: &Request, address: &str) -> bool {
        let header = |name| request.header(name).unwrap_or_default();
        let host = if self.host.is_empty() { address } else { self.host };
        let scope = format!("/{}/s3/aws4_request", self.region);
        let signed = header("authorization").contains("Credential=test/") && header("authorization").contains(&scope);
        header("host") == host && signed && header("x-amz-security-token") == if self.token { TOKEN } else { "" }
    }
}

/// A file of credentials in which profile `other` is the right one; `more` are further lines of it.
fn profiles(more: &str) -> String {
    format!(
        "[default]\naws_access_key_id = wrong\naws_secret_access_key = wrong\nregion = wrong\n\n\
         [other]\naws_access_key_id = test\naws_secret_access_key = {SECRET}\n{more}"
    )
}

/// Runs the job, whose every request has to say this, and lets all that any library has to say be logged.
#[track_caller]
fn is_reached(server: &Server, place: &Place, lines: &str, environment: &[(&str, String)], says: Says) {
    let bucket = &server.bucket;
    let address = bucket.address.to_string();
    place.set_job(&flights::job("").checkpoint(&format!("interval = \"40ms\"\ndir = \"s3://bucket/check/points\"\n{lines}")));
    server.misbehaves(move |request| (!says.all(request, &address)).then_some(Fault::Refused(403)));
    let mut command = place.command(&["run", "job.toml", "--log", "trace,cofferdam=trace"]);
    command.env("HOME", place.path("home")).envs(environment.iter().map(|(name, value)| (name, value)));
    let ended = Running::start(command).wait().succeeds().says(&["TRACE hyper_util"]);
    assert_eq!(server.faults(), [""; 0]);
    assert!(bucket.newest(1) > 0, "{:?}", bucket.keys());
    assert_lines(place.lines("out"), flights::oracle(), "as told");
    let files = place.content().into_iter().filter(|(path, _)| !path.ends_with("credentials"));
    let objects = bucket.keys().into_iter().map(|key| (key.clone().into(), bucket.get(&key).map(Vec::from)));
    let told = [("stdout".into(), Some(ended.stdout.into_bytes())), ("stderr".into(), Some(ended.stderr.into_bytes()))];
    for (path, content) in told.into_iter().chain(files).chain(objects) {
        let content = content.unwrap_or_default();
        let holds = |secret: &str| content.windows(secret.len()).any(|part| part == secret.as_bytes());
        assert!(!holds(SECRET) && !holds(TOKEN), "a secret is in {}", path.display());
    }
}

#[test]
fn a_table_names_host_and_region_and_a_variable_the_profile() {
    let server = Server::start();
    let place = flights::place("");
    place.write("profiles/credentials", profiles(&format!("aws_session_token = {TOKEN}\n")));
    let lines =
        "\n[checkpoint.s3]\nendpoint = \"http://s3.example.test\"\nallow-http = true\npath-style = false\nregion = \"eu-central-7\"\n";
    let environment = [
        ("AWS_PROFILE", "other".to_owned()),
        ("AWS_SHARED_CREDENTIALS_FILE", place.path("profiles/credentials").display().to_string()),
        // There is no such host: our server stands in for all of them.
        ("http_proxy", format!("http://{}", server.bucket.address)),
    ];
    let says = Says { host: "bucket.s3.example.test", region: "eu-central-7", token: true };
    is_reached(&server, &place, lines, &environment, says);
}

#[test]
fn the_environment_says_all_that_the_job_file_leaves_open() {
    let server = Server::start();
    let place = flights::place("");
    place.write("home/.aws/credentials", profiles(""));
    let environment = [
        ("AWS_ENDPOINT_URL", format!("http://{}", server.bucket.address)),
        ("AWS_ALLOW_HTTP", "true".to_owned()),
        ("AWS_REGION", "eu-south-9".to_owned()),
        ("AWS_ACCESS_KEY_ID", "test".to_owned()),
        ("AWS_SECRET_ACCESS_KEY", SECRET.to_owned()),
        ("AWS_SESSION_TOKEN", TOKEN.to_owned()),
    ];
    is_reached(&server, &place, "", &environment, Says { host: "", region: "eu-south-9", token: true });
}

#[test]
fn a_profile_has_a_region_and_is_found_in_the_usual_place() {
    let server = Server::start();
    let place = flights::place("");
    place.write("home/.aws/credentials", profiles("region = ap-east-5\n"));
    let table = format!("\n[checkpoint.s3]\nendpoint = \"http://{}\"\nallow-http = true\n", server.bucket.address);
    is_reached(&server, &place, &format!("{table}profile = \"other\"\n"), &[], Says { host: "", region: "ap-east-5", token: false });

    // The job file has the last word.
    let server = Server::start();
    let place = flights::place("");
    place.write("credentials", profiles("").replace("other", "mine"));
    let mine = "credentials-file = \"credentials\"\nprofile = \"mine\"\nregion = \"us-west-8\"\n";
    let environment =
        [("AWS_PROFILE", "default".to_owned()), ("AWS_REGION", "wrong".to_owned()), ("AWS_ACCESS_KEY_ID", "wrong".to_owned())];
    let table = format!("\n[checkpoint.s3]\nendpoint = \"http://{}\"\nallow-http = true\n", server.bucket.address);
    is_reached(&server, &place, &format!("{table}{mine}"), &environment, Says { host: "", region: "us-west-8", token: false });
}
