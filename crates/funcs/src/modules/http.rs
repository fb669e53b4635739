//! `net/http`

use mgmt_funcs_derive::function;
use mgmt_value::{Str, Value};

use crate::declare::module;
use crate::look::{Answer, Question, look_now};
use crate::{Failure, Host, Watch};

module! {
    path: "net/http",
    doc: "Answers to requests that resources send.",
    functions: [response],
}

/// The last answer to the request of an `http:client` resource, by its name. The name may change while the program runs.
///
/// The status is 0 while there is no answer and -1 when there was none to be had. The output is the body, or empty. An
/// empty name, and a body that cannot be read, is a fatal error.
///
/// ```mcl,host
/// http.response("check") == struct{status => 200, output => "ok",}
/// ```
#[function(live = vec![Watch::Http(uid.clone())], signature = "func(uid str) struct{status int; output str}")]
fn response(host: &dyn Host, uid: &Str) -> Result<Value, Failure> {
    if uid.is_empty() {
        return Err(Failure::fatal("the name of a request must not be empty"));
    }
    let response = host.http_response(uid).unwrap_or_default();
    let body = response.body.map(|path| {
        match look_now(Question::Content(Str::new(path.as_os_str().as_encoded_bytes())))? {
            Answer::Bytes(content) => Ok(content),
            Answer::Failed(message) => {
                Err(Failure::fatal(format!("can't read the answer to {uid:?}: {message}")))
            }
            _ => Err(Failure::fatal(format!(
                "can't read the answer to {uid:?}: {} does not exist",
                path.display()
            ))),
        }
    });
    let output = Value::str(body.transpose()?.unwrap_or_default());
    Ok(Value::structure([("status", Value::Int(response.status)), ("output", output)]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Response;
    use crate::modules::tests::shown;

    struct Answered(Option<std::path::PathBuf>);

    impl Host for Answered {
        fn http_response(&self, _: &Str) -> Option<Response> {
            Some(Response { status: 200, body: self.0.clone() })
        }
    }

    #[test]
    fn answers_have_a_status_and_a_body() {
        assert_eq!(shown("net/http.response", &[Value::str("x")]), r#"struct{status: 0; output: ""}"#);
        assert!(shown("net/http.response", &[Value::str("")]).starts_with("F: "));
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "body").unwrap();
        let ask = |path| response(&Answered(path), &"x".into()).map(|value| value.to_string());
        assert_eq!(ask(Some(file.path().to_owned())).unwrap(), r#"struct{status: 200; output: "body"}"#);
        assert_eq!(ask(None).unwrap(), r#"struct{status: 200; output: ""}"#);
        assert!(matches!(ask(Some("/no/such/file".into())), Err(Failure::Fatal(_))));
    }
}
