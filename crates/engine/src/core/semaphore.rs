//! Counting semaphores, given out in the order of asking.

use std::collections::{BTreeMap, HashMap};

use super::{Semaphore, Vertex};

/// All semaphores of the graph. One that nobody holds or wants does not exist.
#[derive(Debug, Default)]
pub(super) struct Semaphores {
    by_id: HashMap<Semaphore, Units>,
    last_ticket: u64,
}

#[derive(Debug, Default)]
struct Units {
    held: u32,
    /// Who asked, by ticket: a lower one asked earlier.
    asking: BTreeMap<u64, Vertex>,
}

impl Semaphores {
    /// Gets in line for all of them.
    pub(super) fn ask(&mut self, vertex: Vertex, wanted: &[Semaphore]) -> u64 {
        self.last_ticket += 1;
        for semaphore in wanted {
            self.by_id.entry(semaphore.clone()).or_default().asking.insert(self.last_ticket, vertex);
        }
        self.last_ticket
    }

    /// Takes one unit of each, or nothing. A unit is due to whoever asked first, so nobody is overtaken for ever;
    /// and as nothing is held while waiting, there is no deadlock.
    pub(super) fn take(&mut self, ticket: u64, wanted: &[Semaphore]) -> bool {
        let due = wanted.iter().all(|semaphore| {
            self.by_id.get(semaphore).is_some_and(|units| {
                let free = semaphore.size().saturating_sub(units.held) as usize;
                units.asking.range(..ticket).take(free).count() < free
            })
        });
        if due {
            for semaphore in wanted {
                if let Some(units) = self.by_id.get_mut(semaphore) {
                    units.asking.remove(&ticket);
                    units.held += 1;
                }
            }
        }
        due
    }

    /// Gives one unit of each back. Returns who may be next, in the order of asking.
    pub(super) fn release(&mut self, held: &[Semaphore]) -> Vec<Vertex> {
        for semaphore in held {
            if let Some(units) = self.by_id.get_mut(semaphore) {
                units.held -= 1;
            }
        }
        self.next_in_line(held)
    }

    /// Steps out of the line. Returns who may be next.
    pub(super) fn withdraw(&mut self, ticket: u64, wanted: &[Semaphore]) -> Vec<Vertex> {
        for semaphore in wanted {
            if let Some(units) = self.by_id.get_mut(semaphore) {
                units.asking.remove(&ticket);
            }
        }
        self.next_in_line(wanted)
    }

    fn next_in_line(&mut self, semaphores: &[Semaphore]) -> Vec<Vertex> {
        let mut next = BTreeMap::new();
        for semaphore in semaphores {
            let Some(units) = self.by_id.get(semaphore) else { continue };
            let free = semaphore.size().saturating_sub(units.held) as usize;
            next.extend(units.asking.iter().take(free).map(|(ticket, vertex)| (*ticket, *vertex)));
            if units.held == 0 && units.asking.is_empty() {
                self.by_id.remove(semaphore);
            }
        }
        next.into_values().collect()
    }

    /// How many units of a semaphore are held.
    pub(super) fn held(&self) -> impl Iterator<Item = (&Semaphore, u32)> {
        self.by_id.iter().map(|(semaphore, units)| (semaphore, units.held))
    }
}
