//! What is behind an error of object_store, in few words and without secrets: it wraps the word of the operating system or of a server
//! several times, and a server's answer may repeat keys and signatures.

use std::error::Error;

use object_store::client::HttpError;

/// The cause of an error. Of a server's answer it is the status, the code and the message; the rest of the answer is left out.
pub(super) fn cause(error: &(dyn Error + 'static)) -> String {
    let root = chain(error).last().map(ToString::to_string).unwrap_or_default();
    if root.contains("169.254.169.254") || error.to_string().contains("169.254.169.254") {
        return "no credentials were found, and this machine has none to give".into();
    }
    let Some(answer) = answer(&root) else { return root };
    // What is before the body is short: "403 Forbidden".
    let status = answer.split([':', '<', '{']).next().unwrap_or_default().trim();
    let parts = [Some(status), element(answer, "Code"), element(answer, "Message")];
    let parts: Vec<&str> = parts.into_iter().flatten().filter(|part| !part.is_empty()).collect();
    parts.join(": ")
}

/// A server's answer, as object_store tells it: its status, if that says that something is wrong, and its body.
fn answer(root: &str) -> Option<&str> {
    ["non-2xx status code: ", "error response: "].iter().find_map(|begin| root.split_once(begin)).map(|(_, answer)| answer)
}

/// Whether a server has said so, or the way to it has failed. Then what was asked for may have been done all the same, by this request or, if
/// that was made twice, by the one before.
pub(super) fn is_remote(error: &(dyn Error + 'static)) -> bool {
    let root = chain(error).last().map(ToString::to_string).unwrap_or_default();
    chain(error).any(|error| error.is::<HttpError>()) || answer(&root).is_some()
}

/// Whether the same request may succeed later: it, or its answer, was lost on the way, so that it is unknown what became of it; or the
/// server was too busy.
pub(super) fn may_pass(error: &(dyn Error + 'static)) -> bool {
    const BUSY: &[&str] = &["408", "429", "500", "502", "503", "504", "<"];
    let root = chain(error).last().map(ToString::to_string).unwrap_or_default();
    chain(error).any(|error| error.is::<HttpError>())
        || answer(&root).is_some_and(|answer| BUSY.iter().any(|busy| answer.starts_with(busy)))
}

fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

/// What stands in the first element of this name.
fn element<'a>(xml: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    rest.split_once("</").map(|(content, _)| content.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_servers_answer_is_told_without_what_it_repeats() {
        let said = |text: &str| cause(Box::<dyn Error + Send + Sync>::from(text).as_ref());
        let answer = "Server returned non-2xx status code: 403 Forbidden: <?xml version=\"1.0\"?><Error><Code>SignatureDoesNotMatch</Code>\
                      <Message>It does not match.</Message><AWSAccessKeyId>AKID</AWSAccessKeyId></Error>";
        assert_eq!(said(answer), "403 Forbidden: SignatureDoesNotMatch: It does not match.");
        assert_eq!(said("Server returned non-2xx status code: 502 Bad Gateway: <html>AKID</html>"), "502 Bad Gateway");
        assert_eq!(said("Server returned error response: <Error><Code>SlowDown</Code></Error>"), "SlowDown");
        assert_eq!(said("connection refused"), "connection refused");
        let passes = |text: &str| may_pass(Box::<dyn Error + Send + Sync>::from(text).as_ref());
        assert!(passes("Server returned non-2xx status code: 503 Slow Down: ") && passes("Server returned error response: <Error>"));
        assert!(!passes(answer) && !passes("Server returned non-2xx status code: 501 Not Implemented: ") && !passes("no such file"));
    }
}
