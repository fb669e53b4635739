use super::{check, graph};
use mgmt_resource::{Fields, Meta};

#[test]
fn all_metaparameters_can_be_set() {
    let meta = "noop: yes, retry: -1, retryreset: true, delay: 5000, timeout: 300, poll: -5, limit: 0.2, burst: 5, reset: on, sema: ['a:1', b], rewatch: true, realize: true, dollar: true, hidden: true, export: ['*'], reverse: true, autoedge: false, autogroup: no, window: [sat], onleave: finish";
    let graph = graph(&format!("graph: x\nresources:\n  noop:\n  - {{name: one, meta: {{{meta}}}}}\n"));
    let (_, spec) = graph.graph.nodes().next().unwrap();
    let expected = Meta {
        noop: true,
        retry: Some(-1),
        retryreset: true,
        delay: 5000,
        timeout: 300,
        poll: -5,
        limit: 0.2,
        burst: 5,
        reset: true,
        sema: vec!["a:1".into(), "b".into()],
        rewatch: true,
        realize: true,
        dollar: true,
        hidden: true,
        export: vec!["*".into()],
        reverse: true,
        autoedge: false,
        autogroup: false,
        window: vec!["sat".into()],
        onleave: "finish".into(),
    };
    assert_eq!(*spec.meta, expected);
    assert_eq!(meta.split(": ").count() - 1, Meta::FIELDS.len());
}

#[test]
fn what_is_not_given_has_its_default() {
    for meta in ["", "{}", "{limit: .inf, burst: 0}", "~"] {
        let graph = graph(&format!("graph: x\nresources:\n  noop:\n  - name: one\n    meta: {meta}\n"));
        let (_, spec) = graph.graph.nodes().next().unwrap();
        assert_eq!(*spec.meta, Meta::default());
        assert!(spec.meta.autoedge && spec.meta.autogroup);
    }
}

#[test]
fn unknown_metaparameters_are_errors() {
    check(
        "graph: x\nresources:\n  noop:\n  - name: one\n    meta: {retrry: 3, delai: 3, colour: red}\n",
        "E Y0301 5:12 there is no metaparameter `retrry` | did you mean `retry`?
         E Y0301 5:23 there is no metaparameter `delai` | did you mean `delay`?
         E Y0301 5:33 there is no metaparameter `colour` | the metaparameters are noop, retry, retryreset, delay, timeout, poll, limit, burst, reset, sema, rewatch, realize, dollar, hidden, export, reverse, autoedge, autogroup, window, onleave",
    );
}

#[test]
fn words_of_a_window_have_to_mean_something() {
    check(
        "graph: x\nresources:\n  noop:\n  - name: one\n    meta: {window: [sat, dayly]}\n",
        "E Y0302 5:20 noop[one]: `window`: `dayly` is neither hours, nor a day, nor how often | did you mean `daily`?",
    );
}

#[test]
fn metaparameters_have_types() {
    check(
        "graph: x\nresources:\n  noop:\n  - name: one\n    meta: {retry: many, noop: '1', delay: -1, sema: a, poll: 99999999999}\n  - name: two\n    meta: [noop]\n",
        "E Y0206 5:19 `retry` expects int, found `many` | write a whole number, such as `42`, `0x2a` or `0o52` | `retry`: The number of retries after a failure, `delay` apart, of the watch and of the check separately; -1 is for ever.
         E Y0206 5:31 `noop` expects bool, found the quoted text `1` | write `true` or `false` | `noop`: Check only: report what would change and change nothing.
         E Y0207 5:43 `delay`: can't store negative int `-1` into unsigned `uint64` field | `delay`: The time between retries that `retry` declares, in milliseconds.
         E Y0206 5:53 `sema` expects []str, found `a` | write a list, such as `[a, b]`, also for one item | `sema`: Semaphores to hold during check and apply, each as `id` (one at a time) or `id:count`.
         E Y0207 5:62 `poll`: int `99999999999` does not fit a `int32` field: it will overflow it | `poll`: Check every so many seconds instead of watching; negative: check once at the start and never again.
         E Y0206 7:11 `meta` expects a map, found a list",
    );
}

#[test]
fn metaparameters_that_cannot_be_are_pointed_at() {
    check(
        "graph: x\nresources:\n  noop:\n  - {name: one, meta: {limit: 3.5}}\n  - {name: two, meta: {sema: ['']}}\n",
        "E Y0302 4:31 noop[one]: `burst`: a finite `limit` needs a `burst` of at least 1
         E Y0302 5:30 noop[two]: `sema`: a semaphore needs an id",
    );
}
