//! Range reads: many keys, as they are at one moment.

use std::collections::BTreeMap;

use super::Core;
use super::failure::Failure;
use super::servers::Call;
use super::wire;
use mgmt_store::{Entry, Snapshot, Span, StoreError};

const RANGE: Call = Call::read("/etcdserverpb.KV/Range");
const TXN: Call = Call::read("/etcdserverpb.KV/Txn");

/// How many spans are asked for at once, and how many keys of each. When an answer does not fit, the next pair is used.
/// The last one always fits: the largest request that etcd takes is 1.5 MiB, and so is the largest entry.
const STEPS: [(usize, i64); 3] = [(128, 256), (128, 16), (8, 4)];

/// A moment that has become history before everything of it was read is given up for a newer one, this often.
const MOMENTS: u32 = 5;

/// The first key of a span, and the first one behind it.
type Bounds = (Vec<u8>, Vec<u8>);

/// What is to be read of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Detail {
    /// All of it.
    All,
    /// Everything but the value.
    Keys,
}

/// Reads keys as they all are at one moment.
pub(super) async fn read(core: &Core, spans: &[Span], detail: Detail) -> Result<Snapshot, StoreError> {
    let ranges: Result<Vec<Bounds>, StoreError> =
        spans.iter().map(|span| core.namespace.range(span)).collect();
    let ranges = ranges?;
    let mut step = 0;
    let mut moments = 0;
    loop {
        let Some(&size) = STEPS.get(step) else { return Err(Failure::TooLarge.of_read()) };
        match read_at_once(core, &ranges, detail, size).await {
            Ok(snapshot) => return Ok(snapshot),
            Err(Failure::TooLarge) => step += 1,
            Err(Failure::Compacted) if moments < MOMENTS => moments += 1,
            Err(failure) => return Err(failure.of_read()),
        }
    }
}

async fn read_at_once(
    core: &Core,
    ranges: &[Bounds],
    detail: Detail,
    (width, limit): (usize, i64),
) -> Result<Snapshot, Failure> {
    let ask = |(key, end): Bounds, revision: i64| wire::Range {
        key,
        end,
        limit,
        revision,
        keys_only: detail == Detail::Keys,
    };
    // The first answer decides about the moment; everything else is asked for as it was then.
    let mut moment = 0;
    let mut found = BTreeMap::new();
    let mut first = true;
    let mut groups = ranges.chunks(width);
    while let Some(group) = groups.next().or(if first { Some(&[][..]) } else { None }) {
        first = false;
        let success = group
            .iter()
            .map(|range| wire::OperationKind::Range(ask(range.clone(), moment)))
            .map(|kind| wire::Operation { kind: Some(kind) })
            .collect();
        let question = wire::Txn { success, ..wire::Txn::default() };
        let answer: wire::TxnDone = core.servers.call(TXN, question).await?;
        if moment == 0 {
            moment = revision_of(answer.header.as_ref())?;
        }
        if answer.answers.len() != group.len() {
            return Err(Failure::Unknown("etcd answered another question than it was asked".to_owned()));
        }
        for ((start, end), answer) in group.iter().zip(answer.answers) {
            let mut start = start.clone();
            let mut page = answer.range.unwrap_or_default();
            loop {
                let more = page.more;
                let last = page.entries.last().map(|entry| entry.key.clone());
                collect(core, page.entries, &mut found);
                let (true, Some(mut next)) = (more, last) else { break };
                next.push(0);
                if next <= start {
                    return Err(Failure::Unknown("etcd gives the same keys again and again".to_owned()));
                }
                start.clone_from(&next);
                page = core.servers.call(RANGE, ask((next, end.clone()), moment)).await?;
            }
        }
    }
    Ok(Snapshot { revision: moment.unsigned_abs(), entries: found.into_values().collect() })
}

fn collect(core: &Core, entries: Vec<wire::KeyValue>, found: &mut BTreeMap<String, Entry>) {
    for entry in entries.into_iter().filter_map(|entry| core.namespace.entry(entry)) {
        found.insert(entry.key.clone(), entry);
    }
}

/// The revision of an answer. An etcd begins with 1, so 0 means that the answer is worth nothing.
pub(super) fn revision_of(header: Option<&wire::Header>) -> Result<i64, Failure> {
    match header.map_or(0, |header| header.revision) {
        revision if revision > 0 => Ok(revision),
        _ => Err(Failure::Unknown("etcd answered without a revision".to_owned())),
    }
}
