use std::collections::BTreeMap;

use super::*;

/// A cluster in one line: for each member its name, then `+` healthy or `-` not, then letters: `l`earner, `L`eader, `g`one,
/// `q`uits, `s`ilent. After `|` the hosts that could join, each with `!` for every failure.
fn check(cluster: &str, ideal: usize, expected: &str) {
    let (members, candidates) = cluster.split_once('|').unwrap_or((cluster, ""));
    let mut standings = BTreeMap::new();
    let members: Vec<Member> = members
        .split_whitespace()
        .zip(1..)
        .map(|(text, id)| {
            let id = MemberId(id);
            let has = |letter: char| text[1..].contains(letter);
            let learner = has('l');
            let standing = match () {
                () if has('g') => Standing::Gone,
                () if has('q') => Standing::Leaving,
                () if has('s') => Standing::Silent,
                () if has('+') => Standing::Serving,
                () => Standing::Ailing,
            };
            if !learner {
                standings.insert(id, standing);
            }
            Member {
                id,
                name: text[..1].to_owned(),
                peers: Vec::new(),
                learner,
                leader: has('L'),
                healthy: has('+'),
                caught_up: true,
            }
        })
        .collect();
    let offer = Volunteer {
        instance: "i".into(),
        peers: vec!["p".into()],
        clients: Vec::new(),
        member: None,
        well: false,
        leaving: false,
    };
    let candidates = candidates.split_whitespace().map(|text| {
        let failures = text.matches('!').count() as u32;
        let after = members.iter().find(|member| member.name == text[..1]).map(|member| member.id);
        Candidate { host: &text[..1], offer: &offer, failures, after }
    });
    let situation = Situation {
        candidates: candidates.collect(),
        members: &members,
        standings,
        ideal,
        decider: "a",
        uneven_is_better: true,
    };
    let chosen = match situation.choose() {
        None => "rest".to_owned(),
        Some(Change::Join { host, .. }) => format!("join {host}"),
        Some(Change::Remove { host, reason, .. }) => format!("remove {host} {reason:?}").to_lowercase(),
    };
    assert_eq!(chosen, expected, "{cluster} with an ideal of {ideal}");
}

#[test]
fn an_even_number_of_hosts_gives_an_odd_number_of_voters() {
    check("a+L", 5, "rest");
    check("a+L | b", 5, "rest");
    check("a+L | b c", 5, "join b");
    check("a+L b+ | c", 5, "join c");
    check("a+L b+ c+ | d", 5, "rest");
    check("a+L b+ c+ | d e", 5, "join d");
    check("a+L b+ c+ d+", 5, "remove d surplus");
    check("a+L b+", 5, "remove b surplus");
    check("a+L b+ c+ | d e", 4, "rest");
}

#[test]
fn the_ideal_is_never_exceeded() {
    check("a+L | b c d", 1, "rest");
    check("a+L b+ c+", 1, "remove c surplus");
    check("a+L b+ c+", 2, "remove c surplus");
    check("a+L b+ c+ d+ e+", 3, "remove e surplus");
}

#[test]
fn the_leader_and_the_decider_are_the_last_to_be_too_many() {
    check("a+ b+ c+L", 1, "remove b surplus");
    check("a+ c+L", 1, "remove a surplus");
    check("a+L b+s c+", 1, "remove b surplus");
    check("a+L b- c+", 1, "remove b surplus");
}

#[test]
fn a_dead_voter_keeps_its_place_until_somebody_can_take_it() {
    check("a+L b+ c-g", 5, "rest");
    check("a+L b+ c-g | d", 5, "remove c gone");
    check("a+L b+ c-g | c", 5, "remove c gone");
    check("a+L b+ c+ d+ e-g", 5, "rest");
}

#[test]
fn dead_voters_are_removed_where_the_rest_are_better_off() {
    check("a+L b+ c+ d-g e-g", 5, "remove d gone");
    check("a+L b+ c+ e-g", 5, "remove e gone");
    check("a+L b+ c-g", 1, "remove c gone");
}

#[test]
fn the_dead_member_that_is_in_the_way_is_removed_first() {
    check("a+L b+ c+ d-g e-g | e", 5, "remove e gone");
}

#[test]
fn without_a_majority_nothing_is_done() {
    check("a+L b-", 5, "rest");
    check("a+L b-g | c", 5, "rest");
    check("a+L b- c-g d+l", 5, "rest");
    check("a-", 5, "rest");
}

#[test]
fn no_voter_is_removed_if_the_rest_have_no_majority() {
    check("a+L b+q c-", 5, "rest");
    check("a+L b- c+", 1, "remove b surplus");
    check("a+Lq", 5, "rest");
    check("a+Lq | b", 5, "join b");
    check("a+Lq b+", 5, "remove a leaving");
    check("a+L b+q c+q", 5, "remove b leaving");
}

#[test]
fn nobody_joins_while_a_vote_could_not_be_given() {
    check("a+L b+ c- | d e f", 5, "rest");
    check("a+L b+ c+ d- | e f", 5, "join e");
}

#[test]
fn a_learner_that_nobody_asked_for_is_removed_first() {
    check("a+L b+l | c", 5, "remove b orphan");
}

#[test]
fn those_that_have_not_failed_are_preferred() {
    check("a+L | b!! c! d e", 3, "join d");
    check("a+L b+ | c! d!!", 3, "join c");
}

#[test]
fn if_nobody_can_be_spared_the_most_doubtful_is_tried_first() {
    check("a+L | b c!", 5, "join c");
    check("a+L | b! c!!", 3, "join c");
}

#[test]
fn odd_numbers_are_the_largest_below() {
    let numbers: Vec<usize> = (0..8).map(odd).collect();
    assert_eq!(numbers, [1, 1, 1, 3, 3, 5, 5, 7]);
}

/// Every cluster of up to seven voters, each healthy or not.
#[test]
fn no_permitted_change_costs_the_majority() {
    for all in 1..=7_u32 {
        for health in 0..(1_u32 << all) {
            let members: Vec<Member> = (0..=all)
                .map(|id| Member {
                    id: MemberId(u64::from(id)),
                    name: id.to_string(),
                    peers: Vec::new(),
                    learner: id == all,
                    leader: false,
                    healthy: id == all || health & (1 << id) != 0,
                    caught_up: true,
                })
                .collect();
            let well = health.count_ones();
            for id in 0..all {
                let left = well - ((health >> id) & 1);
                let right = well > all / 2 && all > 1 && left > (all - 1) / 2;
                assert_eq!(may_remove(&members, MemberId(u64::from(id))), right, "{health:b} of {all}");
            }
            // Even if the newcomer fails at once.
            let right = well > all.div_ceil(2) || (all == 1 && well == 1);
            assert_eq!(may_promote(&members, MemberId(u64::from(all))), right, "{health:b} of {all}");
        }
    }
}
