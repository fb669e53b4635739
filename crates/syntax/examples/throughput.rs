//! How fast texts are parsed and formatted:
//! `cargo run --release -p mgmt-syntax --example throughput [parse|format] [BYTES…]`
//!
//! For each size prints the best of several runs in megabytes per second and nanoseconds per line, on one core.

use std::{fmt::Write, hint::black_box, time::Instant};

/// The same as in the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let sizes: Vec<usize> = std::env::args().skip(1).filter_map(|size| size.parse().ok()).collect();
    let sizes = if sizes.is_empty() { vec![30_000, 1_000_000, 20_000_000] } else { sizes };
    let only = std::env::args().find(|argument| argument == "parse" || argument == "format");
    for size in sizes {
        let text = program(size);
        let lines = text.lines().count();
        let runs = (200_000_000 / size).clamp(5, 1000);
        let report = |what: &str, work: &dyn Fn()| {
            if only.as_ref().is_some_and(|only| !what.starts_with(only.as_str())) {
                return;
            }
            let best = (0..runs).map(|_| {
                let start = Instant::now();
                work();
                start.elapsed()
            });
            let best = best.min().unwrap_or_default().as_secs_f64();
            let (speed, cost) = (text.len() as f64 / best / 1e6, best / lines as f64 * 1e9);
            #[expect(clippy::print_stdout, reason = "this is what the program is for")]
            {
                println!(
                    "{what:>16} {:>9} bytes {lines:>7} lines {speed:>7.1} MB/s {cost:>6.0} ns/line",
                    text.len()
                );
            }
        };
        report("parse", &|| drop(black_box(mgmt_syntax::parse(&text))));
        report("format", &|| drop(black_box(mgmt_syntax::format(&text))));
        if let Ok(canonical) = mgmt_syntax::format(&text) {
            report("format canonical", &|| drop(black_box(mgmt_syntax::format(&canonical))));
        }
    }
}

/// A program of about the given size, with what real ones have: resources, binds, classes, comments, and some calls.
fn program(size: usize) -> String {
    let mut text = String::from("import \"fmt\"\nimport \"os\"\nimport \"strings\" as str_tools\n\n");
    let mut number = 0_usize;
    while text.len() < size {
        number += 1;
        write_part(&mut text, number).unwrap_or_default();
    }
    text
}

fn write_part(text: &mut String, n: usize) -> std::fmt::Result {
    let group = n % 7;
    writeln!(text, "# Service number {n}, which belongs to group {group}.")?;
    writeln!(text, "$name_{n} = \"service-{n}\"")?;
    writeln!(text, "$port_{n} = 8000 + {} * 2 # a free one", n % 1000)?;
    writeln!(text, "$enabled_{n} = $port_{n} > 80 and not ($name_{n} in [\"a\", \"b\"])")?;
    writeln!(
        text,
        "$options_{n} = struct{{user => \"www-{group}\", limits => [1, 2, {n}], ratio => 0.75}}\n"
    )?;
    writeln!(
        text,
        "file \"/etc/service/${{name_{n}}}.conf\" {{
\tstate => \"exists\",
\tcontent => fmt.printf(\"listen %d\\nuser %s\\n\", $port_{n}, $options_{n}->user),
\towner => \"root\",
\tgroup => \"root\",
\tmode => \"u=rw,go=r\",
\tMeta:autogroup => false,

\tNotify => Svc[\"service-{n}\"],
}}

svc \"service-{n}\" {{
\tstate => if $enabled_{n} {{ \"running\" }} else {{ \"stopped\" }},
\tstartup => \"enabled\", # also after a reboot
\tsession => $enabled_{n} ?: false,
}}
"
    )?;
    if group == 0 {
        writeln!(
            text,
            "class group_{n}($count int, $names []str) {{
\tfor $index, $value in $names {{
\t\texec \"${{value}}-{n}\" {{
\t\t\tcmd => \"/usr/bin/touch\",
\t\t\targs => [\"-a\", \"/tmp/${{value}}\",],
\t\t\tshell => \"\",
\t\t\tDepend => File[\"/etc/service/${{name_{n}}}.conf\"],
\t\t}}
\t}}
\tif $count > {n} {{
\t\tprint \"many\" {{
\t\t\tmsg => str_tools.join(\", \", map($names, func($x) {{ $x + \"!\" }})),
\t\t}}
\t}} else {{
\t\tPkg[\"a\"] -> File[\"b\"] -> Svc[\"service-{n}\"]
\t}}
}}
include group_{n}({group}, [\"x\", \"y\"]) as g{n}
"
        )?;
    }
    Ok(())
}
