//! `golang/runtime`

use mgmt_funcs_derive::function;
use mgmt_value::Str;

use crate::Failure;
use crate::declare::module;

module! {
    path: "golang/runtime",
    doc: "Questions about the running program. It is not written in Go, so most answers are fixed; nothing is changed.",
    functions: [
        cpu_profile, gomaxprocs, goroot, num_cpu, num_cgo_call, num_goroutine, read_trace, set_mutex_profile_fraction, stack,
        version,
    ],
}

/// Always a fatal error: there is no such profile.
///
/// ```mcl,fails
/// runtime.cpu_profile()
/// ```
#[function(reads)]
fn cpu_profile() -> Result<Str, Failure> {
    Err(Failure::fatal("there is no CPU profile to read"))
}

/// The number of processors that the program may use. The argument is ignored: nothing is changed.
///
/// ```mcl
/// runtime.gomaxprocs(0) == runtime.num_cpu()
/// ```
#[function(reads)]
fn gomaxprocs(_n: i64) -> i64 {
    num_cpu()
}

/// The empty text: no Go is installed with the program.
///
/// ```mcl
/// runtime.goroot() == ""
/// ```
#[function(reads)]
fn goroot() -> Str {
    Str::EMPTY
}

/// The number of processors that the program may use.
///
/// ```mcl
/// runtime.num_cpu() >= 1
/// ```
#[function(reads)]
fn num_cpu() -> i64 {
    std::thread::available_parallelism().map_or(1, |count| count.get() as i64)
}

/// Always 0.
///
/// ```mcl
/// runtime.num_cgo_call() == 0
/// ```
#[function(reads)]
fn num_cgo_call() -> i64 {
    0
}

/// Always 1.
///
/// ```mcl
/// runtime.num_goroutine() == 1
/// ```
#[function(reads)]
fn num_goroutine() -> i64 {
    1
}

/// The empty text: nothing is traced.
///
/// ```mcl
/// runtime.read_trace() == ""
/// ```
#[function(reads)]
fn read_trace() -> Str {
    Str::EMPTY
}

/// Always 0: nothing is changed.
///
/// ```mcl
/// runtime.set_mutex_profile_fraction(5) == 0
/// ```
#[function(reads)]
fn set_mutex_profile_fraction(_rate: i64) -> i64 {
    0
}

/// Always 0: no stack is written.
///
/// ```mcl
/// runtime.stack("buffer", false) == 0
/// ```
#[function(reads)]
fn stack(_buf: &[u8], _all: bool) -> i64 {
    0
}

/// The version of Go whose library the `golang` modules follow.
///
/// ```mcl
/// runtime.version() == "go1.25.7"
/// ```
#[function(reads)]
fn version() -> String {
    "go1.25.7".to_owned()
}
